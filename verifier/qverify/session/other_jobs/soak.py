"""Soak: runs one model on one board again and again for a given time, and logs one line per run.

On qvrt, the digests of every run are compared with the simulator's. On another runtime, they are compared with those of
the first run, and that run with the results of a reference engine, if there is one."""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from io import FileIO
from typing import Any

from qverify_agents.errors import LinkError

from qverify.compare.options import Options
from qverify.engines import ChosenSide
from qverify.errors import UsageError
from qverify.inputs.sources import InputRequest, prepared_inputs
from qverify.model_bin.islands import describe_islands
from qverify.report.clock import utc_text
from qverify.report.weakenings import list_caveats
from qverify.session.chosen_sides import choose_sides
from qverify.session.host_sides import SideResults
from qverify.session.make_report import make_report
from qverify.session.models import Models
from qverify.session.request import Request, RequestedEngine
from qverify.session.runner import BoardModel, connect_board, describe_runner, open_with_board_model
from qverify.sides.board import Board
from qverify.sides.runner_board import RunnerBoard
from qverify.sides.simulator import Simulator
from qverify.tensors.digest import tensor_digest
from qverify.tensors.prepared import PreparedInputs
from qverify.tensors.recording import Recording

RECONNECT_DELAY_S = 2.0  # after a lost connection
MAX_LISTED = 50  # names of wrong tensors in a line of the log


@dataclass(frozen=True, slots=True)
class SoakRequest:
    """A request for a soak.

    Attributes:
        models: paths of -m.
        board: address of the board.
        seconds: duration of the soak.
        inputs: the inputs of every run.
        every_s: time from the start of a run to the start of the next; 0: no pause.
        deadline_s: time limit of each reply of the board.
        reach: options of the board's address that were given separately.
        runner: what runs on the board, as in Request.
        engine: the reference engine with which the first run is compared.
        options: how that comparison is judged.
    """

    models: list[str]
    board: str
    seconds: float
    inputs: InputRequest = field(default_factory=InputRequest)
    every_s: float = 0.0
    deadline_s: float = 120.0
    reach: dict[str, str] = field(default_factory=dict)
    runner: tuple[tuple[str, str], ...] = ()
    engine: RequestedEngine = field(default_factory=RequestedEngine)
    options: Options = field(default_factory=Options)


@dataclass(slots=True)
class SoakResult:
    """The result of a soak.

    Attributes:
        runs: number of runs that were compared.
        wrong: number of runs with a digest other than the expected one.
        lost: how often the board was unreachable.
        gone: the board was unreachable at the end.
        cut: the soak was ended by Ctrl-C.
        unwritten: why the log could not be written, "" if it could.
        first_wrong: name of the first wrong tensor, "" without one.
        scope: what was not compared, "" if everything was.
        hottest_c: the highest temperature read after a run; None if the board reports none.
        slowest_mhz: the lowest frequency read after a run; None if the board reports none.
        by_first_run: the expected digests are those of the first run, which itself may be wrong.
        reference: the verdict of the first run against the reference engine and its reason, "" without an engine.
    """

    runs: int = 0
    wrong: int = 0
    lost: int = 0
    gone: bool = False
    cut: bool = False
    unwritten: str = ""
    first_wrong: str = ""
    scope: str = ""
    hottest_c: float | None = None
    slowest_mhz: float | None = None
    by_first_run: bool = False
    reference: str = ""

    @property
    def min_runs(self) -> int:
        """The number of runs that are needed to compare anything."""
        return 2 if self.by_first_run else 1

    @property
    def exit_status(self) -> int:
        """1 if a run was wrong, or the first run FAILED against the reference engine; 3 if nothing was compared, that
        verdict is INCONCLUSIVE, or the board was unreachable at the end; otherwise 0."""
        if self.wrong or self.reference.startswith("FAILED"):
            return 1
        inconclusive = bool(self.reference) and not self.reference.startswith("PASSED")
        return 3 if self.runs < self.min_runs or self.gone or inconclusive else 0


class _FirstRunError(LinkError):
    """Raised if the first run on a connection does not end. digests: those that arrived before."""

    def __init__(self, why: str, digests: dict[str, str]):
        super().__init__(why)
        self.digests = digests


class _LogError(Exception):
    """Raised if the log cannot be written."""


