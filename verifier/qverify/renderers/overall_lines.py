"""Returns the verdict lines of any report: of one run, many frames, or several boards."""

from __future__ import annotations

from qverify.renderers import several_boards
from qverify.renderers.frame_lines import verdicts_over_frames
from qverify.renderers.verdict_lines import verdict_line
from qverify.report.document import ReportDocument, Verdict
from qverify.report.weakenings import list_common_caveats


def overall_lines(report: ReportDocument) -> list[tuple[Verdict, str]]:
    """Returns a verdict and its line for every two sides: over all boards if there are several, or else over all
    frames. report: all its texts must be printable."""
    if len(report.boards) > 1:
        return several_boards.verdicts_over_boards(report, len(report.boards))
    if report.frames:
        return verdicts_over_frames(report)
    common = list_common_caveats(report)
    return [(pair.verdict, verdict_line(pair, common)) for pair in report.pairs]
