"""The data of an SVG chart over a label such as the firmware: the verdicts of a job, or the error of a node."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 900.0, 260.0, 110.0, 16.0, 16.0, 46.0
MAX_NAMES = 12  # number of labels below the axis
LETTER = 8.0  # width of a letter of the labels, which must not touch
GAP, MIN_APART, MAX_APART = 44.0, 90.0, 360.0  # before the part for dots without the label, and that part's width
VERDICT_LEVELS = {"PASSED": 0.15, "INCONCLUSIVE": 0.5, "FAILED": 0.85}
METRICS = ("max_lsb", "max_abs", "rmse")


@dataclass(frozen=True, slots=True)
class Dot:
    """A mark of the chart: its centre, the verdict (for colour and shape), its text, a link to the job's page, and whether it is
    apart, since its run does not have the label."""

    x: float
    y: float
    verdict: str
    text: str
    link: str
    is_apart: bool = False


Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Chart:
    """A chart.

    Attributes:
        line: The path through the dots with the label in SVG syntax, one line for each board, or "".
        ticks: Position (y) and text of each tick of the vertical axis.
        names: Position (x) and text of each label of the horizontal axis.
        border: Position (x) of the border to the dots that are apart, or None if there are none.
        legend: What the dots that are apart are, or "".
    """

    title: str
    dots: list[Dot]
    line: str
    ticks: list[tuple[float, str]]
    names: list[tuple[float, str]]
    border: float | None = None
    legend: str = ""
    width: float = WIDTH
    height: float = HEIGHT
    left: float = LEFT


def draw_results(rows: Sequence[Row], label: str) -> Chart | None:
    """Returns a chart of a job's verdicts over time, or None if there are none. rows: the history, oldest first. label: the label
    for the horizontal axis, or ""."""
    shown = [row for row in rows if row["verdict"] in VERDICT_LEVELS]
    if not shown:
        return None
    ticks = [(_y_position(fraction), verdict.capitalize()) for verdict, fraction in VERDICT_LEVELS.items()]
    axis = _Axis.of(shown, label)
    dots = axis.dots(lambda row: _y_position(VERDICT_LEVELS[row["verdict"]]), lambda row: str(row["verdict"]))
    return Chart(f"Verdicts by {label or 'time'}", dots, "", ticks, axis.names(), axis.border, axis.legend)


def draw_values(points: Sequence[Row], label: str) -> Chart | None:
    """Returns a chart of a node's error over time, or None if there are no numbers. points: the history, oldest first. label: the
    label for the horizontal axis, or "". A line joins the points of each board that have the label; the others are apart."""
    points = _points_of_one_pair(points)
    metric = next((m for m in METRICS if any(_number(p, m) is not None for p in points)), "")
    shown = [point for point in points if _number(point, metric) is not None]
    if not shown:
        return None
    top = _round_up(max(_number(point, metric) or 0.0 for point in shown))
    axis = _Axis.of(shown, label)
    dots = axis.dots(
        lambda point: _y_position(1 - (_number(point, metric) or 0.0) / top),
        lambda point: f"{_number(point, metric):.4g}",
    )
    boards = dict.fromkeys(str(point["board"]) for _, point in axis.placed)
    of_boards = [[dot for dot, (_, p) in zip(dots, axis.placed, strict=False) if str(p["board"]) == b] for b in boards]
    line = " ".join(_path(dots_of_board) for dots_of_board in of_boards)
    ticks = [(_y_position(1 - fraction), f"{top * fraction:.3g}") for fraction in (0.0, 0.5, 1.0)]
    return Chart(f"{metric} by {label or 'time'}", dots, line, ticks, axis.names(), axis.border, axis.legend)


@dataclass(frozen=True, slots=True)
class _Axis:
    """The horizontal axis: rows with the label (all rows if there is none), then, behind a border, those without it."""

    label: str
    placed: list[tuple[float, Row]]
    apart: list[tuple[float, Row]]
    border: float | None

    @classmethod
    def of(cls, rows: Sequence[Row], label: str) -> _Axis:
        with_label = [row for row in rows if not label or label in row["labels"]]
        without = [row for row in rows if label and label not in row["labels"]]
        left, right = LEFT + 12, WIDTH - RIGHT - 12
        if not without or not with_label:
            return cls(label, _spread(with_label, left, right), _spread(without, left, right), None)
        room = min(max((right - left) * len(without) / len(rows), MIN_APART), MAX_APART)
        border = right - room - GAP / 2
        return cls(
            label, _spread(with_label, left, border - GAP / 2), _spread(without, border + GAP / 2, right), border
        )

    def dots(self, y_of: Callable[[Row], float], text_of: Callable[[Row], str]) -> list[Dot]:
        """Returns the dots of the rows, those without the label last."""
        return [
            Dot(x, y_of(row), row["verdict"], self._text(row, text_of(row), apart), f"/jobs/{row['job']}", apart)
            for rows, apart in ((self.placed, False), (self.apart, True))
            for x, row in rows
        ]

    def _text(self, row: Row, value_text: str, apart: bool) -> str:
        prefix = f"no {self.label}: " if apart else f"{self.label} {row['labels'][self.label]}: " if self.label else ""
        return f"{prefix}{value_text} on {row['board'] or 'no board'}"

    @property
    def legend(self) -> str:
        number = len(self.apart)
        if not number:
            return ""
        where = " at the right" if self.placed else ""
        if number == 1:
            return (
                f"No {self.label}: the hollow dot{where} is a run without this label; it is not joined to the others."
            )
        dots = f"the {number} hollow dots{where} are runs without this label"
        return f"No {self.label}: {dots}, in the order of time; they are not joined."

    def names(self) -> list[tuple[float, str]]:
        """Returns the positions and texts of the label where it changes, at most MAX_NAMES, and of the part without it."""
        names, last_text = list[tuple[float, str]](), None
        for x, row in self.placed:
            text = str(row["labels"][self.label]) if self.label else ""
            if text and text != last_text:
                names.append((x, _cut(text)))
            last_text = text
        names = names[:: max(1, math.ceil(len(names) / MAX_NAMES))]
        if self.apart:
            names.append(((self.apart[0][0] + self.apart[-1][0]) / 2, _cut(f"no {self.label}")))
        return _not_touching(names)


def _not_touching(names: list[tuple[float, str]]) -> list[tuple[float, str]]:
    """Returns the labels that do not touch the one before them; the last one stays, and one that it would touch does not."""
    kept = list[tuple[float, str]]()
    for x, text in reversed(names):
        if not kept or kept[-1][0] - x >= LETTER * (len(text) + len(kept[-1][1])) / 2 + LETTER:
            kept.append((x, text))
    return kept[::-1]


def _spread(rows: Sequence[Row], left: float, right: float) -> list[tuple[float, Row]]:
    """Returns the rows with their positions, at equal distances."""
    step = (right - left) / max(1, len(rows) - 1)
    return [((left + right) / 2 if len(rows) == 1 else left + step * index, row) for index, row in enumerate(rows)]


def _cut(text: str) -> str:
    return text if len(text) <= 14 else f"{text[:13]}…"


def _path(dots: Sequence[Dot]) -> str:
    return " ".join(f"{'L' if index else 'M'}{dot.x:.1f} {dot.y:.1f}" for index, dot in enumerate(dots))


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


def _y_position(fraction: float) -> float:
    return TOP + (HEIGHT - TOP - BOTTOM) * fraction
