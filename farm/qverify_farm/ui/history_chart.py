"""A chart over firmware labels, as SVG that needs no script: results of a job, or a node's error."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

WIDE, HIGH, LEFT, RIGHT, TOP, BOTTOM = 900.0, 260.0, 70.0, 16.0, 16.0, 46.0
MOST_NAMES = 12  # labels below the axis
ROWS = {"PASSED": 0.15, "INCONCLUSIVE": 0.5, "FAILED": 0.85}
METRICS = ("max_lsb", "max_abs", "rmse")


@dataclass(frozen=True, slots=True)
class Dot:
    """A mark. x, y: of its centre. verdict: its colour and shape. text: what it says. link: the job's page."""

    x: float
    y: float
    verdict: str
    text: str
    link: str


@dataclass(frozen=True, slots=True)
class Chart:
    """line: points of a path, as SVG has them. ticks: y and text. names: x and text. title: what it shows."""

    title: str
    dots: list[Dot]
    line: str
    ticks: list[tuple[float, str]]
    names: list[tuple[float, str]]
    wide: float = WIDE
    high: float = HIGH


def draw_results(rows: Sequence[Mapping[str, Any]], label: str) -> Chart | None:
    """Returns the verdicts of a job over time, None without any. rows: of the history, the oldest first."""
    shown = [row for row in rows if row["verdict"] in ROWS]
    if not shown:
        return None
    dots = [
        Dot(x, _y(ROWS[row["verdict"]]), row["verdict"], _told(row, label, row["verdict"]), f"/jobs/{row['job']}")
        for x, row in zip(_places(len(shown)), shown, strict=True)
    ]
    ticks = [(_y(part), verdict.capitalize()) for verdict, part in ROWS.items()]
    return Chart(f"Verdicts by {label or 'time'}", dots, "", ticks, _names(shown, label))


def draw_values(points: Sequence[Mapping[str, Any]], label: str) -> Chart | None:
    """Returns a node's largest error over time, None without any number. points: of the history, the oldest first."""
    points = _of_board(points)
    metric = next((m for m in METRICS if any(_number(p, m) is not None for p in points)), "")
    shown = [(point, value) for point in points if (value := _number(point, metric)) is not None]
    if not shown:
        return None
    top = _round_up(max(value for _, value in shown))
    dots = [
        Dot(x, _y(1 - value / top), point["verdict"], _told(point, label, f"{value:.4g}"), f"/jobs/{point['job']}")
        for x, (point, value) in zip(_places(len(shown)), shown, strict=True)
    ]
    line = " ".join(f"{'L' if at else 'M'}{dot.x:.1f} {dot.y:.1f}" for at, dot in enumerate(dots))
    ticks = [(_y(1 - part), f"{top * part:.3g}") for part in (0.0, 0.5, 1.0)]
    return Chart(f"{metric} by {label or 'time'}", dots, line, ticks, _names([p for p, _ in shown], label))


def _of_board(points: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Returns the points of one pair of sides: the first that the board is one of, else the first."""
    pairs = list(dict.fromkeys(str(point["pair"]) for point in points))
    chosen = next((pair for pair in pairs if "board" in pair), pairs[0] if pairs else "")
    return [point for point in points if point["pair"] == chosen]


def _number(point: Mapping[str, Any], metric: str) -> float | None:
    value = (point.get("metrics") or {}).get(metric)
    if not isinstance(value, (int, float)) or isinstance(value, bool):
        return None
    return float(value) if math.isfinite(value) and value >= 0 else None


def _round_up(value: float) -> float:
    """Returns the next of 1, 2, 5 times a power of ten; 1 for 0."""
    if value <= 0:
        return 1.0
    power = 10.0 ** math.floor(math.log10(value))
    return next(step * power for step in (1, 2, 5, 10) if step * power >= value)


def _told(row: Mapping[str, Any], label: str, said: str) -> str:
    named = f"{label} {row['labels'][label]}: " if label and label in row["labels"] else ""
    return f"{named}{said} on {row['board'] or 'no board'}"


def _places(count: int) -> list[float]:
    if count == 1:
        return [(LEFT + WIDE - RIGHT) / 2]
    return [LEFT + 12 + (WIDE - LEFT - RIGHT - 24) * at / (count - 1) for at in range(count)]


def _y(part: float) -> float:
    return TOP + (HIGH - TOP - BOTTOM) * part


def _names(rows: Sequence[Mapping[str, Any]], label: str) -> list[tuple[float, str]]:
    """Returns the label where it changes, at most MOST_NAMES of them."""
    places, found, last = _places(len(rows)), list[tuple[float, str]](), None
    for x, row in zip(places, rows, strict=True):
        text = str(row["labels"].get(label, "")) if label else ""
        if text and text != last:
            found.append((x, text if len(text) <= 14 else f"{text[:13]}…"))
        last = text
    step = max(1, math.ceil(len(found) / MOST_NAMES))
    return found[::step]
