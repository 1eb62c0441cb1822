"""The commands as functions."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, TypeVar, Unpack

from qverify_agents.errors import LinkError

from qverify.api.arrays import ARRAY, files_of
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
from qverify.cli.python_options import parse_command
from qverify.cli.server_options import load
from qverify.errors import BadFileError, BoardError, UsageError
from qverify.session.job import JobOutcome
from qverify.session.request import Request
from qverify.session.triage.triage_request import TriageRequest


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
    step's name, how much is done, and of how much; from several threads. server: address of a farm of `qverify serve`, which
    runs the job on its boards (board: names or tags of the farm); token: of it, else QVERIFY_TOKEN or that of `qverify
    login`. UsageError for wrong options, BadFileError for
    wrong files, UnsupportedError for a model that cannot be compiled, BoardError for a link that fails; a board that
    cannot be reached is no error but INCONCLUSIVE."""
    from qverify.session.verify_boards import VerifyJob, verify_boards

    if board is not None and not isinstance(board, str) and not list(board):
        raise UsageError("board: got an empty list, wanted an address or several; None verifies without a board")
    kept = dict[str | None, Kept]()
    with _documented_errors(), files_of(inputs) as fed:
        given = {"models": models, "board": board, "inputs": fed.files, **options}
        asked = parse_command("verify", [], given, drawings)
        job: VerifyJob = asked.job
        if fed.arrays:
            job = replace(job, request=_of_arrays(job.request))
        if job.on_farm is not None:
            if keep_tensors:
                raise UsageError("keep_tensors: a farm keeps no tensors; leave it out, or leave server out")
            there = load("verify_on_farm").verify_on_farm(job.on_farm, progress)
            there.command = "" if fed.arrays else asked.command
            return Report(there)

        def run(request: Request, number: int) -> Any:
            outcome = _verified(request, job.frames, progress)
            if request.capture is not None or keep_tensors:
                kept[request.board] = keep(outcome.evidence, request.capture)
            return outcome.report

        whole = verify_boards(job, run)
        whole.command = "" if fed.arrays else asked.command
        return Report(whole, kept)


def _verified(request: Request, frames: Any, progress: Progress | None) -> JobOutcome:
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
        made = compile_file(parse_command("compile", [os.fspath(model)], {"output": output, **options}).job, progress)
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
        asked = parse_command("compare", [os.fspath(a), os.fspath(b)], options, drawings)
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
    drawings: bool = False,
    progress: Progress | None = None,
    **options: Unpack[TriageOptions],
) -> Triage:
    """Walks the ladder from the float ONNX to the board, as `qverify triage` does. replay: a capture, which takes the
    place of models, inputs and board (the command's argument); the option `capture` keeps this run. drawings: as for
    verify. reduce: a folder that does not exist yet, for the smallest part that still differs; its result is
    Triage.document.reduced. progress: is also called with `reduce` after each run of the board for it."""
    from qverify.session.triage.run_reduction import run_reduction
    from qverify.session.triage.run_triage import run_triage

    with _documented_errors(), files_of(inputs) as fed:
        given = {"models": models, "board": board, "inputs": fed.files, **options}
        asked = parse_command("triage", [os.fspath(replay)] if replay is not None else [], given, drawings)
        request, reduction = asked.job
        request = _of_arrays(request) if fed.arrays else request
        found, failing = run_triage(request, progress)
        if reduction is not None:
            found.reduced = run_reduction(found, failing, reduction, _steps("reduce", progress))
        found.command = "" if fed.arrays else asked.command
        return Triage(found)


AnyRequest = TypeVar("AnyRequest", Request, TriageRequest)


def _of_arrays(request: AnyRequest) -> AnyRequest:
    """Returns the request with inputs that every report and capture names as what they are."""
    return replace(request, inputs=replace(request.inputs, source=ARRAY))


def _steps(step: str, progress: Progress | None) -> Callable[[str], None]:
    """Returns a function that calls progress once for each line it is given; how many come is not known."""
    done = 0

    def tell(line: str) -> None:
        nonlocal done
        done += 1
        if progress is not None:
            progress(step, done, done)

    return tell


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
        asked = parse_command("replay", [os.fspath(folder)], given, drawings)
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
