"""Renders several boards of one run: one verdict line for every two sides over all boards, with the reservations of
each."""

from __future__ import annotations

from qverify.plural import count
from qverify.printable import visible
from qverify.renderers.verdict_lines import common_weakenings, line_over
from qverify.report.document import Pair, Report, worst


def render(report: Report, boards: int) -> str:
    """Returns the last lines of a run on `boards` boards, printed after each board's own."""
    report = visible(report)
    by_sides: dict[tuple[str, str], list[Pair]] = {}
    for pair in report.pairs:
        by_sides.setdefault((pair.a, pair.b), []).append(pair)
    weakenings = common_weakenings(report)
    return "\n".join(line_over(pairs, [_count_boards(pairs, boards)], weakenings) for pairs in by_sides.values())


def _count_boards(pairs: list[Pair], boards: int) -> str:
    verdict = worst([p.verdict for p in pairs])
    names = list(dict.fromkeys(p.board for p in pairs if p.verdict == verdict and p.board))
    total = count(boards, "board")
    return total if verdict == "PASSED" or not names else f"{len(names)} of {total}, the first is {names[0]}"
