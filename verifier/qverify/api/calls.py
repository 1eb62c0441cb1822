"""The commands as functions."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, TypeVar, Unpack

from qverify_agents.errors import LinkError

from qverify.api.arrays import ARRAY, input_files
from qverify.api.cancel import cancellable
from qverify.api.options import CompareOptions, CompileOptions, ReplayOptions, TriageOptions, VerifyOptions
from qverify.api.results import Compiled, KeptTensors, Report, Triage, keep_tensors_of
from qverify.api.signatures import Inputs, Path, Progress, with_options
from qverify.errors import BadFileError, BoardError, UsageError
from qverify.session.job import JobOutcome
from qverify.session.request import Request
from qverify.session.requests.farm import load
from qverify.session.requests.parse_command import parse_command
from qverify.session.triage.triage_request import TriageRequest
from qverify.session.verify_boards import VerifyJob


@with_options("verify", VerifyOptions)
def verify(
    models: Path | Sequence[Path],
    *,
    board: str | Sequence[str] | None = None,
    inputs: Inputs | None = None,
    keep_tensors: bool = False,
    drawings: bool = False,
    progress: Progress | None = None,
    cancel: threading.Event | None = None,
    **options: Unpack[VerifyOptions],
) -> Report:
    """Runs the main job, as `qverify -m MODELS -b BOARD -i INPUTS` does, and returns its report.

    Args:
        models: the quantized ONNX, model.bin, or both; without a board also a dump in its place (a folder or .npz).
        board: an address, or several; None for the sides of this host alone.
        inputs: what -i takes (a file; a folder or a .txt list of frames; files by input name; a list of files, one for
            each input of a frame), or arrays of one frame; None for random inputs. With steps, arrays may have a leading
            axis of steps.
        keep_tensors: keep the sides' tensors of a run of one frame in memory, for Report.tensor.
        drawings: add the histograms and error maps that save("report.html") shows to the report.
        progress: called with the name of a step, how much of it is done, and of how much; from several threads.
        cancel: an event that ends the call with CancelledError when another thread, or an asyncio task, sets it.
        options: the options of the command. server is the address of a farm of `qverify serve`, which runs the job on
            its boards (board: names or tags of the farm); token is its token, by default QVERIFY_TOKEN or that of
            `qverify login`.

    Raises UsageError for wrong options, BadFileError for wrong files, UnsupportedError for a model that cannot be
    compiled, and BoardError for a link that fails. A board that cannot be reached raises nothing: the verdict is
    INCONCLUSIVE."""
    from qverify.session.verify_boards import verify_boards

    if board is not None and not isinstance(board, str) and not list(board):
        raise UsageError("board: got an empty list, wanted an address or several; None verifies without a board")
    kept = dict[str | None, KeptTensors]()
    with documented_errors(), input_files(inputs) as fed, cancellable(cancel, progress) as watch:
        keywords = {"models": models, "board": board, "inputs": fed.files, **options}
        parsed = parse_command("verify", [], keywords, drawings)
        job: VerifyJob = parsed.job
        if fed.are_arrays:
            job = replace(job, request=_with_array_source(job.request))
        if job.dump is not None:
            return _verify_dump(job, keep_tensors, "" if fed.are_arrays else parsed.command)
        if job.on_farm is not None:
            if keep_tensors:
                raise UsageError("keep_tensors: a farm keeps no tensors; leave it out, or leave server out")
            farm_report = load("verify_on_farm").verify_on_farm(job.on_farm, watch)
            farm_report.command = "" if fed.are_arrays else parsed.command
            return Report(farm_report)

        def run(request: Request, number: int) -> Any:
            outcome = _verify_board(request, job.frames, watch)
            if request.capture is not None or keep_tensors:
                kept[request.board] = keep_tensors_of(outcome.evidence, request.capture)
            return outcome.report

        whole = verify_boards(job, run)
        whole.command = "" if fed.are_arrays else parsed.command
        return Report(whole, kept)


def _verify_dump(job: VerifyJob, keep_tensors: bool, command: str) -> Report:
    """Returns the report of a dump in the board's place. command: the command line that does the same; "" if there is
    none."""
    from qverify.session.offline.verify_dump import verify_dump

    assert job.dump is not None
    if keep_tensors:
        raise UsageError("keep_tensors: the tensors of a dump are in its files; leave it out")
    report = verify_dump(job.request, job.dump)
    report.command = command
    return Report(report)


def _verify_board(request: Request, frames: Any, progress: Progress | None) -> JobOutcome:
    """Verifies one board, or the sides of this host alone, on one frame (frames: None) or on many."""
    from qverify.session.job import verify as verify_frame
    from qverify.session.many_frames import verify_frames
    from qverify.session.sequence.verify_sequence import verify_sequence
    from qverify.session.swept_shapes import verify_shapes

    if request.sweep:
        return verify_shapes(request, lambda row: None, progress, frames)
    if frames is None and request.sequence is None:
        return verify_frame(request, progress)
    done, total = 0, request.sequence.steps if request.sequence is not None else len(frames)

    def count_frame(row: Mapping[str, Any]) -> None:
        nonlocal done
        done += 1
        if progress is not None:
            progress("frames", done, total)

    if request.sequence is not None:
        return verify_sequence(request, frames, count_frame, progress)
    return verify_frames(request, frames, count_frame, progress)


@with_options("compile", CompileOptions)
def compile(
    model: Path, output: Path, *, progress: Progress | None = None, **options: Unpack[CompileOptions]
) -> Compiled:
    """Compiles a quantized ONNX to model.bin, as `qverify compile MODEL -o OUTPUT` does. Raises BadFileError if the
    check against the original fails; nothing is written then."""
    from qverify.compiler.check_units import CUT_OR_REPORT
    from qverify.session.other_jobs.compile_file import compile_file

    with documented_errors():
        parsed = parse_command("compile", [os.fspath(model)], {"output": output, **options})
        result = compile_file(parsed.job, progress)
        if result.failed:
            raise BadFileError(
                f"{os.fspath(model)}: check FAILED: {result.failed}. Nothing is written. {CUT_OR_REPORT}"
            )
        return Compiled(os.fspath(output), result)


@with_options("compare", CompareOptions)
def compare(a: Path, b: Path, *, drawings: bool = False, **options: Unpack[CompareOptions]) -> Report:
    """Compares two dumps without a board, as `qverify compare A B` does. a, b: paths of the dumps. drawings: as for
    verify."""
    from qverify.session.offline.compare_frames import compare_frames

    with documented_errors():
        parsed = parse_command("compare", [os.fspath(a), os.fspath(b)], options, drawings)
        report = compare_frames(*parsed.job)
        report.command = parsed.command
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
    cancel: threading.Event | None = None,
    **options: Unpack[TriageOptions],
) -> Triage:
    """Compares each stage from the float ONNX to the board with the next one, as `qverify triage` does, and returns
    which gate fails first.

    Args:
        models, board, inputs, drawings: as for verify.
        replay: a capture (the command's argument), which replaces models, inputs and board. The option `capture` names
            the folder for a capture of this run.
        progress: as for verify. For the option `reduce`, it is called after each run of the board with the step
            `reduce`.
        cancel: as for verify.
        options: the options of the command. reduce is a folder that does not exist yet, for the smallest part of the
            model that still differs; Triage.document.reduced has the result.
    """
    from qverify.session.triage.run_reduction import run_reduction
    from qverify.session.triage.run_triage import run_triage

    with documented_errors(), input_files(inputs) as fed, cancellable(cancel, progress) as watch:
        keywords = {"models": models, "board": board, "inputs": fed.files, **options}
        parsed = parse_command("triage", [os.fspath(replay)] if replay is not None else [], keywords, drawings)
        request, reduction = parsed.job
        request = _with_array_source(request) if fed.are_arrays else request
        document, failing = run_triage(request, watch)
        if reduction is not None:
            document.reduced = run_reduction(document, failing, reduction, _count_lines("reduce", watch))
        document.command = "" if fed.are_arrays else parsed.command
        return Triage(document)


AnyRequest = TypeVar("AnyRequest", Request, TriageRequest)


def _with_array_source(request: AnyRequest) -> AnyRequest:
    """Returns the request with ARRAY as the source of its inputs in reports and captures."""
    return replace(request, inputs=replace(request.inputs, source=ARRAY))


def _count_lines(step: str, progress: Progress | None) -> Callable[[str], None]:
    """Returns a function that receives lines and calls progress for each. The number of lines is not known before."""
    done = 0

    def count_line(line: str) -> None:
        nonlocal done
        done += 1
        if progress is not None:
            progress(step, done, done)

    return count_line


@with_options("replay", ReplayOptions)
def replay(
    folder: Path, *, drawings: bool = False, progress: Progress | None = None, **options: Unpack[ReplayOptions]
) -> Report:
    """Judges a capture, or a bundle with its dump, again without the board, as `qverify replay FOLDER` does. drawings:
    as for verify."""
    from qverify.session.offline.rejudge import RejudgeRequest, rejudge
    from qverify.session.offline.replay_bundle import replay as replay_bundle

    model = options.get("model")
    rerun = options.get("rerun")
    keywords = {**options, "model": _join_list(model), "rerun": _join_list(rerun)}
    with documented_errors():
        parsed = parse_command("replay", [os.fspath(folder)], keywords, drawings)
        is_capture = isinstance(parsed.job, RejudgeRequest)
        outcome = rejudge(parsed.job, None, progress) if is_capture else replay_bundle(parsed.job, progress)
        outcome.report.command = parsed.command
        return Report(outcome.report, {None: KeptTensors(capture=os.fspath(folder))} if is_capture else {})


def _join_list(value: Any) -> Any:
    """Returns a list or tuple of paths as text with commas, any other value unchanged."""
    return ",".join(map(os.fspath, value)) if isinstance(value, (list, tuple)) else value


@contextmanager
def documented_errors() -> Iterator[None]:
    """Converts LinkError and OSError into exceptions of qverify.errors with the text that the command prints."""
    try:
        yield
    except LinkError as error:
        kind = UsageError if error.exit_status == 2 else BoardError
        raise kind(" ".join(str(error).split())) from error
    except OSError as error:
        where = f"{error.filename}: " if error.filename is not None else ""
        raise BadFileError(f"{where}{error.strerror or error}") from error
