"""Renders the facts of a sequence: its states, the curve over the steps, and the drift."""

from __future__ import annotations

import math

from qverify.plural import count
from qverify.report.document import ReportDocument
from qverify.report.sequence import BOTH, CurvePoint, SequenceFacts

MARKS = "_.:-=+*#"  # from no difference to the largest one
MAX_ROWS = 12  # tensors of the map
WIDTH = 64  # characters of a curve


def sequence_lines(report: ReportDocument) -> list[str]:
    """Returns the lines, [] without a sequence. report: all its texts must be printable."""
    facts = report.sequence
    if facts is None:
        return []
    begins = f" from step {facts.first} on" if facts.first else ""
    steps = count(facts.steps - facts.first, "step")
    lines = [f"sequence: {facts.ran} of {steps}{begins}, {count(len(facts.states), 'state')}"]
    for side, feed, points in curves(facts):
        if drawn := _draw(points):
            lines.append(f"  {side}, {feed}, largest difference by step: {drawn}")
    lines += _heat(facts)
    return [*lines, *([f"drift: {facts.drift.text}"] if facts.drift is not None else []), *_tokens(facts)]


def point_lines(report: ReportDocument) -> list[str]:
    """Returns a line for each step and feed in which a side differs, for formats of lines."""
    points = report.sequence.curve if report.sequence is not None else []
    return [
        f"step {p.step}, {p.feed}, {p.side}: {p.verdict}, {p.tensor} differs"
        + (f" by up to {p.max_abs:.4g}" if p.max_abs is not None else "")
        + (f", SQNR {p.sqnr_db:.1f} dB" if p.sqnr_db is not None else "")
        for p in points
        if p.tensor
    ]


def _heat(facts: SequenceFacts) -> list[str]:
    """Returns a line of characters for each tensor that differs, by step, in the order in which they do so first."""
    rows = list(dict.fromkeys((c.side, c.tensor) for c in facts.heat))
    if len(rows) < 2:
        return []
    most = max((c.max_abs or 0.0 for c in facts.heat), default=0.0)
    size, lines = -(-facts.steps // WIDTH), ["  tensors that differ, by step:"]
    for side, tensor in rows[:MAX_ROWS]:
        marks = [0] * -(-facts.steps // size)
        for c in (c for c in facts.heat if (c.side, c.tensor) == (side, tensor)):
            level = len(MARKS) - 1 if c.max_abs is None or not most else round((len(MARKS) - 1) * c.max_abs / most)
            marks[c.step // size] = max(marks[c.step // size], max(level, 1))
        lines.append(f"    {''.join(MARKS[mark] for mark in marks)} {side} {tensor}")
    return [*lines, *([f"    and {len(rows) - MAX_ROWS} more"] if len(rows) > MAX_ROWS else [])]


def curves(facts: SequenceFacts) -> list[tuple[str, str, list[CurvePoint]]]:
    """Returns the curves of each side and feed, with the points of steps that are of both feeds: side, feed, points."""
    found = []
    for side in dict.fromkeys(p.side for p in facts.curve):
        own = [p for p in facts.curve if p.side == side]
        for feed in facts.feeds:
            if feed == facts.feeds[0] or any(p.feed == feed for p in own):
                found.append((side, feed, [p for p in own if p.feed in (feed, BOTH)]))
    return found


def _draw(points: list[CurvePoint]) -> str:
    """Returns the largest differences as characters, with the steps of the first and the last; "" if all are equal. Each
    character stands for the largest of several steps if there are many."""
    apart = [p for p in points if p.tensor]
    if not apart:
        return ""
    most = max((p.max_abs or 0.0 for p in apart), default=0.0)
    size = -(-len(points) // WIDTH)
    parts = [points[at : at + size] for at in range(0, len(points), size)]
    text = "".join(MARKS[max(_level(p, most) for p in part)] for part in parts)
    worst = max(apart, key=lambda p: math.inf if p.max_abs is None else p.max_abs)
    shown = "not a number" if worst.max_abs is None else f"{most:.3g}"
    return (
        f"{points[0].step} {text} {points[-1].step}, most {shown} in {worst.tensor} at {worst.step}"
        f", first at {apart[0].step}"
    )


def _level(point: CurvePoint, most: float) -> int:
    if not point.tensor:
        return 0
    if point.max_abs is None or not most:
        return len(MARKS) - 1
    return max(1, round((len(MARKS) - 1) * point.max_abs / most))


def _tokens(facts: SequenceFacts) -> list[str]:
    """Returns where the sides first choose another token; [] without a gate for tokens."""
    with_tokens = [p for p in facts.curve if p.tokens]
    other = next((p for p in with_tokens if len(set(p.tokens.values())) > 1), None)
    if not with_tokens:
        return []
    if other is None:
        return [f"tokens: the same in {count(len({p.step for p in with_tokens}), 'step')}"]
    chosen = ", ".join(f"{side} {token}" for side, token in other.tokens.items())
    return [f"tokens: first apart at step {other.step}, {other.feed}: {chosen}"]
