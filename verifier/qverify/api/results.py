"""The results of the functions: the reports of the commands, with methods for notebooks and tests."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt

from qverify.capture.reader import open_capture
from qverify.errors import UsageError
from qverify.extras import import_extra
from qverify.plural import count
from qverify.printable import visible
from qverify.renderers import formats, frame_lines, notebook, terminal, triage_text
from qverify.renderers.overall_lines import overall_lines
from qverify.renderers.tensor_rows import tensor_rows
from qverify.report import document, triage_document
from qverify.report.document import Blame, Verdict
from qverify.report.report_json import to_json
from qverify.session.other_jobs.compile_file import CompiledFile
from qverify.session.run_evidence import RunEvidence
from qverify.tensors.recording import Recording

Array = npt.NDArray[np.generic]
MAX_KEPT_BYTES = 1 << 30  # of tensors that a report keeps in memory


@dataclass(slots=True)
class KeptTensors:
    """The tensors of a run, in memory or in a capture. recordings: the sides' recordings by label, if they are in
    memory. capture: folder of the capture, "" without one. why: why the tensors are not in memory, else ""."""

    recordings: Mapping[str, Recording] = field(default_factory=dict)
    capture: str = ""
    why: str = ""

    def frame(self, number: int) -> Mapping[str, Recording]:
        """Returns the recordings of a frame, by label. Raises UsageError if there are none."""
        if self.capture:
            capture = open_capture(self.capture)
            if not 0 <= number < len(capture.frames):
                raise UsageError(f"frame: got {number}, wanted 0 to {len(capture.frames) - 1}")
            return capture.recordings(number)
        if self.why or number:
            raise UsageError(self.why or f"frame: got {number}, wanted 0; give capture=FOLDER for several frames")
        return self.recordings


def keep_tensors_of(evidence: RunEvidence | None, capture: str | None) -> KeptTensors:
    """Returns the tensors of a run that just ended. evidence: None after several frames. capture: folder of the run's
    capture, None without one."""
    if capture is not None:
        return KeptTensors(capture=capture)
    if evidence is None:
        return KeptTensors(why="the tensors of several frames are not kept in memory; give capture=FOLDER")
    recordings = evidence.results.recordings
    sizes = {id(a): a.nbytes for r in recordings.values() for a in map(np.asarray, _arrays_in_memory(r))}
    if (total := sum(sizes.values())) > MAX_KEPT_BYTES:
        return KeptTensors(why=f"the tensors have {total} bytes, at most {MAX_KEPT_BYTES}; give capture=FOLDER")
    return KeptTensors(recordings)


def _arrays_in_memory(recording: Recording) -> list[Array]:
    return [*recording.tensors.values()] if isinstance(recording.tensors, dict) else []


class Judgement:
    """The base of what has a verdict, and a document with its reasons. document: plain dataclasses."""

    document: Any

    @property
    def verdict(self) -> Verdict:
        """The verdict: PASSED, FAILED or INCONCLUSIVE."""
        verdict: Verdict = self.document.verdict
        return verdict

    @property
    def passed(self) -> bool:
        """Whether the verdict is PASSED: neither FAILED nor INCONCLUSIVE."""
        return self.verdict == "PASSED"

    @property
    def exit_status(self) -> int:
        """The command's exit status: 0 for PASSED, 1 for FAILED, 3 for INCONCLUSIVE."""
        return document.EXIT[self.verdict]

    def to_json(self) -> dict[str, Any]:
        """Returns the published document as plain values (`qverify schema`)."""
        found: Any = self.document
        values: dict[str, Any] = to_json(found) if isinstance(found, document.ReportDocument) else found.to_json()
        return values

    def __bool__(self) -> NoReturn:
        raise TypeError("a result is neither true nor false: ask for result.passed, or compare result.verdict")


class Result(Judgement):
    """The base of the results that a format of --report can express."""

    _writer = "write"  # name of the function by which a format's page writes this result

    def save(self, path: str | os.PathLike[str], format: str | None = None) -> str:
        """Writes the report to a file and returns its path. format: a format of --report, such as html, junit, csv,
        markdown or json; None to choose it by the suffix of the path. Raises UsageError for an unknown format, or if
        the file cannot be written."""
        name = formats.by_suffix(os.fspath(path)) if format is None else format
        page = formats.page(name)
        if not hasattr(page, self._writer):
            raise UsageError(f"format {name} cannot express the results of this function; use json")
        if os.fspath(path) == "-":
            raise UsageError("-: wanted the path of a file")
        getattr(page, self._writer)(self.document, os.fspath(path))
        return os.fspath(path)

    def __repr__(self) -> str:
        return f"<qverify.{type(self).__name__} {self.verdict}>"


