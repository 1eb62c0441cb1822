"""Renders the table of tensors, with one row for each and its details folded in."""

from __future__ import annotations

from collections.abc import Mapping

from qverify.renderers.html_page.channels import channels_and_roles, choose_drawn
from qverify.renderers.html_page.elements import element, facts, number, text, verdict
from qverify.report.channels import describe_worst_channels
from qverify.report.document import Pair, TensorRow

HEADS = ("#", "verdict", "tensor", "op", "type", "differ", "max |a-b|", "LSB", "SQNR dB", "cosine", "recomputed")
MAX_BARS = 41
NOT_REPEATED = {
    *("centred_sqnr_db", "euclidean_similarity"),  # the lines of --criteria show them, not every tensor
    *("max_abs", "max_lsb", "sqnr_db", "cosine"),  # cells of the row
}

OF_DRAWN = ("kl_divergence", "max_ulp")  # that only the tensors whose channels are drawn show


def table(pair: Pair, anchor: str, graphs: Mapping[str, str], drawings: Mapping[str, str]) -> str:
    """Returns the table of a pair, which a script can sort and filter. anchor: prefix of the ids of its rows. graphs:
    ids of the graphs around tensors. drawings: ids of the drawings of tensors."""
    heads = [element("th", element("button", text(name), type="button"), scope="col") for name in HEADS]
    drawn = choose_drawn(pair.tensors)
    rows = [
        _row(row, at, f"{anchor}{at}", graphs.get(row.name, ""), drawings.get(row.name, ""), row.name in drawn)
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


def _row(row: TensorRow, at: int, anchor: str, graph: str, drawing: str, by_channel: bool) -> str:
    metrics, forced = row.metrics, row.forced
    share = row.failing if row.failing is not None else metrics.get("mismatched")
    cells = [
        _cell(str(at), at),
        _cell(verdict(row.verdict)),
        element(
            "th",
            element("details", element("summary", text(row.name)), _details(row, graph, drawing, by_channel)),
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
    return element("tr", *cells, id=anchor, class_=f"{row.verdict.lower()}{differs}")


def _cell(inside: str, value: object = None) -> str:
    """Returns a cell. value: sort key, if it differs from the text."""
    return element("td", inside, data_value=None if str(value) == inside else value)


def _metric(row: TensorRow, name: str) -> str:
    value = row.metrics.get(name)
    if row.bit_equal and (value is None or name == "sqnr_db"):
        return _cell("=", "inf" if name == "sqnr_db" else "")
    shown = number(value)
    if name == "cosine" and shown == "1" and not row.bit_equal:
        shown = "almost 1"
    return _cell(shown, value if isinstance(value, (int, float)) else "")


def _details(row: TensorRow, graph: str, drawing: str, by_channel: bool) -> str:
    facts_of_row = [("why", text(row.why))] if row.why else []
    facts_of_row += [("graph", element("a", "its neighbours", href=f"#{graph}"))] if graph else []
    facts_of_row += (
        [("drawn", element("a", "density, differences, maps, values", href=f"#{drawing}"))] if drawing else []
    )
    facts_of_row += [("covers", text(", ".join(row.covers)))] if row.covers and not graph else []
    facts_of_row += [("bytes", "the same on both sides")] if row.bit_equal else []
    metrics = {} if row.bit_equal else row.metrics
    left_out = NOT_REPEATED if by_channel else NOT_REPEATED | {*OF_DRAWN}
    numbers = ((name, v) for name, v in metrics.items() if name not in left_out and not isinstance(v, dict))
    facts_of_row += [(name, number(v)) for name, v in numbers if v is not None]
    if by_channel and row.channels is not None and (worst_channels := describe_worst_channels(row.channels)):
        facts_of_row.append(("channels", text(worst_channels)))
    if row.forced is not None:
        forced = row.forced
        worst = "" if forced.max_lsb is None else f", up to {forced.max_lsb} LSB"
        counted = (
            "" if forced.mismatched is None else f": {forced.mismatched} of {forced.elements} elements differ{worst}"
        )
        result = (
            f"{counted}; limit {forced.limit} {forced.why}"
            if forced.mismatched != 0 or row.bit_equal is False
            else ": equal"
        )
        facts_of_row.append(
            (
                "recomputed",
                f"{verdict(forced.verdict)} by {text(forced.by)} from the inputs of {text(forced.on)}{text(result)}",
            )
        )
        facts_of_row += [("recomputed as one", text(forced.region.place))] if forced.region is not None else []
    histogram = row.metrics.get("lsb_histogram")
    bars = _bars(histogram) if isinstance(histogram, dict) and not drawing else ""
    return facts(facts_of_row) + bars + (channels_and_roles(row) if by_channel else "")


def _bars(histogram: dict[str, int]) -> str:
    """Returns the histogram of differences in LSB. The number of elements that agree is stated in words, since its bar
    would hide the others."""
    pairs = sorted((int(k), v) for k, v in histogram.items() if k.lstrip("-").isdigit())
    equal, others = dict(pairs).get(0, 0), [p for p in pairs if p[0]]
    if not others:
        return ""
    shown = sorted(sorted(others, key=lambda p: -p[1])[:MAX_BARS])
    highest, step = max(n for _, n in shown), 640 / max(len(shown), 8)
    bars = "".join(
        f"M{(index + 0.5) * step:.0f} 90v{-max(1.0, 80 * n / highest):.0f}" for index, (_, n) in enumerate(shown)
    )
    path = element(
        "path", d=bars, stroke_width=f"{max(step - 2, 1):.0f}", class_="s-mark", stroke="#0b57a4", fill="none"
    )
    label_step = -(-len(shown) // 9)
    names = [
        element("text", f"{lsb:+d}", x=f"{(index + 0.5) * step:.0f}", y=104, text_anchor="middle")
        for index, (lsb, _) in enumerate(shown)
        if index % label_step == 0
    ]
    most_frequent = max(shown, key=lambda p: p[1])
    label = f"differences in LSB, most often {most_frequent[0]:+d}"
    svg = element(
        "svg", path, *names, viewBox="0 0 640 108", width=640, height=108, role="img", aria_label=label, class_="bars"
    )
    words = (
        f"differences in LSB (b - a); {equal} elements agree; {most_frequent[1]} differ by {most_frequent[0]:+d}, the highest bar"
        + (f"; {len(others) - len(shown)} rarer ones not drawn" if len(others) > len(shown) else "")
    )
    return element("figure", svg, element("figcaption", words))
