"""Many frames, one model: a verdict each, and which are worst."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from qverify.compare.verdict import combine
from qverify.errors import QVerifyError, UsageError
from qverify.renderers.frames import rank
from qverify.renderers.json_file import printable
from qverify.report.document import Report
from qverify.session.inputs import manifest
from qverify.session.verify import Job, Outcome, Request, Watch

WHOLE = 16  # frames whose tensors stay in the report
Tell = Callable[[dict[str, Any]], None]


def sources(text: str | None) -> list[tuple[str, str]] | None:
    """-i as several frames: a folder (of `inputs prepare`, or of files), or a list (.txt) with a line a frame, paths
    relative to it: (inputs as of -i, what the frame is called). None where it is one frame."""
    if text is None or not (os.path.isdir(text) or (text.endswith(".txt") and os.path.isfile(text))):
        return None
    if os.path.isfile(text):
        return _listed(text)
    if os.path.isfile(os.path.join(text, "manifest.json")):
        return [(os.path.join(text, os.path.basename(row["file"])), row["source"]) for row in manifest(text)[1]]
    names = sorted(n for n in os.listdir(text) if not n.startswith("."))
    found = [(path, n) for n in names if os.path.isfile(path := os.path.join(text, n))]
    if not found:
        raise UsageError(f"-i {text}: the folder holds no files")
    return found


def _listed(path: str) -> list[tuple[str, str]]:
    try:
        with open(path, encoding="utf-8") as file:
            lines = [line.strip() for line in file if line.strip() and not line.startswith("#")]
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"-i {path}: not a readable list: {error}") from error
    if not lines:
        raise UsageError(f"-i {path}: the list is empty")
    here = os.path.dirname(path)
    return [(",".join(_beside(here, part) for part in line.split(",")), line) for line in lines]


def _beside(here: str, part: str) -> str:
    """A file of the list's folder, also as `name:file`."""
    whole = os.path.join(here, part)
    name, colon, file = part.rpartition(":")
    return whole if os.path.exists(whole) or not colon else f"{name}:{os.path.join(here, file)}"


def verify_frames(request: Request, frames: list[tuple[str, str]], tell: Tell, watch: Watch | None = None) -> Outcome:
    """Every frame in order, told as it comes; those that cannot be prepared are listed and the others run all the same.
    UsageError when none ran. The report holds a verdict of every pair of every frame, and the tensors of the WHOLE worst
    frames: memory does not grow with tensors."""
    job, kept, rows, unreached = Job(request), Kept(), list[dict[str, Any]](), ""
    try:
        for number, (inputs, source) in enumerate(frames):
            try:
                outcome = job.run(replace(request.inputs, files=inputs), number, watch, source)
                unreached = outcome.unreached
                rows.append(frame_row(number, source, outcome.report))
                kept.add(outcome.report, rows[-1])
            except QVerifyError as error:
                rows.append(not_run(number, source, error))
            tell(rows[-1])
            if unreached:
                rows += [not_run(n, s, UsageError(unreached)) for n, (_, s) in enumerate(frames) if n > number]
                break  # the others would only wait for the same
        if not kept.reports:
            raise UsageError(f"none of {len(frames)} frames could be prepared: {rows[0]['why']}")
        whole = kept.whole(rows)
        job.captured(whole)
    finally:
        job.close()
    return Outcome(whole, list(job.models.graph.outputs), unreached)


class Kept:
    """Reports of frames: the WHOLE worst with their tensors, the others without."""

    def __init__(self) -> None:
        self.reports: list[Report] = []
        self._whole: list[tuple[tuple[float, ...], Report]] = []

    def add(self, report: Report, row: dict[str, Any]) -> None:
        if self.reports:  # what every frame has alike is said once
            report.sides, report.canary, report.no_integer_reference = [], {}, []
        self.reports.append(report)
        self._whole.append((rank(row), report))
        if len(self._whole) > WHOLE:
            self._whole.sort(key=lambda pair: pair[0])
            _, least = self._whole.pop()
            for pair in least.pairs:
                pair.tensors, pair.agreement, pair.notes = [], [], []
                pair.coverage.missing, pair.coverage.not_offered = [], []

    def whole(self, rows: list[dict[str, Any]]) -> Report:
        """One report of all; the link counts from the first frame on."""
        made = combine(self.reports)
        made.frames, made.link = rows, self.reports[-1].link
        made.notes = [*dict.fromkeys(made.notes), *self.notes()]
        return made

    def notes(self) -> list[str]:
        left = len(self.reports) - len(self._whole)
        return [f"the tensors of {left} frames are left out, those of the {WHOLE} worst are there"] if left else []


def frame_row(number: int, source: str, report: Report) -> dict[str, Any]:
    """A frame in the report's `frames`."""
    tensors = [row for pair in report.pairs for row in pair.tensors]
    apart = [d for row in tensors if isinstance(d := row.metrics.get("max_abs"), float)]
    why = next((p.why for p in report.pairs if p.verdict == report.verdict and p.why), "")
    return {
        "frame": number,
        "source": printable(source),
        "verdict": report.verdict,
        "why": why if report.verdict != "PASSED" else "",
        "failing": sum(row.failing or 0 for row in tensors),
        "max_abs": max(apart, default=None),
    }


def not_run(number: int, source: str, error: Exception) -> dict[str, Any]:
    """The same of a frame that could not be prepared."""
    why = " ".join(str(error).split())
    return {
        "frame": number,
        "source": printable(source),
        "verdict": "NOT RUN",
        "why": why,
        "failing": None,
        "max_abs": None,
    }
