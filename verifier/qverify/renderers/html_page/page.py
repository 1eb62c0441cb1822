"""The whole page: what was decided and why on top, then the curve, the tensors, and what ran."""

from __future__ import annotations

from importlib.resources import files

from qverify.renderers.html_page import curve, tensors
from qverify.renderers.html_page.elements import MARKS, element, facts, listed, number, text, verdict
from qverify.renderers.summary_lines import summary_lines
from qverify.renderers.verdict_lines import CAUSES, common_weakenings, line
from qverify.report.document import Pair, Report

POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"
)

ORDER = {"FAILED": 0, "INCONCLUSIVE": 1, "PASSED": 2}


def render(report: Report) -> str:
    """Returns the page as HTML. report: with every text printable."""
    models = ", ".join(str(m.get("path", "")) for m in report.models)
    title = f"qverify: {report.verdict}" + (f", {models}" if models else "")
    ordered = sorted(enumerate(report.pairs), key=lambda pair: ORDER[pair[1].verdict])
    body = [_top(report, models), *(_pair(pair, at) for at, pair in ordered), _ran(report), _notes(report)]
    head = element("meta", charset="utf-8").removesuffix("</meta>")
    head += element("meta", name="viewport", content="width=device-width, initial-scale=1").removesuffix("</meta>")
    head += element("meta", http_equiv="Content-Security-Policy", content=POLICY).removesuffix("</meta>")
    head += element("title", text(title)) + element("style", _asset("style.css"))
    main = element("main", *body)
    return f'<!DOCTYPE html>\n<html lang="en"><head>{head}</head><body>{main}{element("script", _asset("script.js"))}</body></html>\n'


def _asset(name: str) -> str:
    return (files("qverify.renderers.html_page") / name).read_text(encoding="utf-8")


def _top(report: Report, models: str) -> str:
    common = common_weakenings(report)
    said = [
        element(
            "li", element("span", MARKS[p.verdict], class_=f"verdict {p.verdict.lower()}"), " ", text(line(p, common))
        )
        for p in report.pairs
    ]
    blamed = [
        element(
            "p",
            f"{element('strong', text(b.side))} is to blame at {element('code', text(b.node))}. {text(b.why)}",
            class_="blame",
        )
        for b in report.blamed
    ]
    if report.verdict == "FAILED" and not blamed:
        causes = dict.fromkeys(CAUSES.get(p.cause or "", p.cause or "") for p in report.pairs if p.verdict == "FAILED")
        blamed = [element("p", text("; ".join(["No node is to blame", *filter(None, causes)])), ".", class_="blame")]
    boards = f" on {text(', '.join(report.boards))}" if report.boards else ""
    date = report.date.replace("T", " ").replace("+00:00", " UTC")
    under = element("p", f"{text(models)}{boards}; {text(date)}; qverify {text(report.qverify)}", class_="under")
    return element(
        "header", element("h1", verdict(report.verdict)), under, *blamed, element("ul", *said, class_="lines")
    )


def _pair(pair: Pair, at: int) -> str:
    if not pair.tensors:
        return ""
    place = "".join(f", {text(word)}" for word in (pair.board, f"frame {pair.frame}" if pair.frame else "") if word)
    covered = pair.coverage
    summary = (
        f"{covered.compared} of {covered.expected} tensors compared, {covered.elements} elements"
        + (f" ({covered.by_digest} of them by digest)" if covered.by_digest else "")
        + f", {len(covered.missing)} missing; {'bit-equal' if pair.bit_equal else 'not bit-equal'}"
    )
    first = pair.first_divergence
    divergence = (
        element("p", f"First divergence: {element('code', text(first.tensor))} ({text(first.op)})") if first else ""
    )
    tools = element(
        "p",
        element("label", "Filter ", element("input", type="search", class_="filter").removesuffix("</input>")),
        element(
            "label",
            element("input", type="checkbox", class_="differing").removesuffix("</input>"),
            " only what differs",
        ),
        class_="tools",
        hidden=True,
    )
    parts = [
        element("h2", f"{text(pair.a)} ~ {text(pair.b)}{place}: ", verdict(pair.verdict)),
        element("p", text(summary)),
        divergence,
        listed([*(f"{m.tensor} is missing in {m.side}: {m.why}" for m in covered.missing), *pair.notes]),
    ]
    drawn = [curve.draw(pair, f"t{at}-"), tools, tensors.table(pair, f"t{at}-")]
    if pair.bit_equal and pair.verdict == "PASSED":  # nothing to see unless somebody wants to
        number_of = f"All {len(pair.tensors)} tensors are equal, bit for bit: show them"
        drawn = [element("details", element("summary", number_of), *drawn, class_="folded")]
    return element("section", *parts, *drawn, class_="pair")


def _ran(report: Report) -> str:
    rows = [
        (
            str(s.get("name")),
            text(
                f"{s.get('engine', '')} {s.get('version', '')}, {number(s.get('seconds'))} s, {s.get('state', '')} {s.get('why') or ''}"
            ),
        )
        for s in report.sides
    ]
    rows += [(str(m.get("path")), text(f"{m.get('kind', '')}, sha256 {m.get('sha256', '')}")) for m in report.models]
    rows += [
        (f"input {i.get('name')}", text(f"{i.get('source', '')}, sha256 {i.get('sha256', '')}")) for i in report.inputs
    ]
    rows += [(name, text(f"{value:.3f} s")) for name, value in report.timings.items()]
    return element("section", element("h2", "What ran"), facts(rows))


def _notes(report: Report) -> str:
    return element("section", element("h2", "Everything the report says"), listed(summary_lines(report)))
