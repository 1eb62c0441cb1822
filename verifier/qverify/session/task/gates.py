"""The gates of the task's numbers (`--gate task:map>=0.99*reference`), which decide the verdict (VERDICTS.md)."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from qverify.closest_names import did_you_mean
from qverify.errors import TaskError
from qverify.plural import count
from qverify.printable import printable
from qverify.report.document import Pair, ReportDocument, TaskGateRow, TaskNumbers, TaskSide, worst
from qverify.report.side_names import named
from qverify.session.task.metrics import Metric

NUMBER = r"\d*\.?\d+(?:e[+-]?\d+)?"
GATE = re.compile(
    r"task:(?P<metric>[a-z0-9@_-]+)(?P<sign>>=|<=)"
    rf"(?:(?P<limit>-?{NUMBER})|(?:(?P<factor>{NUMBER})\*)?(?P<of>[a-z]+)(?P<more>[+-]{NUMBER})?)",
    re.ASCII,
)
BASES = ("reference", "float", "simulator")
WANTED = "task:METRIC>=LIMIT, >=FACTOR*reference or >=reference-LESS (<= where smaller is better; or float, simulator)"


@dataclass(frozen=True, slots=True)
class TaskGate:
    """A gate of one number of the task. of: the side of whose number the limit is a part, "" for none. factor, more: the limit
    is the number of that side times `factor` (0 without one) plus `more`. text: as it was given."""

    metric: str
    sign: Literal[">=", "<="]
    of: str
    factor: float
    more: float
    text: str


def parse_task_gates(texts: Sequence[str], metric: Metric) -> list[TaskGate]:
    """Returns the gates. Raises TaskError for another form, a number that the task does not have, a sign that no bad value
    would miss, and a limit that holds nothing."""
    return [_parse(text, metric) for text in texts]


def _parse(text: str, metric: Metric) -> TaskGate:
    match = GATE.fullmatch(text)
    if match is None:
        raise TaskError(f"--gate {printable(text)}: wanted {WANTED}")
    name, of = match["metric"], match["of"] or ""
    if name not in metric.names:
        known = ", ".join(metric.names) or "no numbers"
        raise TaskError(f"--gate {printable(text)}: {metric.name} has {known}{did_you_mean(name, metric.names)}")
    if of and of not in BASES:
        raise TaskError(f"--gate {printable(text)}: {of}: wanted {', '.join(BASES)}")
    if metric.smaller is not None and match["sign"] != ("<=" if name in metric.smaller else ">="):
        better = "smaller" if name in metric.smaller else "larger"
        raise TaskError(f"--gate {printable(text)}: {name} is better if it is {better}")
    factor = float(match["factor"] or 1) if of else 0.0
    more = float(match["more"] or 0) if of else float(match["limit"])
    if of and not (0 < factor < 1e9 and abs(more) < 1e9):
        raise TaskError(f"--gate {printable(text)}: a factor of {factor:g} holds nothing; wanted one above 0")
    return TaskGate(name, ">=" if match["sign"] == ">=" else "<=", of, factor, more, text)


def judge_task_gates(
    gates: Sequence[TaskGate], numbers: TaskNumbers, expected: int, broken: Mapping[str, int]
) -> list[TaskGateRow]:
    """Returns what each gate finds of each side that it holds: the board, the simulator and other sides that are neither the
    reference nor the float model. expected: number of frames that every side must have. broken: number of frames in
    which a side has NaN."""
    by_side = {side.side: side for side in numbers.sides}
    held = [side for side in numbers.sides if side.side not in ("float", "reference")]
    rows = []
    for gate in gates:
        limit, why = _limit_of(gate, by_side, expected, broken)
        if not held:
            rows.append(
                TaskGateRow(gate.text, "", None, limit, "INCONCLUSIVE", "no side that the gate holds took part")
            )
        rows += [_judge_side(gate, side, limit, why, expected) for side in held]
    for row in rows:
        if row.verdict == "PASSED" and row.side in broken:
            row.verdict, row.why = "INCONCLUSIVE", f"{named(row.side)} has NaN in {count(broken[row.side], 'frame')}"
    return rows


def _value(side: TaskSide, name: str) -> float:
    """Returns a number of a side, of a user's metric its only one; NaN if it has none."""
    only = next(iter(side.values.values()), math.nan) if name == "value" else math.nan
    return side.values.get(name, only)


def _limit_of(
    gate: TaskGate, sides: Mapping[str, TaskSide], expected: int, broken: Mapping[str, int]
) -> tuple[float | None, str]:
    """Returns the limit, or None and why there is none."""
    if not gate.of:
        return gate.more, ""
    if gate.of not in sides:
        return None, f"{named(gate.of)} did not run, of whose {gate.metric} the limit is a part"
    side = sides[gate.of]
    value = _value(side, gate.metric)
    if gate.of in broken:
        return None, f"{named(gate.of)} has NaN in {count(broken[gate.of], 'frame')}"
    if side.frames < expected:
        return None, f"{named(gate.of)} has outputs of {side.frames} of {count(expected, 'frame')}"
    if not math.isfinite(value):
        return None, f"{gate.metric} of {named(gate.of)} is not defined"
    if gate.sign == ">=" and value <= 0:
        return None, f"{gate.metric} of {named(gate.of)} is {value:.4g}: a share of it holds nothing"
    return gate.factor * value + gate.more, ""


def _judge_side(gate: TaskGate, side: TaskSide, limit: float | None, why: str, expected: int) -> TaskGateRow:
    value = _value(side, gate.metric)
    row = TaskGateRow(gate.text, side.side, value if math.isfinite(value) else None, limit, "INCONCLUSIVE", why)
    if side.frames < expected:
        row.why = f"{named(side.side)} has outputs of {side.frames} of {count(expected, 'frame')}"
    elif limit is not None and not math.isfinite(value):
        row.why = f"{gate.metric} of {named(side.side)} is not defined"
    elif limit is not None and (value >= limit if gate.sign == ">=" else value <= limit):
        row.verdict, row.why = "PASSED", ""
    elif limit is not None:
        part = f" (of {named(gate.of)}: {(limit - gate.more) / gate.factor:.6g})" if gate.of else ""
        row.verdict = "FAILED"
        row.why = f"{gate.metric} of {named(side.side)} is {value:.6g}, wanted {gate.sign} {limit:.6g}{part}"
    return row


def hold_to_task_gates(report: ReportDocument, numbers: TaskNumbers) -> None:
    """Gives the pairs of every side that misses a gate of the task the verdict of that gate, and the report the worst of them.
    A pair that would pass, or is INCONCLUSIVE where a gate is FAILED, has it as its reason."""
    for pair in report.pairs:
        rows = [row for row in numbers.gates if row.verdict != "PASSED" and row.side in (pair.a, pair.b, "")]
        if rows:
            _hold(pair, rows, numbers)
    report.verdict = worst([report.verdict, *(row.verdict for row in numbers.gates)])


def _hold(pair: Pair, rows: Sequence[TaskGateRow], numbers: TaskNumbers) -> None:
    verdict = worst([row.verdict for row in rows])
    row = next(row for row in rows if row.verdict == verdict)
    blamed = next((f"; {b.sentence()}" for b in numbers.blamed if b.side == row.side), "")
    why = f"{row.gate}: {row.why}{blamed}"
    if worst([pair.verdict, verdict]) == pair.verdict and pair.verdict != "PASSED":
        pair.notes.append(why)
        return
    pair.notes += [pair.why] if pair.why else []
    pair.verdict, pair.cause, pair.why = verdict, "task", why
