"""Renders the report for a terminal: heading, table of tensors, facts, blame, and the verdict lines."""

from __future__ import annotations

from typing import Any

from qverify.plural import count
from qverify.printable import visible
from qverify.renderers import (
    blamed_tensor,
    drafts,
    heading,
    pair_facts,
    spark_line,
    task_lines,
    tensor_table,
    vendor_lines,
    verdict_lines,
)
from qverify.renderers.blamed import blame_line
from qverify.renderers.check_lines import check_lines
from qverify.renderers.findings import finding_lines
from qverify.renderers.outputs_question import ask_for_outputs
from qverify.renderers.seconds import describe_seconds
from qverify.renderers.text_view import TextView
from qverify.report.distance import distance_lines
from qverify.report.document import ReportDocument
from qverify.report.untapped import untapped_lines

MAX_SHOWN = 10  # entries of a long list
MAX_SLOWEST = 3  # nodes that -v names
DIFFERS = "differs"
PLAIN = TextView()


def render(report: ReportDocument, finals: list[str], view: TextView = PLAIN) -> str:
    """Returns the whole text. finals: names of the final outputs, which the table shows even if they were not
    compared."""
    draft, report, finals = drafts.render(report.drafts), visible(report), visible(finals)
    if view.detail == "quiet":
        return verdict_lines.render(report, view)
    absent = {n.side: f"{n.side}: not run: {n.why}" for n in report.not_run}
    parts = [view.paint(view.wrap(absent.pop("board", "")), "heading"), heading.render(report, view)]
    parts.append(tensor_table.render(report, finals, view))
    if view.wrapped:  # a drawing; useless in a pipe
        parts.append(spark_line.draw(report, view))
    lines = [*absent.values(), *pair_facts.describe(report.pairs, view.detail == "verbose"), *_describe_context(report)]
    lines += untapped_lines(report.pairs)
    lines += _describe_run(report) if view.detail == "verbose" else []
    parts.append(view.wrap("\n".join([*lines, *dict.fromkeys(report.notes)])))
    parts.append(view.wrap("\n".join(distance_lines(report.distance))))
    parts += [view.wrap("\n".join(task_lines.describe(task))) for task in report.tasks]
    parts.append(view.wrap(ask_for_outputs(report)))
    parts.append(draft)
    if view.wrapped:
        parts.append(blamed_tensor.render(report, view))
    if report.findings:
        parts.append(view.wrap("\n".join(finding_lines(report.findings))))
    if report.blame is not None:
        blamed = view.wrap("\n".join(blame_line(b) for b in report.blamed or [report.blame])).split("\n")
        parts.append("\n".join(view.paint(text, "heading" if text.startswith("blame: ") else "") for text in blamed))
    parts.append(vendor_lines.render(report))
    return "\n\n".join([*(p for p in parts if p), verdict_lines.render(report, view)])


def _describe_context(report: ReportDocument) -> list[str]:
    """Returns lines on default onnxruntime, nodes without an integer reference, inputs, and repeated runs."""
    lines = _describe_plain(report)
    lacking = report.no_integer_reference
    for why in dict.fromkeys(n["why"] for n in lacking):
        nodes = [f"{n['node']} ({n['op']})" for n in lacking if n["why"] == why]
        lines.append(f"{count(len(nodes), 'node')} without an integer reference ({why}): {_list_names(nodes)}")
    if report.on_host:
        nodes = [f"{n['node']} ({n['op']})" for n in report.on_host]
        lines.append(f"computed on the host, not verified: {_list_names(nodes)}")
    for item in report.inputs:
        seed = f", seed {item['seed']}" if item.get("seed") is not None else ""
        lines.append(f"input {item['name']}: {item['source']}{seed}, sha256 {item['sha256'][:16]}")
    return lines + describe_repeat(report) + check_lines(report)


