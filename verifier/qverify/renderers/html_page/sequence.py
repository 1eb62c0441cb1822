"""Draws a sequence: the largest difference by step, the tensors that differ by step, and what wrong states show."""

from __future__ import annotations

import math
from collections.abc import Sequence

from qverify.arithmetic.functions64 import log10_of
from qverify.renderers.html_page.elements import element, listed, number, table, text
from qverify.renderers.sequence_lines import curves
from qverify.report.document import ReportDocument
from qverify.report.sequence import CurvePoint, SequenceFacts

WIDTH, HEIGHT, LEFT, TOP, BOTTOM, ROW = 960, 200, 74, 16, 24, 16
MAX_HEAT_ROWS, MAX_WORDS = 80, 200
COLOURS = {"passed": "#116329", "failed": "#b3261e", "inconclusive": "#7a4b00"}
GRID, LINE = "#c9d1d9", "#57606a"
SMALLEST = 1e-9  # a difference at the lower end of the scale
DECADES = 12  # of the scale, up to 1000


def section_text(report: ReportDocument) -> str:
    """Returns the section, "" without a sequence."""
    facts = report.sequence
    if facts is None:
        return ""
    drawn = [_curve(f"{side}, {feed}", points, facts.steps) for side, feed, points in curves(facts)]
    lines = [*facts.states, *facts.step_inputs, *([facts.drift.text] if facts.drift is not None else [])]
    return "".join([listed(lines), *drawn, _heat(facts), _words(facts)])


def _place(value: float | None) -> float:
    """Returns the height of a difference on a logarithmic scale, from 0 (none) to 1 (1000 or more, or not known)."""
    if value is None or not math.isfinite(value):
        return 1.0
    return min(max(log10_of(max(value, SMALLEST) / SMALLEST), 0.0) / DECADES, 1.0)


def _curve(name: str, points: Sequence[CurvePoint], steps: int) -> str:
    """Returns the curve of one side and feed: a circle for each step."""
    room = (WIDTH - LEFT) / max(steps, 1)
    floor = HEIGHT - BOTTOM

    def y(point: CurvePoint) -> float:
        return floor - (floor - TOP) * (_place(point.max_abs) if point.tensor else 0.0)

    grid = []
    for power in range(-9, 4, 3):
        at = floor - (floor - TOP) * (power + 9) / DECADES
        grid.append(element("line", x1=LEFT, x2=WIDTH, y1=f"{at:.1f}", y2=f"{at:.1f}", stroke=GRID))
        label = "equal" if power == -9 else f"1e{power}"
        grid.append(element("text", label, x=4, y=f"{at + 4:.1f}", font_size=12, fill=LINE))
    placed = [(LEFT + room * (p.step + 0.5), y(p), p) for p in points]
    path = element("polyline", points=" ".join(f"{a:.1f},{b:.1f}" for a, b, _ in placed), fill="none", stroke=LINE)
    dots = [
        element(
            "circle",
            element("title", text(_describe(p))),
            cx=f"{a:.1f}", cy=f"{b:.1f}", r=3, fill=COLOURS.get(p.verdict.lower(), LINE),
        )
        for a, b, p in placed
    ]  # fmt: skip
    caption = f"Largest difference by step: {name}"
    drawn = element("svg", *grid, path, *dots, viewBox=f"0 0 {WIDTH} {HEIGHT}", role="img", aria_label=caption)
    return element("figure", element("figcaption", text(caption)), drawn)


def _describe(point: CurvePoint) -> str:
    tokens = f"; tokens {', '.join(f'{s} {t}' for s, t in point.tokens.items())}" if point.tokens else ""
    apart = f"{number(point.max_abs)} in {point.tensor}" if point.tensor else "equal"
    return f"step {point.step}, {point.verdict}: {apart}{tokens}"


def _heat(facts: SequenceFacts) -> str:
    """Returns the map of the tensors that differ, in the order in which they do so first; "" if none does."""
    rows = list(dict.fromkeys((c.side, c.tensor) for c in facts.heat))
    shown = rows[:MAX_HEAT_ROWS]
    if not shown:
        return ""
    at, room = {row: k for k, row in enumerate(shown)}, (WIDTH - 4 * LEFT) / max(facts.steps, 1)
    largest: dict[tuple[str, str, int], float] = {}
    for c in facts.heat:
        key = (c.side, c.tensor, c.step)
        largest[key] = max(largest.get(key, 0.0), math.inf if c.max_abs is None else c.max_abs)
    cells = [
        element(
            "rect",
            element("title", text(f"step {step}, {side}: {tensor}, up to {number(value)}")),
            x=f"{4 * LEFT + room * step:.1f}", y=at[side, tensor] * ROW, width=f"{max(room - 1, 1):.1f}",
            height=ROW - 2, fill=COLOURS["failed"], fill_opacity=f"{0.2 + 0.8 * _place(value):.2f}",
        )
        for (side, tensor, step), value in largest.items()
        if (side, tensor) in at
    ]  # fmt: skip
    names = [
        element("text", text(f"{side}: {tensor}"[-44:]), x=0, y=k * ROW + 11, font_size=11)
        for (side, tensor), k in at.items()
    ]
    caption = "Tensors that differ, by step" + (
        f" (the first {len(shown)} of {len(rows)})" if len(rows) > len(shown) else ""
    )
    drawn = element("svg", *names, *cells, viewBox=f"0 0 {WIDTH} {len(shown) * ROW}", role="img", aria_label=caption)
    return element("figure", element("figcaption", text(caption)), drawn)


def _words(facts: SequenceFacts) -> str:
    rows = [[text(w.step), text(w.feed), text(w.side), text(w.text)] for w in facts.words[:MAX_WORDS]]
    return table("What wrong states show", ("step", "feed", "side", "what"), rows) if rows else ""
