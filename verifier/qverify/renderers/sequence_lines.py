"""Renders the facts of a sequence: its states, the curve over the steps, and the drift."""

from __future__ import annotations

from qverify.plural import count
from qverify.report.document import ReportDocument
from qverify.report.sequence import BOTH, CurvePoint, SequenceFacts

MARKS = "_.:-=+*#"  # from no difference to the largest one
WIDTH = 64  # characters of a curve


def sequence_lines(report: ReportDocument) -> list[str]:
    """Returns the lines, [] without a sequence. report: all its texts must be printable."""
    facts = report.sequence
    if facts is None:
        return []
    lines = [f"sequence: {facts.ran} of {count(facts.steps, 'step')}, {count(len(facts.states), 'state')}"]
    for side, feed, points in curves(facts):
        if drawn := _draw(points):
            lines.append(f"  {side}, {feed}, largest difference by step: {drawn}")
    return [*lines, *([f"drift: {facts.drift.text}"] if facts.drift is not None else []), *_tokens(facts)]


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
    worst = max(apart, key=lambda p: p.max_abs or 0.0)
    return (
        f"{points[0].step} {text} {points[-1].step}, most {most:.3g} in {worst.tensor} at {worst.step}"
        f", first at {apart[0].step}"
    )


def _level(point: CurvePoint, most: float) -> int:
    if not point.tensor:
        return 0
    return len(MARKS) - 1 if not most else max(1, round((len(MARKS) - 1) * (point.max_abs or 0.0) / most))


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