class Report(Result):
    """The result of verify, compare and replay. document: a ReportDocument. str() returns the verdict lines over all
    frames and boards."""

    def __init__(self, result: document.ReportDocument, kept: Mapping[str | None, KeptTensors] | None = None):
        self.document, self._kept = result, dict(kept or {})

    @property
    def blame(self) -> Blame | None:
        """The first side and node to blame; None without one."""
        blame: Blame | None = self.document.blame
        return blame

    def text(self) -> str:
        """Returns the text that the command prints, without colours."""
        return frame_lines.render(self.document) if self.document.frames else terminal.render(self.document, [])

    def to_frame(self) -> Any:
        """Returns a pandas.DataFrame with a row for each compared tensor of each pair, in the columns of the CSV.
        Raises MissingExtraError if pandas is not installed."""
        pandas = import_extra("pandas", "to_frame()")
        columns, rows = tensor_rows(self.document)
        return pandas.DataFrame(rows, columns=columns)

    def tensor(self, side: str, name: str, frame: int = 0, board: str | None = None) -> Array:
        """Returns one tensor of a side as it was computed, in the model's dtype and shape.

        side: reference, simulator or board. name: of the tensor. frame: number of the frame. board: address of the
        board if the run had several. The run must have kept its tensors (keep_tensors=True or capture=FOLDER). If the
        board's bytes did not cross the link because another side has the same digest, that side's tensor is returned.
        Raises UsageError, with the reason, if the tensor is not available."""
        if board is None and len(self._kept) > 1:
            raise UsageError(f"board: wanted one of {', '.join(map(str, self._kept))}")
        kept = next(iter(self._kept.values()), None) if board is None else self._kept.get(board)
        if kept is None:
            raise UsageError(
                "no tensors were kept; give keep_tensors=True or capture=FOLDER" + (" for it" if board else "")
            )
        recordings = kept.frame(frame)
        recording = next((r for r in recordings.values() if r.side == side), None)
        if recording is None:
            raise UsageError(f"side: got {side!r}, wanted one of {', '.join(r.side for r in recordings.values())}")
        return _tensor(recording, name, recordings)

    def __str__(self) -> str:
        lines = [line for _, line in overall_lines(visible(self.document))]
        return "\n".join(lines or [f"nothing compared: {self.verdict}"])

    def _repr_html_(self) -> str:
        return notebook.render(self.document)


def _tensor(recording: Recording, name: str, recordings: Mapping[str, Recording]) -> Array:
    """Returns a side's tensor, or another side's with the same digest. Raises UsageError if there is neither."""
    for tensors in (recording.tensors, recording.pulled):
        if name in tensors:
            return np.array(tensors[name])
    if (why := recording.missing.get(name)) is not None:
        raise UsageError(f"{recording.side} has no {name}: {why}")
    digest = recording.digests.get(name)
    for other in recordings.values():
        if digest is not None and other.digests.get(name) == digest and name in other.tensors:
            return np.array(other.tensors[name])
    if digest is not None:
        raise UsageError(f"{recording.side} computed {name}, but its bytes were not pulled; give pull='all'")
    raise UsageError(f"{recording.side} has no tensor {name!r}")


class Triage(Result):
    """The result of triage. document: a report.triage_document.TriageDocument. str() returns the text that the command
    prints."""

    _writer = "write_triage"

    def __init__(self, result: triage_document.TriageDocument):
        self.document = result

    @property
    def broken(self) -> str | None:
        """The first rung that fails, as `a ~ b`; None if none fails."""
        broken: str | None = self.document.broken
        return broken

    @property
    def next_step(self) -> str:
        """The next step to take about the first rung that does not pass; "" without one."""
        return str(self.document.next_step)

    def __str__(self) -> str:
        return triage_text.render(self.document)

    def _repr_html_(self) -> str:
        return notebook.preformatted(self.verdict, str(self))


@dataclass(frozen=True, slots=True, repr=False)
class Compiled:
    """The result of compile: a model.bin that was written. path: path of the file."""

    path: str
    _compiled: CompiledFile

    @property
    def size_bytes(self) -> int:
        """The size of the file in bytes."""
        return self._compiled.size_bytes

    @property
    def nodes(self) -> list[str]:
        """The names of its nodes, in running order."""
        return [node.name for node in self._compiled.graph.nodes]

    @property
    def check(self) -> dict[str, Any] | None:
        """The result of the check against the original; None if the check was not made."""
        return self._compiled.graph.meta.get("check")

    def __repr__(self) -> str:
        return f"<qverify.Compiled {self.path}: {self.size_bytes} bytes, {count(len(self.nodes), 'node')}>"
