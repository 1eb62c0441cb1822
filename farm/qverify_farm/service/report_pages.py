"""HTML pages of reports. They are rendered by qverify when they are first requested, and kept in memory for a while."""

from __future__ import annotations

import tempfile
import threading
from collections import OrderedDict
from pathlib import Path

from qverify_farm.errors import ArtifactError
from qverify_farm.store.artifacts import ArtifactStore

MAX_KEPT_BYTES = 64 << 20  # total size of the pages in memory
MAX_REPORT_BYTES = 256 << 20
POLICY = (
    "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data: blob:; "
    "frame-ancestors 'self'; sandbox allow-scripts allow-downloads"
)  # the page's script cannot read the service's cookies or replies


class ReportPages:
    """Pages by the digest of their reports. One page is rendered at a time, since it takes a second of processor time."""

    def __init__(self, artifacts: ArtifactStore):
        self._artifacts = artifacts
        self._pages: OrderedDict[str, bytes] = OrderedDict()
        self._drawing = threading.Lock()

    def page_of(self, report: str) -> bytes:
        """Returns the page of a report. Raises ArtifactError if the report is not stored, and BadFileError if it is not a
        report."""
        with self._drawing:
            if report not in self._pages:
                self._pages[report] = self._render(report)
                while len(self._pages) > 1 and sum(map(len, self._pages.values())) > MAX_KEPT_BYTES:
                    self._pages.popitem(last=False)
            self._pages.move_to_end(report)
            return self._pages[report]

    def _render(self, report: str) -> bytes:
        from qverify.renderers.formats.html import write
        from qverify.report.read_report import read_report

        size = self._artifacts.size_of(report)
        if size is None or size > MAX_REPORT_BYTES:
            raise ArtifactError(f"report {report}: {size} bytes; wanted at most {MAX_REPORT_BYTES} to draw a page")
        with tempfile.TemporaryDirectory() as folder:
            source, page = Path(folder, "report.json"), Path(folder, "report.html")
            self._artifacts.copy_to(report, source)
            write(read_report(str(source)), str(page))
            return page.read_bytes()
