"""Many frames, one model: a verdict each, and which are worst."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from qverify.compare.verdict import combine
from qverify.errors import QVerifyError, UsageError
from qverify.renderers.json_file import printable
from qverify.report.document import Report
from qverify.session.inputs import manifest
from qverify.session.verify import Job, Outcome, Request, Watch

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
    UsageError when none ran. The report holds every pair of every frame; memory does not grow with tensors."""
    job, reports, rows, unreached = Job(request), list[Report](), list[dict[str, Any]](), ""
    try:
        for number, (inputs, source) in enumerate(frames):
            try:
                outcome = job.run(replace(request.inputs, files=inputs), number, watch)
                report = outcome.report
                reports.append(report)
                if outcome.unreached:
                    unreached = outcome.unreached
                rows.append(_row(number, source, report))
            except QVerifyError as error:
                rows.append(_unprepared(number, source, error))
            tell(rows[-1])
            if unreached:
                rows += [_unprepared(n, s, UsageError(unreached)) for n, (_, s) in enumerate(frames) if n > number]
                break  # the others would only wait for the same
    finally:
        job.close()
    if not reports:
        raise UsageError(f"none of {len(frames)} frames could be prepared: {rows[0]['why']}")
    whole = combine(reports)
    whole.frames, whole.link = rows, reports[-1].link  # counted from the first frame on
    return Outcome(whole, list(job.models.graph.outputs), unreached)


def _row(number: int, source: str, report: Report) -> dict[str, Any]:
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


def _unprepared(number: int, source: str, error: Exception) -> dict[str, Any]:
    why = " ".join(str(error).split())
    return {
        "frame": number,
        "source": printable(source),
        "verdict": "NOT RUN",
        "why": why,
        "failing": None,
        "max_abs": None,
    }
