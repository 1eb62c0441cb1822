"""Renders facts about the run as sections: command, versions and settings, board, hashes of models and inputs,
times."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from qverify.renderers.html_page.elements import code, element, facts, listed, number, table, text, verdict
from qverify.renderers.html_page.frame import Section
from qverify.report.document import ReportDocument
from qverify.report.triage_document import TriageDocument

MAX_OPEN_ROWS = 12  # rows of the ledger that are not folded
FELL_BACK = "fell back"
MAX_UNFOLDED = 8  # inputs whose hashes are in sight
UNITS = {"temperature_c": "°C", "frequency_mhz": "MHz"}


def sections(report: ReportDocument | TriageDocument) -> list[Section]:
    """Returns the sections; the content of a section without facts is ""."""
    sides = [_side(side) for side in report.sides]
    absent = [f"{one.side}: not run: {one.why}" for one in report.not_run] if isinstance(report, ReportDocument) else []
    models = [[code(m.get("path", "")), text(m.get("kind", "")), code(m.get("sha256", ""))] for m in report.models]
    fed = [
        [code(i.get("name", "")), text(i.get("source", "")), number(i.get("seed")), code(i.get("sha256", ""))]
        for i in report.inputs
    ]
    hashes = table("models", ("model", "kind", "sha256"), models) if models else ""
    of_inputs = table("inputs", ("input", "from", "seed", "sha256"), fed) if fed else ""
    if len(fed) > MAX_UNFOLDED:
        of_inputs = element("details", element("summary", text(f"{len(fed)} inputs")), of_inputs)
    hashes += of_inputs
    return [
        Section("again", "The command that repeats it", _command(report.command)),
        Section("sides", "What ran: versions, settings, board", "".join(sides) + listed(absent)),
        Section("hashes", "Models and inputs, with their hashes", hashes),
        Section("times", "Times and traffic", _times(report)),
    ]


def _command(command: str) -> str:
    return element("pre", code(command), tabindex=0, aria_label="command") if command else ""


def _side(side: dict[str, Any]) -> str:
    rows = [("engine", text(f"{side.get('engine', '')} {side.get('version', '')}".strip()))]
    rows += [(name, text(side[name])) for name in ("host", "state", "why") if side.get(name)]
    rows += [("ran for", f"{number(side['seconds'])} s")] if "seconds" in side else []
    settings = side.get("settings")
    rows += _settings(settings) if isinstance(settings, dict) else []
    rows += [(name, text(version)) for name, version in dict(side.get("ledger") or {}).items()]
    return element("h3", text(side.get("name", ""))) + facts(rows) + _placement(side)


def _placement(side: dict[str, Any]) -> str:
    """Returns the table of the nodes that an engine ran and where; "" if it does not say."""
    placed = [p for p in side.get("placement") or () if p.get("node")]
    if not placed:
        return ""
    rows = [
        [code(p["node"]), text(p.get("op", "")), text(p.get("on", "")), text(p.get("kernel", "")), FELL_BACK * bool(p.get("fallback"))]
        for p in placed
    ]  # fmt: skip
    title = f"{side.get('name', '')}: where each of its {len(placed)} nodes ran"
    heads = ("node", "operator", "on", "kernel", "")
    return element("details", element("summary", text(title)), table(title, heads, rows))


def _settings(settings: dict[str, Any]) -> Iterable[tuple[str, str]]:
    for name, value in settings.items():
        if value not in (None, "", [], {}):
            unit = f" {UNITS[name]}" if name in UNITS else ""
            yield name.removesuffix("_c").removesuffix("_mhz").replace("_", " "), f"{text(value)}{unit}"


def _times(report: ReportDocument | TriageDocument) -> str:
    rows = [(name, f"{value:.3f} s") for name, value in report.timings.items()]
    if isinstance(report, ReportDocument):
        rows += [(f"link: {name.replace('_', ' ')}", text(value)) for name, value in report.link.items()]
    shown = facts((name, text(value)) for name, value in rows) if rows else ""
    timed = [s for s in report.sides if s.get("node_seconds")]
    for side in timed:
        slowest = sorted(side["node_seconds"].items(), key=lambda item: -item[1])[:20]
        rows_of = [[code(name), f"{seconds * 1e6:.1f} µs"] for name, seconds in slowest]
        title = f"{side.get('name', '')}: the nodes that take longest"
        shown += element("details", element("summary", text(title)), table(title, ("node", "time"), rows_of))
    return shown


def options(report: ReportDocument) -> str:
    """Returns how the run was judged: decimals, scope, gates of each pair, relaxations."""
    fact_rows = [("decimals", text(f"{report.decimals.get('digits', '')}, rule {report.decimals.get('rule', '')}"))]
    fact_rows = fact_rows if report.decimals else []
    fact_rows += [("every node judged", "yes (-r True)" if report.dump_all else "no (-r True judges every node)")]
    fact_rows += [("criteria of", text(report.criteria))] if report.criteria else []
    rows = {
        (p.a, p.b, p.board): [text(f"{p.a} ~ {p.b}"), text(p.board or ""), text(p.gate), text(p.scope), text("; ".join(p.relaxed))]
        for p in report.pairs
    }  # fmt: skip
    gates = table("gates", ("pair", "board", "gate", "scope", "relaxed by"), rows.values()) if rows else ""
    return facts(fact_rows) + gates


def ledger(report: ReportDocument) -> str:
    """Returns the coverage ledger: expected, compared and missing tensors of each pair."""
    rows = []
    for pair in report.pairs:
        c = pair.coverage
        place = f"frame {pair.frame}" + (f", {pair.board}" if pair.board else "")
        rows.append(
            [
                text(f"{pair.a} ~ {pair.b}"), verdict(pair.verdict), text(place), text(c.expected), text(c.compared),
                text(len(c.missing)), text(c.elements), text(c.by_digest), text(len(c.not_offered)),
                "yes" if pair.bit_equal else "no",
            ]
        )  # fmt: skip
    heads = (
        "pair",
        "verdict",
        "of",
        "expected",
        "compared",
        "missing",
        "elements",
        "by digest",
        "not offered",
        "bit-equal",
    )
    shown = table("tensors that were expected and compared", heads, rows) if rows else ""
    if len(rows) > MAX_OPEN_ROWS:
        shown = element("details", element("summary", f"{len(rows)} rows"), shown)
    missing = [
        f"{p.a} ~ {p.b}: {m.tensor} is missing in {m.side}: {m.why}" for p in report.pairs for m in p.coverage.missing
    ]
    missing += [
        f"{p.a} ~ {p.b}: {m.tensor} is declared by one side only, {m.side} lacks it: {m.why}"
        for p in report.pairs
        for m in p.coverage.not_offered
    ]
    missing += [
        f"{n.tensor}: {n.elements} of {n.of} elements not judged: {n.why}" for p in report.pairs for n in p.not_judged
    ]
    return shown + listed(missing) + _not_verified(report)


def _not_verified(report: ReportDocument) -> str:
    lines = [
        f"{n.get('node')} ({n.get('op')}): computed by the host for every side: {n.get('why')}" for n in report.on_host
    ]
    lines += [
        f"{n.get('node')} ({n.get('op')}): no integer reference: {n.get('why')}" for n in report.no_integer_reference
    ]
    return element("h3", "Not verified, or against floats only") + listed(lines) if lines else ""


def shapes(report: ReportDocument) -> str:
    """Returns the table of the shapes of a sweep, or "" without one."""
    rows = [
        [
            verdict(one.verdict), code(one.text), text(one.board or ""), code(one.node) if one.node else "", text(one.why),
            code(one.sha256[:16]), number(one.bytes or None),
        ]
        for one in report.shapes
    ]  # fmt: skip
    heads = ("verdict", "shape", "board", "worst node", "why", "model.bin", "bytes")
    return table(f"{len(rows)} shapes, each compiled and run by itself", heads, rows, heading=1) if rows else ""


def checks(report: ReportDocument) -> str:
    """Returns the results of --check with the frames or items that are not the same again, or "" without any."""
    parts = list[str]()
    for one in report.checks:
        board = f", {text(one.board)}" if one.board else ""
        parts.append(element("p", f"{text(one.check)}{board}: {verdict(one.verdict)} {text(one.why)}"))
        rows = [
            [
                text(f"item {d.item} of frame {d.frame}" if d.item is not None else f"frame {d.frame}"),
                text(d.after), code(d.tensor), code(d.node), text(d.tensors),
            ]
            for d in one.differing
        ]  # fmt: skip
        heads = ("of", "ran after", "first tensor that differs", "node", "tensors")
        parts += [table(f"not the same again: {one.check}", heads, rows)] if rows else []
    return "".join(parts)


def frames(report: ReportDocument) -> str:
    """Returns the table of frames, or "" if there was only one, or if the frames are shapes."""
    if report.shapes:
        return ""
    rows = [
        [
            verdict(str(f.get("verdict", ""))), text(f.get("source", "")), text(f.get("board") or ""),
            number(_failing_tensors(report, f)), number(f.get("failing")),
            number(f.get("max_abs")), text(f.get("why", "")),
        ]
        for f in report.frames
    ]  # fmt: skip
    heads = ("verdict", "frame", "board", "tensors that fail", "elements", "max |a-b|", "why")
    return table(f"{len(rows)} frames", heads, rows, heading=1) if rows else ""


def _failing_tensors(report: ReportDocument, frame: dict[str, Any]) -> int | None:
    """Returns the number of tensors of a frame that fail in any pair; None if the frame has no pair."""
    pairs = [p for p in report.pairs if p.frame == frame.get("frame") and p.board in (None, frame.get("board"))]
    return len({row.name for p in pairs for row in p.tensors if row.verdict == "FAILED"}) if pairs else None