def soak(
    request: SoakRequest, log: FileIO | None = None, on_run: Callable[[float, SoakResult], None] | None = None
) -> SoakResult:
    """Runs the soak and returns its result.

    log: an unbuffered file, positioned at its end, to which one JSON object per line is written; the first describes
    the soak. on_run: called after each run with the seconds passed and the result so far. Ctrl-C, or a log that cannot
    be written, ends the soak; the result so far is returned. Raises UsageError or LinkError if no run was made at all;
    later link errors are counted, and the board is connected again."""
    runs = _open(request)
    models, prepared, expected = runs.models, runs.prepared, runs.expected
    start, result = time.monotonic(), SoakResult()
    result.scope = describe_islands(models.graph.islands) if models.islands is not None else ""
    result.by_first_run = runs.by_first_run
    board: Board | RunnerBoard | None = None
    try:
        tensor_count = {} if runs.by_first_run else {"tensors": len(expected)}
        _write({**_describe(request, models, prepared), **tensor_count}, log)
        while (now := time.monotonic()) - start < request.seconds or not (
            result.runs >= result.min_runs or result.lost
        ):
            row: dict[str, Any] = {"t_s": round(now - start, 3), "at": _utc()}
            try:
                if board is None:
                    board, digests, first = _connect(runs)
                    if runs.engine is not None and not result.reference:
                        result.reference = row["reference"] = _judge_by_engine(runs, runs.engine, first, board)
                else:
                    digests, _ = board.repeat_run(None)
                result.gone = False
                if not expected:  # another runtime than qvrt: the first run sets the digests to expect
                    expected |= {n: digests[n] for n in board.graph.observable() if n in digests}
                row |= _judge(board, digests, expected, result, time.monotonic() - now)
                if row.get("wrong") and models.islands is not None:  # the host may have computed with wrong tensors
                    board.close()
                    board = None
            except LinkError as error:
                digests = dict(board.received_digests) if board is not None else {}
                row |= _judge_cut_off(error.digests if isinstance(error, _FirstRunError) else digests, expected, result)
                if not result.runs and not result.lost and not result.wrong:
                    raise
                result.lost, result.gone = result.lost + 1, True
                row |= {"lost": " ".join(str(error).split())}
                if board is not None:
                    board.close()
                board = None
                time.sleep(RECONNECT_DELAY_S)
            _write(row, log)
            if on_run is not None:
                on_run(time.monotonic() - start, result)
            pause_s = min(request.every_s + now, start + request.seconds) - time.monotonic()
            time.sleep(max(0.0, pause_s))
    except KeyboardInterrupt:
        result.cut = True
    except _LogError as error:
        result.unwritten = str(error)
    finally:
        if board is not None:
            board.close()
    return result


def _write(row: dict[str, Any], log: FileIO | None) -> None:
    """Appends a complete line to the log, or nothing. Raises _LogError if that fails."""
    if log is None:
        return
    line, size_before = (json.dumps(row, allow_nan=False) + "\n").encode(), os.fstat(log.fileno()).st_size
    try:
        if log.write(line) == len(line):
            return
        why = "no room for a whole line"
    except OSError as error:
        why = error.strerror or str(error)
    with suppress(OSError):  # a pipe cannot be truncated
        os.ftruncate(log.fileno(), size_before)
    raise _LogError(why)


def _describe(request: SoakRequest, models: Models, prepared: PreparedInputs) -> dict[str, Any]:
    """Returns the first line of the log, which identifies board, model and inputs."""
    model = models.binary if models.engine is None else models.original or b""
    sha256 = hashlib.sha256(model).hexdigest()
    return {"soak": request.board, "model_sha256": sha256, "inputs_sha256": prepared.sha256, "at": _utc()}


def _utc() -> str:
    return utc_text("milliseconds")


@dataclass(frozen=True, slots=True)
class _Runs:
    """The opened models, the inputs and the expected results of all runs.

    expected: the expected digests, by tensor. by_first_run: they are to be those of the first run, because another
    runtime than qvrt may round differently. engine: the recording of the reference engine; None without one."""

    request: Request
    board: ChosenSide
    vendor: BoardModel | None
    models: Models
    prepared: PreparedInputs
    expected: dict[str, str]
    by_first_run: bool
    engine: Recording | None = None


