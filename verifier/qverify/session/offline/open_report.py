"""Opens the report of an earlier run: reads a JSON report, or judges a capture or a bundle again."""

from __future__ import annotations

import os

from qverify.capture.reader import is_capture
from qverify.compare.options import Options
from qverify.report.document import ReportDocument
from qverify.report.read_report import read_report
from qverify.session.offline.rejudge import RejudgeRequest, rejudge
from qverify.session.offline.replay_bundle import ReplayRequest, replay


def open_report(path: str) -> ReportDocument:
    """Returns the report of a JSON file, a capture or a bundle. A capture is judged with the options of its run, a
    bundle with the default options. Raises BadFileError or UsageError if the path is none of the three."""
    if not os.path.isdir(path):
        return read_report(path)
    if is_capture(path):
        return rejudge(RejudgeRequest(path)).report
    return replay(ReplayRequest(path, options=Options())).report
