"""The table of tensors, one row for each, with what is known of it folded in."""

from __future__ import annotations

from collections.abc import Mapping

from qverify.renderers.html_page.elements import element, facts, number, text, verdict
from qverify.report.document import Pair, TensorRow

HEADS = ("#", "verdict", "tensor", "op", "type", "differ", "max |a-b|", "LSB", "SQNR dB", "cosine", "recomputed")
MOST_BARS = 41


def table(pair: Pair, anchor: str, graphs: Mapping[str, str], drawings: Mapping[str, str]) -> str:
    """Returns the table of a pair, which the script sorts and filters. anchor: the beginning of its rows' ids. graphs:
    tensor to the id of the drawing of the graph around it. drawings: tensor to the id of its own drawing."""
    heads = [element("th", element("button", text(name), type="button"), scope="col") for name in HEADS]
    rows = [
        _row(row, at, f"{anchor}{at}", graphs.get(row.name, ""), drawings.get(row.name, ""))
        for at, row in enumerate(pair.tensors)
    ]
    head = element("thead", element("tr", *heads))
    caption = element(
        "caption", f"{text(pair.a)} ~ {text(pair.b)}: {len(rows)} tensors; {text(pair.gate)}; {text(pair.scope)}"
    )
    return element(
        "div",
        element("table", caption, head, element("tbody", *rows), class_="tensors"),
        class_="wide",
        tabindex=0,
        role="group",
        aria_label=f"tensors of {pair.a} ~ {pair.b}",
    )


def _row(row: TensorRow, at: int, anchor: str, graph: str, drawing: str) -> str:
    metrics, forced = row.metrics, row.forced
    share = row.failing if row.failing is not None else metrics.get("mismatched")
    cells = [
        _cell(str(at), at),
        _cell(verdict(row.verdict)),
        element(
            "th",
            element("details", element("summary", text(row.name)), _details(row, graph, drawing)),
            scope="row",
            data_value=row.name,
        ),
        _cell(text(row.op)),
        _cell(f"{text(row.dtype)} {text('x'.join(map(str, row.shape)))}", row.elements),
        _cell("" if not share else f"{share} of {row.elements}", share or 0),
        _metric(row, "max_abs"),
        _metric(row, "max_lsb"),
        _metric(row, "sqnr_db"),
        _metric(row, "cosine"),
        _cell("" if forced is None else verdict(forced.verdict)),
    ]
    differs = "" if row.bit_equal else " differs"
    return element(
        "tr", *cells, id=anchor, class_=f"{row.verdict.lower()}{differs}", data_differs=int(not row.bit_equal)
    )


def _cell(inside: str, value: object = None) -> str:
    """Returns a cell. value: what it is sorted by, where that is not its text."""
    return element("td", inside, data_value=None if str(value) == inside else value)


def _metric(row: TensorRow, name: str) -> str:
    value = row.metrics.get(name)
    if row.bit_equal and (value is None or name == "sqnr_db"):
        return _cell("=", "inf" if name == "sqnr_db" else "")
    shown = number(value)
    if name == "cosine" and shown == "1" and not row.bit_equal:
        shown = "almost 1"
    return _cell(shown, value if isinstance(value, (int, float)) else "")


def _details(row: TensorRow, graph: str, drawing: str) -> str:
    known = [("why", text(row.why))] if row.why else []
    known += [("graph", element("a", "what it reads and what reads it", href=f"#{graph}"))] if graph else []
    known += [("drawn", element("a", "density, differences, maps, values", href=f"#{drawing}"))] if drawing else []
    known += [("covers", text(", ".join(row.covers)))] if row.covers else []
    known += [("bytes", "the same on both sides")] if row.bit_equal else []
    metrics = {} if row.bit_equal else row.metrics
    known += [(name, number(v)) for name, v in metrics.items() if not isinstance(v, dict) and v is not None]
    if row.forced is not None:
        f = row.forced
        worst = "" if f.max_lsb is None else f", up to {f.max_lsb} LSB"
        counted = "" if f.mismatched is None else f": {f.mismatched} of {f.elements} elements differ{worst}"
        said = f"{counted}; limit {f.limit} {f.why}" if f.mismatched != 0 or row.bit_equal is False else ": equal"
        known.append(
            ("recomputed", f"{verdict(f.verdict)} by {text(f.by)} from the inputs of {text(f.on)}{text(said)}")
        )
    histogram = row.metrics.get("lsb_histogram")
    return facts(known) + (_bars(histogram) if isinstance(histogram, dict) and not drawing else "")


def _bars(histogram: dict[str, int]) -> str:
    """Returns the histogram of differences in LSB; the elements that agree are told in words, as their bar would hide the
    others."""
    pairs = sorted((int(k), v) for k, v in histogram.items() if k.lstrip("-").isdigit())
    equal, others = dict(pairs).get(0, 0), [p for p in pairs if p[0]]
    if not others:
        return ""
    shown = sorted(sorted(others, key=lambda p: -p[1])[:MOST_BARS])
    highest, step = max(n for _, n in shown), 640 / max(len(shown), 8)
    bars = "".join(f"M{(at + 0.5) * step:.0f} 90v{-max(1.0, 80 * n / highest):.0f}" for at, (_, n) in enumerate(shown))
    path = element(
        "path", d=bars, stroke_width=f"{max(step - 2, 1):.0f}", class_="s-mark", stroke="#0b57a4", fill="none"
    )
    every = -(-len(shown) // 9)
    names = [
        element("text", f"{lsb:+d}", x=f"{(at + 0.5) * step:.0f}", y=104, text_anchor="middle")
        for at, (lsb, _) in enumerate(shown)
        if at % every == 0
    ]
    most = max(shown, key=lambda p: p[1])
    label = f"differences in LSB, most often {most[0]:+d}"
    drawn = element(
        "svg", path, *names, viewBox="0 0 640 108", width=640, height=108, role="img", aria_label=label, class_="bars"
    )
    words = f"differences in LSB (b - a); {equal} elements agree; {most[1]} differ by {most[0]:+d}, the highest bar" + (
        f"; {len(others) - len(shown)} rarer ones not drawn" if len(others) > len(shown) else ""
    )
    return element("figure", drawn, element("figcaption", words))
