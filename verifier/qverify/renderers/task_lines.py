"""Renders task numbers as lines: those of every side, and the frames that only the board has wrong."""

from __future__ import annotations

from qverify.plural import count
from qverify.report.document import TaskNumbers, TaskSide

MAX_FRAMES = 10  # frames
NAMES = {"float": "float", "reference": "quantized", "simulator": "simulator", "board": "board"}


def describe(task: TaskNumbers, max_frames: int | None = MAX_FRAMES) -> list[str]:
    """Returns the lines. max_frames: maximal number of listed frames; None for all."""
    labels_text = f", labels {task.labels}" if task.labels else ""
    board_text = f", board {task.board}" if task.board else ""
    lines = [
        f"task (no part of the verdict): {task.metric} over {count(task.frames, 'frame')}{labels_text}{board_text}"
    ]
    lines += [f"  {NAMES[side.side]:9s} {_numbers(task, side)}" for side in task.sides]
    if task.right_or_wrong and any(side.side == "board" for side in task.sides):
        wrong = task.only_board_wrong
        lines.append(f"  {count(len(wrong), 'frame')} that only the board has wrong" + (":" if wrong else ""))
        for frame in wrong[:max_frames]:
            answers = ", ".join(f"{NAMES[side]} {answer}" for side, answer in frame.answers.items())
            lines.append(
                f"    frame {frame.frame} {frame.source}"
                + (f", label {frame.label}" if frame.label else "")
                + f": {answers}"
            )
        if max_frames is not None and len(wrong) > max_frames:
            lines.append(f"    and {len(wrong) - max_frames} more")
    return [*lines, *(f"  {note}" for note in task.notes)]


def side_cells(task: TaskNumbers, side: TaskSide, names: list[str]) -> list[str]:
    """Returns a side's row of a table: its name, the value for each of `names`, and the number of frames."""
    values = [_value(task, side, name, side.values[name], False) if name in side.values else "" for name in names]
    return [NAMES[side.side], *values, str(side.frames)]


def _numbers(task: TaskNumbers, side: TaskSide) -> str:
    if not side.frames:
        return "no frame"
    shares = [_value(task, side, name, value) for name, value in side.values.items()]
    return ", ".join(shares) + (f" (of {count(side.frames, 'frame')})" if side.frames < task.frames else "")


def _value(task: TaskNumbers, side: TaskSide, name: str, value: float, with_name: bool = True) -> str:
    if not task.right_or_wrong:
        return f"{value:.6g} (mean)"
    prefix = "" if not with_name else f"{name} " if name.startswith("top-") else "right "
    return f"{prefix}{round(value * side.frames)} of {side.frames} ({value:.1%})"
