"""Renders the result of a run on several boards: one verdict line for every two sides over all boards, with the
reservations of each."""

from __future__ import annotations

from qverify.plural import count
from qverify.printable import visible
from qverify.renderers.text_view import TextView
from qverify.renderers.verdict_lines import reasons_of, verdict_line_over
from qverify.report.document import Pair, ReportDocument, Verdict, worst
from qverify.report.frames_left_out import describe_left_out
from qverify.report.weakenings import list_common_caveats

PLAIN = TextView()


def render(report: ReportDocument, boards: int, view: TextView = PLAIN) -> str:
    """Returns the last lines of a run on `boards` boards, below a heading. They follow the lines of the single
    boards."""
    lines = [view.paint(text, verdict) for verdict, text in verdicts_over_boards(visible(report), boards)]
    return "\n".join([view.paint("== all boards ==", "heading"), *lines])


def verdicts_over_boards(report: ReportDocument, boards: int) -> list[tuple[Verdict, str]]:
    """Returns the verdict over all boards and its line, for every two sides. report: all its texts must be
    printable."""
    by_sides: dict[tuple[str, str], list[Pair]] = {}
    for pair in report.pairs:
        by_sides.setdefault((pair.a, pair.b), []).append(pair)
    weakenings = list_common_caveats(report)
    left_out = describe_left_out(report.frames)
    best_verdict: Verdict = "INCONCLUSIVE" if left_out else "PASSED"
    return [
        (
            worst([best_verdict, *(p.verdict for p in pairs)]),
            verdict_line_over(
                pairs, [_count_boards(pairs, boards), *_task_reasons(pairs), *left_out], weakenings, best_verdict
            ),
        )
        for pairs in by_sides.values()
    ]


def _task_reasons(pairs: list[Pair]) -> list[str]:
    """Returns the reason of the worst verdict if it is a gate of the task."""
    verdict = worst([p.verdict for p in pairs])
    first = next(p for p in pairs if p.verdict == verdict)
    return reasons_of(first) if first.cause == "task" and verdict != "PASSED" else []


def _count_boards(pairs: list[Pair], boards: int) -> str:
    verdict = worst([p.verdict for p in pairs])
    names = list(dict.fromkeys(p.board for p in pairs if p.verdict == verdict and p.board))
    total = count(boards, "board")
    return total if verdict == "PASSED" or not names else f"{len(names)} of {total}, the first is {names[0]}"
