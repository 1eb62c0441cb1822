"""Two runs beside each other as rows of one table, which every format of `qverify report diff` draws from."""

from __future__ import annotations

from dataclasses import dataclass

from qverify.plural import count
from qverify.report.difference import ReportDifference

ORDER = {"worse": 0, "not known": 1, "other": 2, "better": 3, "same": 4}


@dataclass(frozen=True, slots=True)
class DifferenceRow:
    """One change. kind: verdict (of a pair), blame (of a side), tensor (its verdict), metric, only, time (seconds), fact.
    pair, frame, board, tensor: where; empty where it belongs to none. before, now: text or number, None for absent.
    direction: better, worse, other, not known, same, or ""."""

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


def difference_rows(found: ReportDifference) -> list[DifferenceRow]:
    """Returns every change: verdicts, blame, tensors and their metrics (the worse ones first), tensors in one run only,
    times, facts."""
    rows = [DifferenceRow("verdict", "", None, "", "", "the run", found.a.verdict, found.b.verdict, found.change)]
    for p in found.pairs:
        rows.append(DifferenceRow("verdict", p.pair, p.frame, p.board or "", "", "verdict", p.before, p.now, p.change))
    rows += [DifferenceRow("blame", "", None, "", "", b.side, b.before, b.now) for b in found.blame]
    for t in sorted(found.tensors, key=lambda one: ORDER[one.direction]):
        place = t.pair, t.frame, t.board or "", t.tensor
        rows.append(DifferenceRow("tensor", *place, "verdict", t.before, t.now, t.direction))
        for m in t.metrics:
            if not isinstance(m.before, dict) and not isinstance(m.now, dict):
                rows.append(DifferenceRow("metric", *place, m.metric, m.before, m.now, m.direction))
    for o in found.only:
        states = (o.verdict, None) if o.run == "a" else (None, o.verdict)
        rows.append(DifferenceRow("only", o.pair, o.frame, o.board or "", o.tensor, f"only in {o.run}", *states))
    rows += [DifferenceRow("time", "", None, "", "", f"{t.of} {t.name}", t.before, t.now) for t in found.times]
    return rows + [DifferenceRow("fact", "", None, "", "", f.what, f.before, f.now) for f in found.facts]


def headline(found: ReportDifference) -> str:
    """Returns the result in one line: how the verdict changed, why, how many tensors are better and worse, caveats."""
    ways = [t.direction for t in found.tensors]
    numbers = ", ".join(f"{ways.count(way)} {way}" for way in ("better", "worse", "other"))
    said = f"report diff {found.change.upper()}: {found.a.verdict} -> {found.b.verdict}"
    both = f"{count(found.compared, 'tensor')} in both: {numbers}, {found.equal} equal"
    return f"{said} ({'; '.join(text for text in (found.why, both, *found.caveats) if text)})"


def shown(value: str | int | float | None) -> str:
    """Returns a value as text that reads back as the same number; - where it is absent."""
    return "-" if value is None else repr(value) if isinstance(value, float) else str(value)
