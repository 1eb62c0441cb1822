"""The report of a file or folder: a JSON report as it is, a capture or a bundle judged again."""

from __future__ import annotations

import os

from qverify.capture.reader import is_capture
from qverify.compare.options import Options
from qverify.report.document import Report
from qverify.report.read_report import read_report
from qverify.session.offline.rejudge import RejudgeRequest, rejudge
from qverify.session.offline.replay_bundle import ReplayRequest, replay


def open_report(path: str) -> Report:
    """Returns the report. A capture is judged by the options of its run, a bundle by the default ones. BadFileError or
    UsageError where the path is none of the three."""
    if not os.path.isdir(path):
        return read_report(path)
    if is_capture(path):
        return rejudge(RejudgeRequest(path)).report
    return replay(ReplayRequest(path, options=Options())).report
