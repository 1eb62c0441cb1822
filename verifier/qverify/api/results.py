"""The results of the functions: the reports of the commands, with what a notebook and a test do with them."""

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
from qverify.renderers import formats, frame_lines, notebook, tables, terminal, triage_text
from qverify.renderers.overall_lines import overall_lines
from qverify.report import document, triage_document
from qverify.report.document import Blame, Verdict
from qverify.session.compile_file import CompiledFile
from qverify.session.run_evidence import RunEvidence
from qverify.tensors.recording import Recording

Array = npt.NDArray[np.generic]
MOST_KEPT = 1 << 30  # bytes of tensors that a report keeps in memory


@dataclass(slots=True)
class Kept:
    """Where a run's tensors are. recordings: by label, in memory. capture: a folder, "" without one. why: why they are
    not in memory."""

    recordings: Mapping[str, Recording] = field(default_factory=dict)
    capture: str = ""
    why: str = ""

    def frame(self, number: int) -> Mapping[str, Recording]:
        """Returns a frame's recordings. UsageError where there are none."""
        if self.capture:
            frames = open_capture(self.capture)
            if not 0 <= number < len(frames.frames):
                raise UsageError(f"frame: got {number}, wanted 0 to {len(frames.frames) - 1}")
            return frames.recordings(number)
        if self.why or number:
            raise UsageError(self.why or f"frame: got {number}, wanted 0; give capture=FOLDER for several frames")
        return self.recordings


def keep(evidence: RunEvidence | None, capture: str | None) -> Kept:
    """Returns where the tensors of a run that just ended are. evidence: None after several frames."""
    if capture is not None:
        return Kept(capture=capture)
    if evidence is None:
        return Kept(why="the tensors of several frames are not kept in memory; give capture=FOLDER")
    recordings = evidence.results.recordings
    arrays = {id(a): a.nbytes for r in recordings.values() for a in map(np.asarray, _held(r))}
    if sum(arrays.values()) > MOST_KEPT:
        return Kept(why=f"the tensors have {sum(arrays.values())} bytes, at most {MOST_KEPT}; give capture=FOLDER")
    return Kept(recordings)


def _held(recording: Recording) -> list[Array]:
    return [*recording.tensors.values()] if isinstance(recording.tensors, dict) else []


class Result:
    """A verdict and the document that gives its reasons (`document`, plain dataclasses)."""

    document: Any
    _writer = "write"

    @property
    def verdict(self) -> Verdict:
        """PASSED, FAILED or INCONCLUSIVE."""
        verdict: Verdict = self.document.verdict
        return verdict

    @property
    def passed(self) -> bool:
        """Whether the verdict is PASSED: neither FAILED nor INCONCLUSIVE."""
        return self.verdict == "PASSED"

    @property
    def exit_status(self) -> int:
        """The command's: 0 PASSED, 1 FAILED, 3 INCONCLUSIVE."""
        return document.EXIT[self.verdict]

    def to_json(self) -> dict[str, Any]:
        """Returns the published document as plain values (`qverify schema`)."""
        values: dict[str, Any] = self.document.to_json()
        return values

    def save(self, path: str | os.PathLike[str], format: str | None = None) -> str:
        """Writes the report to a file and returns its path. format: html, junit, csv, markdown, json and whatever else
        --report takes; None: by the path's suffix. UsageError for another one, or where it cannot be written."""
        name = formats.by_suffix(os.fspath(path)) if format is None else format
        page = formats.page(name)
        if not hasattr(page, self._writer):
            raise UsageError(f"format {name} cannot express the results of this function; use json")
        if os.fspath(path) == "-":
            raise UsageError("-: wanted the path of a file")
        getattr(page, self._writer)(self.document, os.fspath(path))
        return os.fspath(path)

    def __bool__(self) -> NoReturn:
        raise TypeError("a result is neither true nor false: ask for result.passed, or compare result.verdict")

    def __repr__(self) -> str:
        return f"<qverify.{type(self).__name__} {self.verdict}>"


class Report(Result):
    """The results of verify, compare and replay. document: report.document.Report. str() gives the verdict lines, over all
    frames and boards."""

    def __init__(self, result: document.Report, kept: Mapping[str | None, Kept] | None = None):
        self.document, self._kept = result, dict(kept or {})

    @property
    def blame(self) -> Blame | None:
        """The first side and node to blame; None where there is none."""
        blame: Blame | None = self.document.blame
        return blame

    def text(self) -> str:
        """Returns what the command prints, without colours."""
        return frame_lines.render(self.document) if self.document.frames else terminal.render(self.document, [])

    def to_frame(self) -> Any:
        """Returns a pandas.DataFrame with a row for each compared tensor of each pair, in the columns of the CSV.
        MissingExtraError without pandas."""
        pandas = import_extra("pandas", "to_frame()")
        columns, rows = tables.tensor_rows(self.document)
        return pandas.DataFrame(rows, columns=columns)

    def tensor(self, side: str, name: str, frame: int = 0, board: str | None = None) -> Array:
        """Returns one tensor of a side as it was computed, in the model's dtype and shape. side: reference, simulator or
        board. board: the address, where the run had several. The run must have kept them (keep_tensors=True, or
        capture=FOLDER). A tensor whose bytes did not cross the link since its digest is another side's is that side's.
        UsageError where it is not there, with the reason."""
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
        lines = [said for _, said in overall_lines(visible(self.document))]
        return "\n".join(lines or [f"nothing compared: {self.verdict}"])

    def _repr_html_(self) -> str:
        return notebook.render(self.document)


def _tensor(recording: Recording, name: str, recordings: Mapping[str, Recording]) -> Array:
    """Returns a side's tensor, or another side's with the same digest. UsageError where it is nowhere."""
    for held in (recording.tensors, recording.pulled):
        if name in held:
            return np.array(held[name])
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
    """The results of triage. document: report.triage_document.Triage. str() gives what the command prints."""

    _writer = "write_triage"

    def __init__(self, result: triage_document.Triage):
        self.document = result

    @property
    def broken(self) -> str | None:
        """The first rung that fails, as `a ~ b`."""
        broken: str | None = self.document.broken
        return broken

    @property
    def next_step(self) -> str:
        """What to do about that rung."""
        return str(self.document.next_step)

    def __str__(self) -> str:
        return triage_text.render(self.document)

    def _repr_html_(self) -> str:
        return notebook.preformatted(self.verdict, str(self))


@dataclass(frozen=True, slots=True, repr=False)
class Compiled:
    """A model.bin that was written. path: the file."""

    path: str
    made: CompiledFile

    @property
    def size_bytes(self) -> int:
        """Of the file."""
        return self.made.size_bytes

    @property
    def nodes(self) -> list[str]:
        """The names of its nodes, in running order."""
        return [node.name for node in self.made.graph.nodes]

    @property
    def check(self) -> dict[str, Any] | None:
        """What the check against the original found; None without it."""
        return self.made.graph.meta.get("check")

    def __repr__(self) -> str:
        return f"<qverify.Compiled {self.path}: {self.size_bytes} bytes, {count(len(self.nodes), 'node')}>"
