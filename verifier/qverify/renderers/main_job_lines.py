"""Renders the main job's verdict lines, with which triage begins."""

from __future__ import annotations

from qverify.renderers import verdict_lines
from qverify.renderers.frame_lines import verdicts_over_frames
from qverify.renderers.text_view import TextView
from qverify.report.document import ReportDocument
from qverify.report.triage_document import TriageDocument


def render(document: TriageDocument, view: TextView) -> str:
    """Returns `main job: ` with the verdict line of each pair, "" if the main job compares nothing. document: all its
    texts must be printable."""
    main = document.main_job
    if main is None:
        return ""
    report = ReportDocument(
        verdict=main.verdict,
        blame=None,
        decimals={},
        pairs=main.pairs,
        inputs=document.inputs,
        not_run=main.not_run,
        caveats=document.caveats,
    )
    numbers = sorted({pair.frame for pair in main.pairs})
    if len(document.frames) == 1:
        lines = verdict_lines.render(report).splitlines()
        return "\n".join(
            view.paint(f"main job: {line}", pair.verdict) for line, pair in zip(lines, main.pairs, strict=True)
        )
    report.frames = [{"frame": number, "verdict": "PASSED"} for number in numbers]
    return "\n".join(view.paint(f"main job: {line}", verdict) for verdict, line in verdicts_over_frames(report))
