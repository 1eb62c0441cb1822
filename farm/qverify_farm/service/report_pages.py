"""Reports as pages, drawn by qverify's own renderer when they are first asked for, and kept for a while."""

from __future__ import annotations

import tempfile
import threading
from collections import OrderedDict
from pathlib import Path

from qverify_farm.errors import ArtifactError
from qverify_farm.store.artifacts import Artifacts

MOST_BYTES = 64 << 20  # of the pages that are kept
MOST_REPORT = 256 << 20
POLICY = (
    "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data: blob:; "
    "frame-ancestors 'self'; sandbox allow-scripts allow-downloads"
)  # the page's script sees neither this service's cookies nor its answers


class ReportPages:
    """Pages by the digest of their reports. One is drawn at a time: it takes a processor for a second."""

    def __init__(self, artifacts: Artifacts):
        self._artifacts = artifacts
        self._pages: OrderedDict[str, bytes] = OrderedDict()
        self._drawing = threading.Lock()

    def page_of(self, report: str) -> bytes:
        """Returns the page of a report. ArtifactError where there is none, BadFileError where it is no report."""
        with self._drawing:
            if report not in self._pages:
                self._pages[report] = self._drawn(report)
                while len(self._pages) > 1 and sum(map(len, self._pages.values())) > MOST_BYTES:
                    self._pages.popitem(last=False)
            self._pages.move_to_end(report)
            return self._pages[report]

    def _drawn(self, report: str) -> bytes:
        from qverify.renderers.formats.html import write
        from qverify.report.read_report import read_report

        size = self._artifacts.size_of(report)
        if size is None or size > MOST_REPORT:
            raise ArtifactError(f"report {report}: {size} bytes; wanted at most {MOST_REPORT} to draw a page")
        with tempfile.TemporaryDirectory() as folder:
            source, page = Path(folder, "report.json"), Path(folder, "report.html")
            self._artifacts.copy_to(report, source)
            write(read_report(str(source)), str(page))
            return page.read_bytes()