def _describe_plain(report: ReportDocument) -> list[str]:
    """Returns lines on the outputs of default onnxruntime; outputs with the same result share a line."""
    names_by_state, distances = dict[str, list[str]](), dict[str, float]()
    numbers = {
        i["name"]: f"{i['differing']} of {count(i['elements'], 'value')}"
        for i in report.plain_onnxruntime.get("outputs", [])
        if i.get("differing")
    }
    for item in report.plain_onnxruntime.get("outputs", []):
        state = "equal" if item["equal"] else DIFFERS
        names_by_state.setdefault(f"not computed: {item['why']}" if item.get("why") else state, []).append(item["name"])
        distances |= {} if item["max_abs"] is None else {item["name"]: float(item["max_abs"])}
    results = {
        state: _describe_apart(names, distances, numbers, report) if state == DIFFERS else state
        for state, names in names_by_state.items()
    }
    return [
        f"original ONNX on default onnxruntime, {_list_names(names)}: {results[s]}"
        for s, names in names_by_state.items()
    ]


def _describe_apart(
    names: list[str], distances: dict[str, float], numbers: dict[str, str], report: ReportDocument
) -> str:
    """Returns how much outputs differ, which of several differs most, and the optimizer that makes them differ.
    distances: the largest |a-b| by name, if known. numbers: how many elements differ, likewise."""
    farthest = max((n for n in names if n in distances), key=lambda n: distances[n], default="")
    text = DIFFERS if len(names) == 1 else "differ"
    if farthest:
        text += f" by up to {distances[farthest]:.6g}{f' ({farthest})' if len(names) > 1 else ''}"
        text += f", {numbers[farthest]}" if farthest in numbers else ""
    if changed_by := next((i["changed_by"] for i in report.plain_onnxruntime["outputs"] if i.get("changed_by")), ""):
        text += f"; {visible(changed_by)}"
    saturating = "; its products of uint8 by int8 saturate on this processor, the reference's do not"
    return text + saturating if report.canary.get("exact_products") else text


def describe_repeat(report: ReportDocument) -> list[str]:
    """Returns the line on --repeat if all runs gave the same bytes; otherwise the verdict lines state it."""
    repeat = report.repeat
    if not repeat or repeat["unstable"] or repeat["why"]:
        return []
    return [f"{count(repeat['runs'], 'run')} of the board, the same bytes"]


def _describe_run(report: ReportDocument) -> list[str]:
    """Returns the lines of -v: the decimals, engine and time of every side, times of nodes, and the traffic on the
    link."""
    lines = [f"decimals: N = {report.decimals['digits']}, rule {report.decimals['rule']}"]
    for side in report.sides:
        lines += [_describe_side(side), *_describe_placement(side)]
    lines += [f"model {row['path']}: {row['kind']}, sha256 {row['sha256'][:16]}" for row in report.models]
    if seconds := tensor_table.node_seconds(report):
        lines.append(_describe_times(seconds))
    if report.link:
        lines.append("link: " + ", ".join(f"{name.replace('_', ' ')} {number}" for name, number in report.link.items()))
    return lines


def _describe_times(seconds: dict[str, float]) -> str:
    slowest = sorted(seconds, key=lambda name: -seconds[name])[:MAX_SLOWEST]
    named = ", ".join(f"{name} {describe_seconds(seconds[name])}" for name in slowest)
    whole = f"{count(len(seconds), 'node')} on the board {describe_seconds(sum(seconds.values()))}"
    return f"time of this one run (qverify perf repeats it): {whole}; slowest {named}"


def _describe_side(side: dict[str, Any]) -> str:
    engine = f"{side['engine']} {side['version']}".strip()
    measured = side["settings"].get("measured_s")
    timing_line = f" ({describe_seconds(measured)} by its own timing line)" if isinstance(measured, float) else ""
    return (
        f"{side['name']}: {engine} on {side['host']}, {describe_seconds(side['seconds'])}{timing_line}, {side['state']}"
    )


def _describe_placement(side: dict[str, Any]) -> list[str]:
    """Returns the versions of what took part, and a line for each node that an engine ran, in running order."""
    ledger = [f"  {name}: {version}" for name, version in dict(side.get("ledger") or {}).items()]
    nodes = [
        "  "
        + " ".join(t for t in (p["node"], f"({p['op']})", "on", p["on"], p["kernel"], "FELL BACK" * p["fallback"]) if t)
        for p in side.get("placement") or ()
        if p["node"]
    ]
    return ledger + nodes


def _list_names(names: list[str]) -> str:
    return ", ".join(names[:MAX_SHOWN]) + (" ..." if len(names) > MAX_SHOWN else "")
