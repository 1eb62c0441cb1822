"""The commands as functions."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path as Folder
from typing import Any, Unpack

import numpy as np
from qverify_agents.errors import LinkError

from qverify.api.options import (
    CompareOptions,
    CompileOptions,
    Inputs,
    Path,
    Progress,
    ReplayOptions,
    TriageOptions,
    VerifyOptions,
    with_options,
)
from qverify.api.results import Compiled, Kept, Report, Triage, keep
from qverify.cli.python_options import asked_of
from qverify.errors import BadFileError, BoardError, UsageError
from qverify.session.job import Outcome
from qverify.session.request import Request

ARRAY = "an array"  # the source of an input that was no file


@with_options("verify", VerifyOptions)
def verify(
    models: Path | Sequence[Path],
    *,
    board: str | Sequence[str] | None = None,
    inputs: Inputs | None = None,
    keep_tensors: bool = False,
    drawings: bool = False,
    progress: Progress | None = None,
    **options: Unpack[VerifyOptions],
) -> Report:
    """Runs the main job, as `qverify -m MODELS -b BOARD -i INPUTS` does, and returns its report.

    models: the quantized ONNX, model.bin, or both. board: an address, or several; None: the host's sides alone. inputs:
    what -i takes (a file, a folder or a .txt list of frames, files by input name; of a list of texts, files of one frame), or arrays of one frame; None: random ones.
    drawings: the report has the histograms and error maps of save("report.html"). keep_tensors: the sides' tensors of a run of one frame stay in memory, for Report.tensor. progress: is called with a
    step's name, how much is done, and of how much; from several threads. UsageError for wrong options, BadFileError for
    wrong files, UnsupportedError for a model that cannot be compiled, BoardError for a link that fails; a board that
    cannot be reached is no error but INCONCLUSIVE."""
    from qverify.session.verify_boards import VerifyJob, verify_boards

    if board is not None and not isinstance(board, str) and not list(board):
        raise UsageError("board: got an empty list, wanted an address or several; None verifies without a board")
    kept = dict[str | None, Kept]()
    with _documented_errors(), _files_of(inputs) as files:
        given = {"models": models, "board": board, "inputs": files, **options}
        asked = asked_of("verify", [], given, drawings)
        job: VerifyJob = asked.job

        def run(request: Request, number: int) -> Any:
            outcome = _verified(request, job.frames, progress)
            if request.capture is not None or keep_tensors:
                kept[request.board] = keep(outcome.evidence, request.capture)
            _name_arrays(outcome, files if inputs is not files else None)
            return outcome.report

        whole = verify_boards(job, run)
        whole.command = asked.command if inputs is files else ""
        return Report(whole, kept)


def _verified(request: Request, frames: Any, progress: Progress | None) -> Outcome:
    from qverify.session.job import verify as verify_frame
    from qverify.session.many_frames import verify_frames

    if frames is None:
        return verify_frame(request, progress)
    done = 0

    def tell(row: Mapping[str, Any]) -> None:
        nonlocal done
        done += 1
        if progress is not None:
            progress("frames", done, len(frames))

    return verify_frames(request, frames, tell, progress)


@with_options("compile", CompileOptions)
def compile(
    model: Path, output: Path, *, progress: Progress | None = None, **options: Unpack[CompileOptions]
) -> Compiled:
    """Compiles a quantized ONNX to model.bin, as `qverify compile MODEL -o OUTPUT` does. BadFileError where the check
    against the original fails; then nothing is written."""
    from qverify.session.compile_file import compile_file

    with _documented_errors():
        made = compile_file(asked_of("compile", [os.fspath(model)], {"output": output, **options}).job, progress)
        if made.failed:
            raise BadFileError(
                f"{os.fspath(model)}: check FAILED: {made.failed}. Nothing is written; check=False does it"
            )
        return Compiled(os.fspath(output), made)


@with_options("compare", CompareOptions)
def compare(a: Path, b: Path, *, drawings: bool = False, **options: Unpack[CompareOptions]) -> Report:
    """Compares two dumps without a board, as `qverify compare A B` does. drawings: as for verify."""
    from qverify.session.offline.compare_dumps import compare_dumps

    with _documented_errors():
        asked = asked_of("compare", [os.fspath(a), os.fspath(b)], options, drawings)
        report = compare_dumps(*asked.job)
        report.command = asked.command
        return Report(report)


@with_options("triage", TriageOptions)
def triage(
    models: Path | Sequence[Path] = (),
    *,
    board: str | None = None,
    inputs: Inputs | None = None,
    replay: Path | None = None,
    progress: Progress | None = None,
    **options: Unpack[TriageOptions],
) -> Triage:
    """Walks the ladder from the float ONNX to the board, as `qverify triage` does. replay: a capture, which takes the
    place of models, inputs and board (the command's argument); the option `capture` keeps this run."""
    from qverify.session.triage.run_triage import triage as run

    with _documented_errors(), _files_of(inputs) as files:
        given = {"models": models, "board": board, "inputs": files, **options}
        asked = asked_of("triage", [os.fspath(replay)] if replay is not None else [], given)
        found = run(asked.job, progress)
        found.command = asked.command if inputs is files else ""
        return Triage(found)


@with_options("replay", ReplayOptions)
def replay(
    folder: Path, *, drawings: bool = False, progress: Progress | None = None, **options: Unpack[ReplayOptions]
) -> Report:
    """Judges again without the board, as `qverify replay FOLDER` does: a capture, or a bundle's output. drawings: as for
    verify."""
    from qverify.session.offline.rejudge import RejudgeRequest, rejudge
    from qverify.session.offline.replay_bundle import replay as replay_bundle

    model = options.get("model")
    rerun = options.get("rerun")
    given = {**options, "model": _comma(model), "rerun": _comma(rerun)}
    with _documented_errors():
        asked = asked_of("replay", [os.fspath(folder)], given, drawings)
        captured = isinstance(asked.job, RejudgeRequest)
        report = rejudge(asked.job, None, progress).report if captured else replay_bundle(asked.job, progress).report
        report.command = asked.command
        return Report(report, {None: Kept(capture=os.fspath(folder))} if captured else {})


def _comma(value: Any) -> Any:
    return ",".join(map(os.fspath, value)) if isinstance(value, (list, tuple)) else value


@contextmanager
def _documented_errors() -> Iterator[None]:
    """Turns what links and files raise into exceptions of qverify.errors, as the command turns them into a line."""
    try:
        yield
    except LinkError as error:
        kind = UsageError if error.exit_status == 2 else BoardError
        raise kind(" ".join(str(error).split())) from error
    except OSError as error:
        where = f"{error.filename}: " if error.filename is not None else ""
        raise BadFileError(f"{where}{error.strerror or error}") from error


@contextmanager
def _files_of(inputs: Any) -> Iterator[Any]:
    """Yields what -i takes: arrays are written as files, which are gone at the end. UsageError for a mapping of both."""
    alone = isinstance(inputs, np.ndarray)
    named = inputs if isinstance(inputs, Mapping) else {}
    arrays = {"": inputs} if alone else {n: v for n, v in named.items() if isinstance(v, np.ndarray)}
    if not arrays:
        yield inputs
        return
    if not alone and len(arrays) < len(named):
        raise UsageError("inputs: got arrays and files, wanted the one or the other")
    with tempfile.TemporaryDirectory(prefix="qverify-") as folder:
        paths = {n: str(Folder(folder) / f"{at}.npy") for at, n in enumerate(arrays)}
        for name, value in arrays.items():
            if value.dtype.hasobject:
                raise UsageError(f"inputs{f' {name}' if name else ''}: got an array of Python objects, wanted numbers")
            np.save(paths[name], value, allow_pickle=False)
        yield paths[""] if alone else paths


def _name_arrays(outcome: Outcome, files: Any) -> None:
    """Replaces the names of files that are gone in the report. files: those of arrays; None where there were none."""
    paths = set(files.values()) if isinstance(files, Mapping) else {files}
    for row in outcome.report.inputs if files is not None else ():
        row["source"] = ARRAY if row["source"] in paths else row["source"]
