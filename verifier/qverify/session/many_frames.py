"""Verifies many frames of one model, and makes one report with a verdict for each frame and details of the worst."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from qverify_agents.errors import LinkError

from qverify.compare.combine_reports import combine
from qverify.errors import QVerifyError, TaskError, UndescribedError, UsageError
from qverify.inputs.sources import ManifestEntry
from qverify.plural import count
from qverify.printable import printable
from qverify.report.document import ReportDocument, worst
from qverify.report.frame_rank import frame_rank
from qverify.report.frames_left_out import describe_left_out
from qverify.session.checks.run_checks import Checks
from qverify.session.host_sides import Watch
from qverify.session.inputs.file_lists import is_list, lines
from qverify.session.job import Job, JobOutcome
from qverify.session.request import Request

MAX_WHOLE_REPORTS = 16  # frames whose tensors stay in the report
OnFrame = Callable[[dict[str, Any]], None]  # receives each frame's row of the report once it is judged


@dataclass(frozen=True, slots=True)
class FrameSource:
    """One frame.

    Attributes:
        files: the frame's files, as in InputRequest.
        source: the frame's name as reports show it.
        stated: the entries of a manifest for these files, by path.
        wrong: why the frame cannot be run, "" if it can.
        board_lost: the frame was not run because the board had been lost before it.
    """

    files: str | Mapping[str, str]
    source: str
    stated: dict[str, ManifestEntry] = field(default_factory=dict)
    wrong: str = ""
    board_lost: bool = False


def frame_sources(text: str | None, labels: str = "") -> list[FrameSource] | None:
    """Returns the frames that -i names: a folder (of `inputs prepare`, of files, or of folders with a file for each input), a list (.txt) with one line per
    frame, or NAME:FOLDER for each of several inputs; None if -i is one frame. Raises UsageError if the folders contain
    different numbers of files, an input is named twice, or a folder or list is empty. labels: path of the labels, which are no
    frame, also if they lie in the folder."""
    if text is None:
        return None
    if os.path.isfile(text) and is_list(text):
        return _read_list(text)
    if os.path.isdir(text):
        return _read_folder(text, "", labels)
    named = [pair for part in text.split(",") if (pair := _named_folder(part)) is not None]
    if not named or len(named) != len(text.split(",")):
        return None
    by_input = {name: _read_folder(folder, name, labels) for name, folder in named}
    counts = {name: len(frames) for name, frames in by_input.items()}
    if len(by_input) != len(named) or len(set(counts.values())) != 1:
        raise UsageError(f"-i {text}: frames by input: {counts}; wanted equally many for each, each input once")
    return [_join(row) for row in zip(*by_input.values(), strict=True)]


def _join(row: tuple[FrameSource, ...]) -> FrameSource:
    """Returns the frame whose inputs are those of all these single-input frames."""
    files = {name: path for f in row if isinstance(f.files, Mapping) for name, path in f.files.items()}
    stated = {path: entry for f in row for path, entry in f.stated.items()}
    return FrameSource(files, ",".join(f.source for f in row), stated, next((f.wrong for f in row if f.wrong), ""))


def _named_folder(part: str) -> tuple[str, str] | None:
    """Returns the name and the folder of `NAME:DIR`; None if the text is not of this form or DIR is not a folder."""
    for at in (i for i, c in enumerate(part) if c == ":"):
        if os.path.isdir(part[at + 1 :]):
            return part[:at], part[at + 1 :]
    return None


def _read_folder(folder: str, name: str, labels: str) -> list[FrameSource]:
    if os.path.isfile(os.path.join(folder, "manifest.json")):
        return _read_manifest(folder, name)
    apart = os.path.realpath(labels) if labels else ""
    names = sorted(n for n in os.listdir(folder) if n[:1] != ".")
    if apart:
        names = [n for n in names if os.path.realpath(os.path.join(folder, n)) != apart]
    paths = {n: path for n in names if not os.path.isdir(path := os.path.join(folder, n))}
    if not paths and names and not name:
        return [_read_frame_folder(folder, n) for n in names]
    if not paths:
        raise UsageError(f"-i {folder}: the folder contains no files")
    no_file = "not a regular file"
    return [FrameSource({name: path}, n, wrong="" if os.path.isfile(path) else no_file) for n, path in paths.items()]


def _read_frame_folder(folder: str, name: str) -> FrameSource:
    """Returns the frame of a folder that has a file for each input: NAME.npy, or another ending."""
    inside = os.path.join(folder, name)
    files = sorted(n for n in os.listdir(inside) if not n.startswith(".") and os.path.isfile(os.path.join(inside, n)))
    by_input = {os.path.splitext(n)[0]: os.path.join(inside, n) for n in files}
    wrong = "" if files else "the folder of this frame contains no files"
    return FrameSource(by_input, name, wrong=wrong or ("" if len(by_input) == len(files) else "two files of one input"))


def _read_manifest(folder: str, name: str) -> list[FrameSource]:
    """Returns the frames of a manifest, including those that could not be prepared and therefore cannot run."""
    from qverify.session.inputs.prepared_files import read_manifest

    described, rows, document = read_manifest(folder)
    prepared = []
    for row in rows:
        path = os.path.join(folder, row["file"])
        prepared.append(FrameSource({name: path}, row["source"], {path: ManifestEntry(described, row["sha256"])}))
    failed = [FrameSource({name: ""}, row["source"], wrong=row["why"]) for row in document["failed"]]
    if not prepared and not failed:
        raise UsageError(f"-i {folder}: its manifest lists no files")
    return prepared + failed


def _read_list(path: str) -> list[FrameSource]:
    try:
        rows = lines(path)
    except UsageError as error:
        raise UsageError(f"-i {error}") from error
    if not rows:
        raise UsageError(f"-i {path}: the list is empty")
    here = os.path.dirname(path)
    return [FrameSource(",".join(_resolve(here, part) for part in line.split(",")), line) for line in rows]


def _resolve(here: str, part: str) -> str:
    """Returns `file` or `name:file` with the path joined to the folder of the list."""
    whole = os.path.join(here, part)
    name, colon, file = part.rpartition(":")
    return whole if os.path.exists(whole) or not colon else f"{name}:{os.path.join(here, file)}"


def verify_frames(
    request: Request, frames: list[FrameSource], on_frame: OnFrame, watch: Watch | None = None, job: Job | None = None
) -> JobOutcome:
    """Verifies every frame in order and calls on_frame(row) after each. job: a job for this request, which is closed at
    the end; a new one if None. Frames that cannot be prepared are listed as not run, and the others still run. Raises
    UsageError if no frame ran. The report contains a verdict for every pair of every frame, but the tensors of only the
    MAX_WHOLE_REPORTS worst frames, so that memory does not grow with the number of frames."""
    job = Job(request) if job is None else job
    kept, rows, unreached = KeptReports(), list[dict[str, Any]](), ""
    first_error: QVerifyError | None = None
    try:
        checks = Checks(request, len(frames))
        if job.task is not None:
            job.task.begin([frame.source for frame in frames])
        for number, frame in enumerate(frames):
            try:
                if frame.wrong:
                    raise UsageError(frame.wrong)
                inputs = replace(request.inputs, files=frame.files, prepared=frame.stated)
                outcome = job.run(inputs, number, watch, frame.source)
                unreached = outcome.unreached
                checks.add(job, number, frame.source, outcome.evidence)
                rows.append(frame_row(number, frame.source, outcome.report))
                kept.add(outcome.report, rows[-1])
            except TaskError:
                raise  # the option is wrong, not this frame
            except QVerifyError as error:
                first_error = first_error or error
                kept.add_draft(error)
                rows.append(not_run_row(number, frame.source, error))
                job.record_not_run(number, frame.source, rows[-1]["why"])
            on_frame(rows[-1])
            if unreached:
                for n, late in list(enumerate(frames))[number + 1 :]:
                    rows.append(not_run_row(n, late.source, UsageError("the board was not reached"), board_lost=True))
                    job.record_not_run(n, late.source, unreached, board_lost=True)
                break  # every later frame would only wait for the same timeout
        for row in rows:
            row["board"] = request.board
        if not kept.reports:
            which = f"none of {len(frames)} frames could" if len(frames) > 1 else "the only frame could not"
            raise error_with_draft(f"{which} be prepared: {rows[0]['why']}", first_error)
        whole = kept.combine(rows)
        whole.findings = job.history.put_frozen_first(whole.verdict, whole.findings)
        checks.finish(job, whole, Job, watch, rows[0]["frame"])
        if job.task is not None:
            job.task.state(whole)
        job.finish_capture(whole)
    except (QVerifyError, LinkError) as error:
        job.discard_empty_capture(error)
        raise
    finally:
        job.close()
    return JobOutcome(whole, list(job.models.graph.outputs), unreached)


class KeptReports:
    """The reports of all frames. Only the MAX_WHOLE_REPORTS worst keep their tensors."""

    def __init__(self) -> None:
        from qverify.session.drawn_inputs import DrawnInputs

        self.reports: list[ReportDocument] = []
        self._whole: list[tuple[tuple[float, ...], ReportDocument]] = []
        self._drafts: dict[str, str] = {}
        self._drawn_inputs = DrawnInputs()

    def add_draft(self, error: QVerifyError) -> None:
        """Keeps the draft of an input description that an error proposes, if it proposes one."""
        if isinstance(error, UndescribedError) and error.draft:
            self._drafts[error.input] = error.draft

    def add(self, report: ReportDocument, row: dict[str, Any]) -> bool:
        """Adds a frame's report. If there are too many with tensors, those of the least bad frame are removed. Returns whether
        the tensors of this one are kept."""
        if self.reports:  # the same for all frames, so the first report alone has it
            report.sides, report.canary, report.no_integer_reference = [], {}, []
            report.units, report.models, report.on_host, report.inputs = [], [], [], []
        self._drawn_inputs.add(report, row)
        self.reports.append(report)
        self._whole.append((frame_rank(row), report))
        if len(self._whole) > MAX_WHOLE_REPORTS:
            self._whole.sort(key=lambda pair: pair[0])
            _, least_bad = self._whole.pop()
            for pair in least_bad.pairs:
                pair.drawings = []
                pair.tensors, pair.agreement, pair.notes, pair.same_bytes = [], [], [], {}
                pair.coverage.missing, pair.coverage.not_offered = [], []
            return least_bad is not report
        return True

    def combine(self, rows: list[dict[str, Any]], frame: str = "frame") -> ReportDocument:
        """Returns one report of all frames. frame: what they are called. Its link counters are those of the last frame, which include all before
        it."""
        combined = combine(self.reports)
        combined.input_drawings = self._drawn_inputs.worst()
        combined.frames, combined.link = rows, self.reports[-1].link
        combined.drafts |= self._drafts
        if left_out := describe_left_out(rows, frame):
            combined.caveats += left_out
            combined.verdict = worst([combined.verdict, "INCONCLUSIVE"])
        combined.notes = [*dict.fromkeys(combined.notes), *self.notes()]
        return combined

    def notes(self) -> list[str]:
        """Returns a note with the number of frames whose tensors were removed; [] if there are none."""
        removed = len(self.reports) - len(self._whole)
        if not removed:
            return []
        kept = f"those of the {MAX_WHOLE_REPORTS} worst are kept"
        return [f"the tensors of {count(removed, 'frame')} are left out; {kept}"]


def error_with_draft(text: str, error: QVerifyError | None) -> UsageError:
    """Returns a UsageError with this text, and with the draft of an input description if `error` has one."""
    if isinstance(error, UndescribedError):
        return UndescribedError(text, error.input, error.draft)
    return UsageError(text)


def frame_row(number: int, source: str, report: ReportDocument) -> dict[str, Any]:
    """Returns the row of a frame that ran, for the report's `frames`."""
    tensors = [row for pair in report.pairs for row in pair.tensors]
    differences = [d for row in tensors if isinstance(d := row.metrics.get("max_abs"), float)]
    why = next((p.why for p in report.pairs if p.verdict == report.verdict and p.why), "")
    return {
        "frame": number,
        "source": printable(source),
        "verdict": report.verdict,
        "why": why if report.verdict != "PASSED" else "",
        "failing": sum(row.failing or 0 for row in tensors),
        "max_abs": max(differences, default=None),
        "board": None,
        "board_lost": False,
    }


def not_run_row(number: int, source: str, error: Exception, board_lost: bool = False) -> dict[str, Any]:
    """Returns the row of a frame that did not run. board_lost: because the board had been lost before; otherwise it
    could not be prepared."""
    why = " ".join(str(error).split())
    return {
        "frame": number,
        "source": printable(source),
        "verdict": "NOT RUN",
        "why": why,
        "failing": None,
        "max_abs": None,
        "board": None,
        "board_lost": board_lost,
    }
