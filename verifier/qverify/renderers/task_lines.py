"""Renders task numbers as lines: those of every side, what their gates find, and the frames that only the board has wrong."""

from __future__ import annotations

from qverify.plural import count
from qverify.report.document import TaskGateRow, TaskNumbers, TaskSide

MAX_FRAMES = 10  # frames
NAMES = {"float": "float", "reference": "quantized", "simulator": "simulator", "board": "board"}
COUNTS = ("boxes",)  # numbers that count something


def describe(task: TaskNumbers, max_frames: int | None = MAX_FRAMES) -> list[str]:
    """Returns the lines. max_frames: maximal number of listed frames; None for all."""
    labels_text = f", labels {task.labels}" if task.labels else ""
    decoder_text = f", decoder {task.decoder}" if task.decoder else ""
    board_text = f", board {task.board}" if task.board else ""
    part = "by its gates part of the verdict" if task.gates else "no part of the verdict"
    lines = [f"task ({part}): {task.metric} over {count(task.frames, 'frame')}{labels_text}{decoder_text}{board_text}"]
    lines += [f"  {name_side(side.side):9s} {_numbers(task, side)}" for side in task.sides]
    lines += [f"  {describe_gate(row)}" for row in task.gates]
    lines += [f"  {blamed.sentence()}" for blamed in task.blamed]
    if (task.right_or_wrong or task.only_board_wrong) and any(side.side == "board" for side in task.sides):
        wrong = task.only_board_wrong
        what = "that only the board has wrong" if task.right_or_wrong else "on which only the board is worse"
        lines.append(f"  {count(len(wrong), 'frame')} {what}" + (":" if wrong else ""))
        for frame in wrong[:max_frames]:
            answers = ", ".join(f"{name_side(side)} {answer}" for side, answer in frame.answers.items())
            lines.append(
                f"    frame {frame.frame} {frame.source}"
                + (f", label {frame.label}" if frame.label else "")
                + f": {answers}"
            )
        if max_frames is not None and len(wrong) > max_frames:
            lines.append(f"    and {len(wrong) - max_frames} more")
    return [*lines, *(f"  {note}" for note in task.notes)]


def name_side(side: str) -> str:
    """Returns the name of a side beside task numbers."""
    return NAMES.get(side, side)


def describe_gate(row: TaskGateRow) -> str:
    """Returns what a gate finds of a side, as a line."""
    if row.verdict != "PASSED" or row.value is None or row.limit is None:
        return f"gate {row.gate}: {row.verdict}: {row.why}"
    return f"gate {row.gate}: PASSED: {name_side(row.side)} {row.value:.6g}, limit {row.limit:.6g}"


def side_cells(task: TaskNumbers, side: TaskSide, names: list[str]) -> list[str]:
    """Returns a side's row of a table: its name, the value for each of `names`, and the number of frames."""
    values = [_value(task, side, name, side.values[name], False) if name in side.values else "" for name in names]
    return [name_side(side.side), *values, str(side.frames)]


def _numbers(task: TaskNumbers, side: TaskSide) -> str:
    if not side.frames:
        return "no frame"
    shares = [_value(task, side, name, value) for name, value in side.values.items()]
    return ", ".join(shares) + (f" (of {count(side.frames, 'frame')})" if side.frames < task.frames else "")


def _value(task: TaskNumbers, side: TaskSide, name: str, value: float, with_name: bool = True) -> str:
    if task.right_or_wrong:
        prefix = "" if not with_name else f"{name} " if task.task or name.startswith("top-") else "right "
        return f"{prefix}{round(value * side.frames)} of {side.frames} ({value:.1%})"
    if task.task:
        shown = "not defined" if value != value else f"{value:.0f}" if name in COUNTS else f"{value:.4f}"
        return f"{name} {shown}" if with_name else shown
    return f"{value:.6g} (mean)"
