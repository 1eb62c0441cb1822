"""Many frames, one model: a verdict each, and which are worst."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from qverify_agents.errors import LinkError

from qverify.compare.verdict import combine
from qverify.errors import QVerifyError, UsageError
from qverify.inputs.sources import ManifestEntry
from qverify.printable import printable
from qverify.report.document import Report
from qverify.report.frame_rank import frame_rank
from qverify.session.host_sides import Watch
from qverify.session.inputs.file_lists import is_list, lines
from qverify.session.inputs.prepared_files import manifest
from qverify.session.job import Job, Outcome
from qverify.session.request import Request

WHOLE = 16  # frames whose tensors stay in the report
Tell = Callable[[dict[str, Any]], None]


@dataclass(frozen=True, slots=True)
class FrameSource:
    """files: as Asked takes them. source: what people call it. stated: by path, of a manifest. wrong: why it cannot be run."""

    files: str | Mapping[str, str]
    source: str
    stated: dict[str, ManifestEntry] = field(default_factory=dict)
    wrong: str = ""


def frame_sources(text: str | None) -> list[FrameSource] | None:
    """-i as several frames: a folder (of `inputs prepare`, or of files), a list (.txt) with a line a frame, or NAME:FOLDER
    for several inputs, as many files in each. None where it is one frame."""
    if text is None:
        return None
    if os.path.isfile(text) and is_list(text):
        return _listed(text)
    if os.path.isdir(text):
        return _folder(text, "")
    named = [pair for part in text.split(",") if (pair := _named_folder(part)) is not None]
    if not named or len(named) != len(text.split(",")):
        return None
    held = {name: _folder(folder, name) for name, folder in named}
    counts = {name: len(found) for name, found in held.items()}
    if len(held) != len(named) or len(set(counts.values())) != 1:
        raise UsageError(f"-i {text}: frames by input: {counts}; wanted as many for each, each input once")
    return [_together(row) for row in zip(*held.values(), strict=True)]


def _together(row: tuple[FrameSource, ...]) -> FrameSource:
    files = {name: path for f in row if isinstance(f.files, Mapping) for name, path in f.files.items()}
    stated = {path: one for f in row for path, one in f.stated.items()}
    return FrameSource(files, ",".join(f.source for f in row), stated, next((f.wrong for f in row if f.wrong), ""))


def _named_folder(part: str) -> tuple[str, str] | None:
    """`left:DIR` where DIR is a folder."""
    for at in (i for i, c in enumerate(part) if c == ":"):
        if os.path.isdir(part[at + 1 :]):
            return part[:at], part[at + 1 :]
    return None


def _folder(folder: str, name: str) -> list[FrameSource]:
    if os.path.isfile(os.path.join(folder, "manifest.json")):
        return _prepared(folder, name)
    names = sorted(n for n in os.listdir(folder) if not n.startswith("."))
    paths = {n: path for n in names if not os.path.isdir(path := os.path.join(folder, n))}
    if not paths:
        raise UsageError(f"-i {folder}: the folder holds no files")
    no_file = "not a regular file"
    return [FrameSource({name: path}, n, wrong="" if os.path.isfile(path) else no_file) for n, path in paths.items()]


def _prepared(folder: str, name: str) -> list[FrameSource]:
    """Of a manifest; what could not be prepared then is a frame that cannot run now."""
    described, rows, held = manifest(folder)
    found = []
    for row in rows:
        path = os.path.join(folder, row["file"])
        found.append(FrameSource({name: path}, row["source"], {path: ManifestEntry(described, row["sha256"])}))
    failed = [FrameSource({name: ""}, row["source"], wrong=row["why"]) for row in held["failed"]]
    if not found and not failed:
        raise UsageError(f"-i {folder}: its manifest lists no files")
    return found + failed


def _listed(path: str) -> list[FrameSource]:
    try:
        found = lines(path)
    except UsageError as error:
        raise UsageError(f"-i {error}") from error
    if not found:
        raise UsageError(f"-i {path}: the list is empty")
    here = os.path.dirname(path)
    return [FrameSource(",".join(_beside(here, part) for part in line.split(",")), line) for line in found]


def _beside(here: str, part: str) -> str:
    """A file of the list's folder, also as `name:file`."""
    whole = os.path.join(here, part)
    name, colon, file = part.rpartition(":")
    return whole if os.path.exists(whole) or not colon else f"{name}:{os.path.join(here, file)}"


def verify_frames(request: Request, frames: list[FrameSource], tell: Tell, watch: Watch | None = None) -> Outcome:
    """Every frame in order, told as it comes; those that cannot be prepared are listed and the others run all the same.
    UsageError when none ran. The report holds a verdict of every pair of every frame, and the tensors of the WHOLE worst
    frames: memory does not grow with tensors."""
    job, kept, rows, unreached = Job(request), KeptReports(), list[dict[str, Any]](), ""
    try:
        for number, frame in enumerate(frames):
            try:
                if frame.wrong:
                    raise UsageError(frame.wrong)
                asked = replace(request.inputs, files=frame.files, prepared=frame.stated)
                outcome = job.run(asked, number, watch, frame.source)
                unreached = outcome.unreached
                rows.append(frame_row(number, frame.source, outcome.report))
                kept.add(outcome.report, rows[-1])
            except QVerifyError as error:
                rows.append(not_run(number, frame.source, error))
                job.not_run(number, frame.source, rows[-1]["why"])
            tell(rows[-1])
            if unreached:
                for n, late in list(enumerate(frames))[number + 1 :]:
                    rows.append(not_run(n, late.source, UsageError(unreached)))
                    job.not_run(n, late.source, unreached)
                break  # the others would only wait for the same
        for row in rows:
            row["board"] = request.board
        if not kept.reports:
            raise UsageError(f"none of {len(frames)} frames could be prepared: {rows[0]['why']}")
        whole = kept.whole(rows)
        job.captured(whole)
    except (QVerifyError, LinkError) as error:
        job.forget(error)
        raise
    finally:
        job.close()
    return Outcome(whole, list(job.models.graph.outputs), unreached)


class KeptReports:
    """Reports of frames: the WHOLE worst with their tensors, the others without."""

    def __init__(self) -> None:
        self.reports: list[Report] = []
        self._whole: list[tuple[tuple[float, ...], Report]] = []

    def add(self, report: Report, row: dict[str, Any]) -> None:
        if self.reports:  # what every frame has alike is said once
            report.sides, report.canary, report.no_integer_reference = [], {}, []
        self.reports.append(report)
        self._whole.append((frame_rank(row), report))
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
        if made.verdict == "PASSED" and any(row["verdict"] == "NOT RUN" for row in rows):
            made.verdict = "INCONCLUSIVE"
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
        "board": None,
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
        "board": None,
    }
