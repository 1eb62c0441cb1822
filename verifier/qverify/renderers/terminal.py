"""The report for people at a terminal: tables per output and per node, then the verdict lines."""

from __future__ import annotations

from typing import Any

from qverify.renderers import verdict_lines
from qverify.report.document import Pair, Report, TensorRow

SHORT = {"reference": "ref", "simulator": "sim", "board": "board"}


def _mark(row: TensorRow | None) -> str:
    if row is None:
        return "missing"
    if row.mismatched == 0:
        return "="
    size = f"{row.max_lsb:g} LSB" if row.max_lsb is not None else f"{row.max_abs:.3g}"
    forced = "" if row.forced is None else " forced ok" if row.forced.verdict == "PASSED" else " forced FAILED"
    return f"{row.mismatched}/{row.elements} <={size}{forced}"


def _table(pairs: list[Pair], names: list[str]) -> str:
    from tabulate import tabulate

    by_pair = [{r.name: r for r in p.tensors} for p in pairs]
    lines: list[list[Any]] = []
    for name in names:
        rows = [found.get(name) for found in by_pair]
        some = next((r for r in rows if r is not None), None)
        kind = f"{some.dtype} {'x'.join(map(str, some.shape))}" if some else ""
        worst = max((r for r in rows if r is not None), key=lambda r: r.mismatched, default=None)
        cosine = f"{worst.cosine:.6f}" if worst is not None and worst.mismatched else "1"
        lines.append([name, some.op if some else "", kind, *map(_mark, rows), cosine])
    head = ["tensor", "op", "type", *[f"{SHORT.get(p.a, p.a)} ~ {SHORT.get(p.b, p.b)}" for p in pairs], "cosine"]
    return tabulate(lines, head, disable_numparse=True)


def render(report: Report, finals: list[str], dump_all: bool) -> str:
    parts = []
    if report.pairs:
        every = list(dict.fromkeys(r.name for p in report.pairs for r in p.tensors))
        parts.append(_table(report.pairs, every if dump_all else list(finals)))
    parts += _facts(report)
    parts.append(verdict_lines.render(report))
    if report.blame is not None:
        parts.append(f"blame: {report.blame.side} at {report.blame.node}\n  {report.blame.why}")
    return "\n\n".join(p for p in parts if p)


def _facts(report: Report) -> list[str]:
    lines = [f"decimals: {report.decimals['digits']} (rule {report.decimals['rule']})"]
    for pair in report.pairs:
        ledger = pair.coverage
        lines.append(
            f"{pair.a} ~ {pair.b}: {ledger.compared} of {ledger.expected} tensors, {ledger.elements} elements compared; gate {pair.gate}"
        )
        if pair.first_divergence:
            lines.append(f"  first divergence: {pair.first_divergence['tensor']} ({pair.first_divergence['op']})")
        for row in pair.tensors:
            if row.same_arg_max is not None and row.mismatched:
                lines.append(
                    f"  {row.name}: arg-max {'same' if row.same_arg_max else 'DIFFERS'}, top-5 share {row.top5_shared}"
                )
    for item in report.plain_onnxruntime.get("outputs", []):
        state = "equal" if item["equal"] else f"max abs difference {item['max_abs']:.6g}"
        lines.append(f"untouched file on plain onnxruntime, {item['name']}: {state}")
    if report.no_integer_reference:
        ops = sorted({n["op"] for n in report.no_integer_reference})
        lines.append(f"{len(report.no_integer_reference)} nodes have no integer reference ({', '.join(ops)})")
    for item in report.inputs:
        seed = f", seed {item['seed']}" if item.get("seed") is not None else ""
        lines.append(f"input {item['name']}: {item['source']}{seed}, sha256 {item['sha256'][:16]}")
    lines += report.notes
    return ["\n".join(lines)]