def _open(request: SoakRequest) -> _Runs:
    """Opens the models, prepares the inputs, and runs the simulator or the reference engine on them. Raises UsageError
    if there would be nothing to compare."""
    job_request = Request(
        request.models,
        request.board,
        inputs=request.inputs,
        deadline_s=request.deadline_s,
        reach=request.reach,
        runner=request.runner,
        options=request.options,
    ).with_engine(request.engine)
    sides = choose_sides(job_request)
    models, vendor = open_with_board_model(job_request, sides)
    assert sides.board is not None
    prepared = prepared_inputs(models.graph, request.inputs)
    if not sides.board.gives_our_bytes:
        engine = None if models.engine is None else models.engine.run(prepared)
        return _Runs(job_request, sides.board, vendor, models, prepared, {}, True, engine)
    simulated = Simulator(models.graph, models.islands).run(prepared, keep=set())
    if simulated.state != "complete":
        raise UsageError(f"{simulated.why}; take other inputs")
    if not simulated.digests:
        raise UsageError("the model has no tensor by which to check a board")
    return _Runs(job_request, sides.board, vendor, models, prepared, simulated.digests, False)


def _connect(runs: _Runs) -> tuple[Board | RunnerBoard, dict[str, str], Recording]:
    """Connects the board and makes a first run, which pushes model and inputs. Returns the board, the digests of that
    run, and its recording. Raises LinkError if the run did not end or lacks a final output."""
    board = connect_board(runs.request, runs.board, runs.vendor, runs.models)
    try:
        first = board.run(runs.prepared)
    except BaseException:
        board.close()
        raise
    if first.state != "complete" or first.missing:
        board.close()
        raise _FirstRunError(first.why or next(iter(first.missing.values())), dict(board.received_digests))
    computed = {n: tensor_digest(v) for n, v in first.tensors.items() if n not in runs.models.graph.inputs}
    return board, dict(first.digests) or computed, first


def _judge_by_engine(runs: _Runs, engine: Recording, first: Recording, board: Board | RunnerBoard) -> str:
    """Returns the verdict of the board's first run against the reference engine, with the reason, or with what weakens
    it."""
    ran = SideResults({"reference": engine, "board": first})
    report = make_report(runs.models, runs.prepared, ran, runs.request.options, board.pull)
    describe_runner(report, first, runs.request.options)
    why = next((pair.why for pair in report.pairs if pair.verdict == report.verdict), "")
    facts = why or "; ".join(list_caveats(report))
    return f"{report.verdict}{f' ({facts})' if facts else ''}"


def _judge_cut_off(digests: dict[str, str], expected: dict[str, str], result: SoakResult) -> dict[str, Any]:
    """Returns the wrong tensors of a run that did not end, for its line in the log. If there are any, the run counts.
    digests: those that arrived before the run broke off."""
    wrong = [n for n, digest in digests.items() if n in expected and digest != expected[n]]
    if wrong:
        result.runs, result.wrong = result.runs + 1, result.wrong + 1
        result.first_wrong = result.first_wrong or wrong[0]
    return {"wrong": wrong[:MAX_LISTED]} if wrong else {}


def _judge(
    board: Board | RunnerBoard, digests: dict[str, str], expected: dict[str, str], result: SoakResult, took_s: float
) -> dict[str, Any]:
    """Returns the line of a run for the log. A tensor that the board offers but did not send is wrong, too. The run
    counts even if the board is lost right after it, so that there are no readings."""
    offers_all = "per_node" in board.capabilities or isinstance(board, RunnerBoard)
    offered = expected if offers_all else [n for n in board.graph.outputs if n in expected]
    if not offers_all:
        result.scope = "final outputs only: the board offers no per-node dump"
    wrong = [n for n in offered if digests.get(n) != expected[n]]
    result.runs += 1
    if wrong or not offered:
        result.wrong += 1
        result.first_wrong = result.first_wrong or (wrong or ["nothing: the board offers no tensor"])[0]
    condition: dict[str, float | None] = {"temperature_c": None, "frequency_mhz": None}
    with suppress(LinkError):
        condition = board.condition()
    if (temperature := condition["temperature_c"]) is not None:
        result.hottest_c = max(temperature, result.hottest_c if result.hottest_c is not None else temperature)
    if (frequency := condition["frequency_mhz"]) is not None:
        result.slowest_mhz = min(frequency, result.slowest_mhz if result.slowest_mhz is not None else frequency)
    missing = sum(n not in digests for n in offered)
    row = {"run": result.runs, "seconds": round(took_s, 4), **condition}
    return row | {"tensors": len(digests), "wrong": wrong[:MAX_LISTED], "missing": missing}
