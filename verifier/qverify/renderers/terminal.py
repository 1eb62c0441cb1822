"""Renders the report for people at a terminal: a three-way table, the facts behind it, blame, then the verdict
lines."""

from __future__ import annotations

from typing import Any

from qverify.plural import count
from qverify.printable import visible
from qverify.renderers import verdict_lines
from qverify.renderers.blamed import also, blame_line
from qverify.report import weakenings
from qverify.report.document import Forced, Pair, Report, TensorRow
from qverify.report.side_names import within

SHORT = {"reference": "ref", "simulator": "sim", "board": "board"}
SHOWN = 10  # entries of a long list


def render(report: Report, finals: list[str], dump_all: bool) -> str:
    """Returns the whole text. finals: names of the final outputs, for the table without dump_all."""
    report, finals = visible(report), visible(finals)
    rows = [r for pair in report.pairs for r in pair.tensors]
    names = list(
        dict.fromkeys(r.name for r in rows if dump_all or r.final or r.name in finals or r.verdict != "PASSED")
    )
    names = list(dict.fromkeys([*names, *(() if dump_all else finals)]))
    parts = [_render_table(report.pairs, names)] if names else []
    parts += ["\n".join([*_describe_rule(report), *_describe_pairs(report), *_describe_context(report)])]
    if report.blame is not None:
        parts.append("\n".join(blame_line(b) for b in report.blamed or [report.blame]))
    return "\n\n".join([*parts, verdict_lines.render(report)])


def _render_table(pairs: list[Pair], names: list[str]) -> str:
    from tabulate import tabulate

    by_name = [{r.name: r for r in pair.tensors} for pair in pairs]
    lines: list[list[Any]] = [_render_row(name, [rows.get(name) for rows in by_name]) for name in names]
    head = [
        "tensor",
        "op",
        "dtype",
        "shape",
        *[f"{SHORT.get(p.a, p.a)} ~ {SHORT.get(p.b, p.b)}" for p in pairs],
        "max LSB",
        "cosine",
        "forced",
    ]
    return tabulate(lines, head, disable_numparse=True)


def _render_row(name: str, rows: list[TensorRow | None]) -> list[Any]:
    known = [r for r in rows if r is not None]
    kind = [known[0].op, known[0].dtype, "x".join(map(str, known[0].shape))] if known else ["", "", ""]
    steps = [n for r in known if isinstance(n := r.metrics.get("max_lsb"), int)]
    cosines = [c for r in known if isinstance(c := r.metrics.get("cosine"), float)]
    cosine = f"{min(cosines):.6f}" if cosines and not all(r.bit_equal for r in known) else "1" if cosines else ""
    return [
        name,
        *kind,
        *[_mark(r) for r in rows],
        max(steps) if steps else "",
        cosine,
        _describe_forced([r.forced for r in known if r.forced]),
    ]


def _mark(row: TensorRow | None) -> str:
    """Returns `=` for equal bytes, otherwise the verdict and how many elements differ."""
    if row is None:
        return "-"
    if row.bit_equal and row.verdict == "PASSED":
        return "="
    differing = row.metrics.get("mismatched")
    return row.verdict if differing is None else f"{row.verdict} {differing}/{row.elements}"


def _describe_forced(verdicts: list[Forced]) -> str:
    if not verdicts:
        return ""
    bad = [f for f in verdicts if f.verdict == "FAILED"]
    if bad:
        return f"FAILED {SHORT.get(bad[0].by, bad[0].by)} on {SHORT.get(bad[0].on, bad[0].on)}'s inputs"
    return "ok" if all(f.verdict == "PASSED" for f in verdicts) else "not possible"


def _describe_rule(report: Report) -> list[str]:
    return [f"decimals: N = {report.decimals['digits']}, rule {report.decimals['rule']}"]


def _describe_pairs(report: Report) -> list[str]:
    lines = [f"{n.side}: not run: {n.why}" for n in report.not_run]
    for pair in report.pairs:
        ledger, who = pair.coverage, f"{SHORT.get(pair.a, pair.a)} ~ {SHORT.get(pair.b, pair.b)}"
        digests = f" ({ledger.by_digest} of them by digest)" if ledger.by_digest else ""
        bits = "bit-equal" if pair.bit_equal else "not bit-equal"
        lines.append(
            f"{who}: {ledger.compared} of {count(ledger.expected, 'tensor')}, {count(ledger.elements, 'element')} compared{digests}, "
            f"{len(ledger.missing)} missing, {len(ledger.not_offered)} not offered; {bits}; gate: {pair.gate}; scope: {pair.scope}"
        )
        lines += [f"  missing: {m.tensor} {within(m.side)}: {m.why}" for m in ledger.missing[:SHOWN]]
        if pair.first_divergence is not None:
            first = pair.first_divergence
            lines.append(f"  first divergence: {first.tensor} ({first.op}){also(first.also)}")
        digits = [d for r in pair.tensors if isinstance(d := r.metrics.get("matching_digits"), int)]
        if digits:
            lines.append(f"  would still pass at N = {min(digits)}")
        lines += [f"  {note}" for note in pair.notes]
        lines += [f"  {weakenings.describe_not_judged([n])}" for n in pair.not_judged[:SHOWN]]
        lines += [
            line
            for a in pair.agreement
            if a.arg_max is not None
            for line in [_describe_agreement(a.output, a.arg_max, a.top5)]
        ]
        if pair.cause in verdict_lines.CAUSES and pair.verdict == "FAILED":
            lines.append(f"  {verdict_lines.CAUSES[pair.cause]}")
    return lines


def _describe_agreement(output: str, arg_max: float, top5: float | None) -> str:
    text = f"  {output}: arg-max agrees in {arg_max:.0%} of the items"
    return text if top5 is None else f"{text}, top-5 in {top5:.0%}"


def _describe_context(report: Report) -> list[str]:
    """Returns the lines on default onnxruntime, nodes without an integer reference, inputs, link, and notes."""
    lines = []
    for item in report.plain_onnxruntime.get("outputs", []):
        apart = item["max_abs"]
        state = "equal" if item["equal"] else "differs" if apart is None else f"differs by up to {float(apart):.6g}"
        state = f"not computed: {item['why']}" if item.get("why") else state
        lines.append(f"original ONNX on default onnxruntime, {item['name']}: {state}")
    lacking = report.no_integer_reference
    for why in dict.fromkeys(n["why"] for n in lacking):
        nodes = [f"{n['node']} ({n['op']})" for n in lacking if n["why"] == why]
        lines.append(
            f"{count(len(nodes), 'node')} without an integer reference ({why}): {', '.join(nodes[:SHOWN])}"
            + (" ..." if len(nodes) > SHOWN else "")
        )
    if report.on_host:
        nodes = [f"{n['node']} ({n['op']})" for n in report.on_host]
        lines.append(
            f"computed on the host, not verified: {', '.join(nodes[:SHOWN])}" + (" ..." if len(nodes) > SHOWN else "")
        )
    for item in report.inputs:
        seed = f", seed {item['seed']}" if item.get("seed") is not None else ""
        lines.append(f"input {item['name']}: {item['source']}{seed}, sha256 {item['sha256'][:16]}")
    if report.link:
        lines.append("link: " + ", ".join(f"{name.replace('_', ' ')} {number}" for name, number in report.link.items()))
    return lines + report.notes
