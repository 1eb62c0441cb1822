"""The verdict lines of a whole report, whatever it is of: one run, many frames, several boards."""

from __future__ import annotations

from qverify.renderers import several_boards
from qverify.renderers.frame_lines import verdicts_over_frames
from qverify.renderers.verdict_lines import common_weakenings, line
from qverify.report.document import Report, Verdict


def overall_lines(report: Report) -> list[tuple[Verdict, str]]:
    """Returns verdicts and lines, one for every two sides: over all boards where there are several, over all frames where
    there are many. report: with every text printable."""
    if len(report.boards) > 1:
        return several_boards.verdicts_over_boards(report, len(report.boards))
    if report.frames:
        return verdicts_over_frames(report)
    common = common_weakenings(report)
    return [(pair.verdict, line(pair, common)) for pair in report.pairs]
