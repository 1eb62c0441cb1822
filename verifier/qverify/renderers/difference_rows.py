"""Returns the differences of two runs as rows of one table, on which all formats of `qverify report diff` are based."""

from __future__ import annotations

from dataclasses import dataclass

from qverify.plural import count
from qverify.report.difference import ReportDifference

ORDER = {"worse": 0, "not known": 1, "other": 2, "better": 3, "same": 4}


@dataclass(frozen=True, slots=True)
class DifferenceRow:
    """One change.

    Attributes:
        kind: verdict (of a pair), blame (of a side), tensor (its verdict), metric, only, time (seconds) or fact.
        pair, frame, board, tensor: the place of the change; empty if it has none.
        what: the quantity that changed.
        before, now: text or number, or None if absent.
        direction: better, worse, other, not known, same, or "".
    """

    kind: str
    pair: str
    frame: int | None
    board: str
    tensor: str
    what: str
    before: str | int | float | None
    now: str | int | float | None
    direction: str = ""


COLUMNS = ("kind", "pair", "frame", "board", "tensor", "what", "before", "now", "direction")


def difference_rows(difference: ReportDifference) -> list[DifferenceRow]:
    """Returns all changes: verdicts, blame, tensors with their metrics (the worst first), tensors in one run only,
    times and facts."""
    rows = [
        DifferenceRow(
            "verdict", "", None, "", "", "the run", difference.a.verdict, difference.b.verdict, difference.change
        )
    ]
    for p in difference.pairs:
        rows.append(DifferenceRow("verdict", p.pair, p.frame, p.board or "", "", "verdict", p.before, p.now, p.change))
    rows += [DifferenceRow("blame", "", None, "", "", b.side, b.before, b.now) for b in difference.blame]
    for t in sorted(difference.tensors, key=lambda tensor: ORDER[tensor.direction]):
        place = t.pair, t.frame, t.board or "", t.tensor
        rows.append(DifferenceRow("tensor", *place, "verdict", t.before, t.now, t.direction))
        for m in t.metrics:
            if not isinstance(m.before, dict) and not isinstance(m.now, dict):
                rows.append(DifferenceRow("metric", *place, m.metric, m.before, m.now, m.direction))
    for o in difference.only:
        states = (o.verdict, None) if o.run == "a" else (None, o.verdict)
        rows.append(DifferenceRow("only", o.pair, o.frame, o.board or "", o.tensor, f"only in {o.run}", *states))
    rows += [DifferenceRow("time", "", None, "", "", f"{t.of} {t.name}", t.before, t.now) for t in difference.times]
    return rows + [DifferenceRow("fact", "", None, "", "", f.what, f.before, f.now) for f in difference.facts]


def headline(difference: ReportDifference) -> str:
    """Returns the result in one line: how the verdict changed and why, how many tensors are better or worse, and
    caveats."""
    directions = [t.direction for t in difference.tensors]
    numbers = ", ".join(f"{directions.count(direction)} {direction}" for direction in ("better", "worse", "other"))
    verdicts = f"report diff {difference.change.upper()}: {difference.a.verdict} -> {difference.b.verdict}"
    tensors = f"{count(difference.compared, 'tensor')} in both: {numbers}, {difference.equal} equal"
    return f"{verdicts} ({'; '.join(text for text in (difference.why, tensors, *difference.caveats) if text)})"


def shown(value: str | int | float | None) -> str:
    """Returns a value as text that can be parsed into the same number, or "-" if it is absent."""
    return "-" if value is None else repr(value) if isinstance(value, float) else str(value)
