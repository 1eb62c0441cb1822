"""Several boards in one run: one verdict line for every two sides over all of them, every weakening of any board in it."""

from __future__ import annotations

from qverify.printable import visible
from qverify.renderers.verdict_lines import common_weakenings, line_over
from qverify.report.document import Pair, Report, worst


def render(report: Report, boards: int) -> str:
    """The last lines of a run on `boards` boards, after each board's own."""
    report = visible(report)
    pairs: dict[tuple[str, str], list[Pair]] = {}
    for pair in report.pairs:
        pairs.setdefault((pair.a, pair.b), []).append(pair)
    said = common_weakenings(report)
    return "\n".join(line_over(found, [_counted(found, boards)], said) for found in pairs.values())


def _counted(pairs: list[Pair], boards: int) -> str:
    verdict = worst([p.verdict for p in pairs])
    named = list(dict.fromkeys(p.board for p in pairs if p.verdict == verdict and p.board))
    if verdict == "PASSED" or not named:
        return f"{boards} boards"
    return f"{len(named)} of {boards} boards, the first is {named[0]}"
