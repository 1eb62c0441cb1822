"""The data of an SVG chart over a label such as the firmware: the verdicts of a job, or the error of a node."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 900.0, 260.0, 70.0, 16.0, 16.0, 46.0
MAX_NAMES = 12  # number of labels below the axis
VERDICT_LEVELS = {"PASSED": 0.15, "INCONCLUSIVE": 0.5, "FAILED": 0.85}
METRICS = ("max_lsb", "max_abs", "rmse")


@dataclass(frozen=True, slots=True)
class Dot:
    """A mark of the chart: its centre, the verdict (for colour and shape), its text, and a link to the job's page."""

    x: float
    y: float
    verdict: str
    text: str
    link: str


@dataclass(frozen=True, slots=True)
class Chart:
    """A chart.

    Attributes:
        line: The path through the dots in SVG syntax, or "".
        ticks: Position (y) and text of each tick of the vertical axis.
        names: Position (x) and text of each label of the horizontal axis.
    """

    title: str
    dots: list[Dot]
    line: str
    ticks: list[tuple[float, str]]
    names: list[tuple[float, str]]
    width: float = WIDTH
    height: float = HEIGHT


def draw_results(rows: Sequence[Mapping[str, Any]], label: str) -> Chart | None:
    """Returns a chart of a job's verdicts over time, or None if there are none. rows: the history, oldest first. label: the label
    for the horizontal axis, or ""."""
    shown = [row for row in rows if row["verdict"] in VERDICT_LEVELS]
    if not shown:
        return None
    dots = [
        Dot(
            x,
            _y_position(VERDICT_LEVELS[row["verdict"]]),
            row["verdict"],
            _dot_text(row, label, row["verdict"]),
            f"/jobs/{row['job']}",
        )
        for x, row in zip(_x_positions(len(shown)), shown, strict=True)
    ]
    ticks = [(_y_position(fraction), verdict.capitalize()) for verdict, fraction in VERDICT_LEVELS.items()]
    return Chart(f"Verdicts by {label or 'time'}", dots, "", ticks, _names(shown, label))


def draw_values(points: Sequence[Mapping[str, Any]], label: str) -> Chart | None:
    """Returns a chart of a node's error over time, or None if there are no numbers. points: the history, oldest first. label: the
    label for the horizontal axis, or ""."""
    points = _points_of_one_pair(points)
    metric = next((m for m in METRICS if any(_number(p, m) is not None for p in points)), "")
    shown = [(point, value) for point in points if (value := _number(point, metric)) is not None]
    if not shown:
        return None
    top = _round_up(max(value for _, value in shown))
    dots = [
        Dot(
            x,
            _y_position(1 - value / top),
            point["verdict"],
            _dot_text(point, label, f"{value:.4g}"),
            f"/jobs/{point['job']}",
        )
        for x, (point, value) in zip(_x_positions(len(shown)), shown, strict=True)
    ]
    line = " ".join(f"{'L' if index else 'M'}{dot.x:.1f} {dot.y:.1f}" for index, dot in enumerate(dots))
    ticks = [(_y_position(1 - fraction), f"{top * fraction:.3g}") for fraction in (0.0, 0.5, 1.0)]
    return Chart(f"{metric} by {label or 'time'}", dots, line, ticks, _names([p for p, _ in shown], label))


def _points_of_one_pair(points: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Returns the points of one pair of sides: the pair with the board in the most jobs, otherwise the pair in the most jobs."""
    pairs = Counter(str(point["pair"]) for point in points)
    chosen_pair = max(pairs, key=lambda pair: ("board" in pair, pairs[pair]), default="")
    return [point for point in points if point["pair"] == chosen_pair]


def _number(point: Mapping[str, Any], metric: str) -> float | None:
    value = (point.get("metrics") or {}).get(metric)
    if not isinstance(value, (int, float)) or isinstance(value, bool):
        return None
    return float(value) if math.isfinite(value) and value >= 0 else None


def _round_up(value: float) -> float:
    """Returns the value rounded up to 1, 2 or 5 times a power of ten; 1 for 0."""
    if value <= 0:
        return 1.0
    power = 10.0 ** math.floor(math.log10(value))
    return next(step * power for step in (1, 2, 5, 10) if step * power >= value)


def _dot_text(row: Mapping[str, Any], label: str, value_text: str) -> str:
    prefix = f"{label} {row['labels'][label]}: " if label and label in row["labels"] else ""
    return f"{prefix}{value_text} on {row['board'] or 'no board'}"


def _x_positions(count: int) -> list[float]:
    if count == 1:
        return [(LEFT + WIDTH - RIGHT) / 2]
    return [LEFT + 12 + (WIDTH - LEFT - RIGHT - 24) * index / (count - 1) for index in range(count)]


def _y_position(fraction: float) -> float:
    return TOP + (HEIGHT - TOP - BOTTOM) * fraction


def _names(rows: Sequence[Mapping[str, Any]], label: str) -> list[tuple[float, str]]:
    """Returns the positions and texts of the label where it changes, at most MAX_NAMES."""
    positions, names, last_text = _x_positions(len(rows)), list[tuple[float, str]](), None
    for x, row in zip(positions, rows, strict=True):
        text = str(row["labels"].get(label, f"no {label}")) if label else ""
        if text and text != last_text:
            names.append((x, text if len(text) <= 14 else f"{text[:13]}…"))
        last_text = text
    step = max(1, math.ceil(len(names) / MAX_NAMES))
    return names[::step]
