"""Soak: runs one model on one board for a time, compares every run's digests with the simulator's, or those of another
runtime than qvrt with its own first run's (and that run with a reference engine's), and logs one line per run."""

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

from qverify_agents.connect import find_runtime
from qverify_agents.errors import LinkError

from qverify.compare.options import Options
from qverify.errors import UsageError
from qverify.inputs.sources import InputRequest, prepared_inputs
from qverify.model_bin.islands import describe_islands
from qverify.report.clock import utc_text
from qverify.runners import RunnerChoice
from qverify.session.host_sides import SideResults
from qverify.session.models import Models
from qverify.session.report import make_report
from qverify.session.request import Engine, Request
from qverify.session.runner import BoardModel, connect_board, describe_runner, open_with_board_model, runner_for
from qverify.sides.board import Board
from qverify.sides.runner_board import RunnerBoard
from qverify.sides.simulator import Simulator
from qverify.tensors.digest import tensor_digest
from qverify.tensors.prepared import PreparedInputs
from qverify.tensors.recording import Recording

PAUSE_S = 2.0  # after a lost connection


@dataclass(frozen=True, slots=True)
class Soak:
    """The request for a soak. seconds: how long. every_s: from the start of one run to that of the next; 0: without a
    pause. runner: what runs on the board, as for Request. engine: what the first run is judged by, by `options`."""

    models: list[str]
    board: str
    seconds: float
    inputs: InputRequest = field(default_factory=InputRequest)
    every_s: float = 0.0
    deadline_s: float = 120.0
    reach: dict[str, str] = field(default_factory=dict)
    runner: tuple[tuple[str, str], ...] = ()
    engine: Engine = field(default_factory=Engine)
    options: Options = field(default_factory=Options)


@dataclass(slots=True)
class SoakResult:
    """The result of a soak. wrong: runs with a digest that is not the simulator's. by_first_run: that is not the first
    run's, whatever is right. lost: how often the board was
    unreachable. first_wrong: the first wrong tensor. gone: the board was unreachable at the end. cut: ended by Ctrl-C.
    unwritten: why the log could not be written. scope: what was not compared. hottest_c, slowest_mhz:
    over the readings after each run; None where the board has none. reference: the verdict of the first run against
    the reference engine, with its reason; "" without an engine."""

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
    def fewest(self) -> int:
        """How many runs it takes to compare anything."""
        return 2 if self.by_first_run else 1

    @property
    def exit_status(self) -> int:
        """1 where a run was wrong, or the engine gives something else; 3 where nothing was compared or the board was
        unreachable at the end; else 0."""
        if self.wrong or self.reference.startswith("FAILED"):
            return 1
        unknown = bool(self.reference) and not self.reference.startswith("PASSED")
        return 3 if self.runs < self.fewest or self.gone or unknown else 0


class _Broke(LinkError):
    """Raised when a first run did not end. came: the digests that arrived."""

    def __init__(self, why: str, came: dict[str, str]):
        super().__init__(why)
        self.came = came


class _Unwritten(Exception):
    """Raised when the log cannot be written."""


def soak(
    request: Soak, log: FileIO | None = None, tell: Callable[[float, SoakResult], None] | None = None
) -> SoakResult:
    """Runs the soak. log: an unbuffered file, positioned at its end, that gets one JSON object per line, the first of
    which describes the soak. tell: called with the seconds passed and the result so far after each run. Ctrl-C, or a
    log that cannot be written, ends the soak, and the result so far is returned. UsageError, or the first LinkError,
    ends it before anything ran; later link errors are counted, and the board is connected again."""
    runs = _open(request)
    models, prepared, expected = runs.models, runs.prepared, runs.expected
    start, result = time.monotonic(), SoakResult()
    result.scope = describe_islands(models.graph.islands) if models.islands is not None else ""
    result.by_first_run = runs.by_first_run
    board: Board | RunnerBoard | None = None
    try:
        known = {} if runs.by_first_run else {"tensors": len(expected)}
        _write({**_describe(request, models, prepared), **known}, log)
        while (now := time.monotonic()) - start < request.seconds or not (result.runs >= result.fewest or result.lost):
            row: dict[str, Any] = {"t_s": round(now - start, 3), "at": _utc()}
            try:
                if board is None:
                    board, digests, first = _connect(runs)
                    if runs.engine is not None and not result.reference:
                        result.reference = row["reference"] = _judge_by_engine(runs, runs.engine, first, board)
                else:
                    digests, _ = board.again(None)
                result.gone = False
                if not expected:  # of another runtime: its first run
                    expected |= {n: digests[n] for n in board.graph.observable() if n in digests}
                row |= _judge(board, digests, expected, result, time.monotonic() - now)
                if row.get("wrong") and models.islands is not None:  # what the host made may be of wrong tensors
                    board.close()
                    board = None
            except LinkError as error:
                came = error.came if isinstance(error, _Broke) else dict(board.came) if board is not None else {}
                row |= _judge_cut_off(came, expected, result)
                if not result.runs and not result.lost and not result.wrong:
                    raise
                result.lost, result.gone = result.lost + 1, True
                row |= {"lost": " ".join(str(error).split())}
                if board is not None:
                    board.close()
                board = None
                time.sleep(PAUSE_S)
            _write(row, log)
            if tell is not None:
                tell(time.monotonic() - start, result)
            rest = min(request.every_s + now, start + request.seconds) - time.monotonic()
            time.sleep(max(0.0, rest))
    except KeyboardInterrupt:
        result.cut = True
    except _Unwritten as error:
        result.unwritten = str(error)
    finally:
        if board is not None:
            board.close()
    return result


def _write(row: dict[str, Any], log: FileIO | None) -> None:
    """Appends a whole line or nothing. _Unwritten where that fails."""
    if log is None:
        return
    line, before = (json.dumps(row, allow_nan=False) + "\n").encode(), os.fstat(log.fileno()).st_size
    try:
        if log.write(line) == len(line):
            return
        why = "no room for a whole line"
    except OSError as error:
        why = error.strerror or str(error)
    with suppress(OSError):  # a pipe cannot be cut
        os.ftruncate(log.fileno(), before)
    raise _Unwritten(why)


def _describe(request: Soak, models: Models, prepared: PreparedInputs) -> dict[str, Any]:
    """Returns the log's first line: board, model and inputs of the lines after it."""
    ran = models.binary if models.engine is None else models.original or b""
    model = hashlib.sha256(ran).hexdigest()
    return {"soak": request.board, "model_sha256": model, "inputs_sha256": prepared.sha256, "at": _utc()}


def _utc() -> str:
    return utc_text("milliseconds")


@dataclass(frozen=True, slots=True)
class _Runs:
    """What runs again and again. expected: digests by tensor. by_first_run: they are the first run's, as another runtime
    than qvrt may round in its own way. engine: what the reference engine gives; None without one."""

    request: Request
    runner: RunnerChoice | None
    vendor: BoardModel | None
    models: Models
    prepared: PreparedInputs
    expected: dict[str, str]
    by_first_run: bool
    engine: Recording | None = None


def _open(request: Soak) -> _Runs:
    """Opens the models, prepares the inputs and simulates them. Raises UsageError."""
    runner = runner_for(request.board, request.runner)
    asked = Request(
        request.models,
        request.board,
        inputs=request.inputs,
        deadline_s=request.deadline_s,
        reach=request.reach,
        runner=request.runner,
        options=request.options,
    ).with_engine(request.engine)
    models, vendor = open_with_board_model(asked, runner)
    prepared = prepared_inputs(models.graph, request.inputs)
    if runner is not None or find_runtime(request.board, request.reach):
        engine = None if models.engine is None else models.engine.run(prepared)
        return _Runs(asked, runner, vendor, models, prepared, {}, True, engine)
    simulated = Simulator(models.graph, models.islands).run(prepared, keep=set())
    if simulated.state != "complete":
        raise UsageError(f"{simulated.why}; take other inputs")
    if not simulated.digests:
        raise UsageError("the model has no tensor by which to check a board")
    return _Runs(asked, runner, vendor, models, prepared, simulated.digests, False)


def _connect(runs: _Runs) -> tuple[Board | RunnerBoard, dict[str, str], Recording]:
    """Connects the board and does a first run, which pushes model and inputs. Returns the board, the run's digests, and
    its recording. LinkError where that run did not end, or lacks a final output."""
    board = connect_board(runs.request, runs.runner, runs.vendor, runs.models)
    try:
        first = board.run(runs.prepared)
    except BaseException:
        board.close()
        raise
    if first.state != "complete" or first.missing:
        board.close()
        raise _Broke(first.why or next(iter(first.missing.values())), dict(board.came))
    computed = {n: tensor_digest(v) for n, v in first.tensors.items() if n not in runs.models.graph.inputs}
    return board, dict(first.digests) or computed, first


def _judge_by_engine(runs: _Runs, engine: Recording, first: Recording, board: Board | RunnerBoard) -> str:
    """Returns the verdict of the board's first run against the reference engine, and why."""
    ran = SideResults({"reference": engine, "board": first})
    report = make_report(runs.models, runs.prepared, ran, runs.request.options, board.pull)
    describe_runner(report, first)
    why = next((pair.why for pair in report.pairs if pair.verdict == report.verdict), "")
    return f"{report.verdict}{f' ({why})' if why else ''}"


def _judge_cut_off(came: dict[str, str], expected: dict[str, str], result: SoakResult) -> dict[str, Any]:
    """Returns the wrong tensors of a run that did not end; if there are any, it counts as a run."""
    wrong = [n for n, digest in came.items() if n in expected and digest != expected[n]]
    if wrong:
        result.runs, result.wrong = result.runs + 1, result.wrong + 1
        result.first_wrong = result.first_wrong or wrong[0]
    return {"wrong": wrong[:50]} if wrong else {}


def _judge(
    board: Board | RunnerBoard, digests: dict[str, str], expected: dict[str, str], result: SoakResult, took_s: float
) -> dict[str, Any]:
    """Returns the run's line. A tensor that the board offers but did not send is wrong, too. A run counts even if the
    board goes away right after it and has no readings."""
    every = "per_node" in board.capabilities or isinstance(board, RunnerBoard)
    offered = expected if every else [n for n in board.graph.outputs if n in expected]
    if not every:
        result.scope = "final outputs only: the board offers no per-node dump"
    wrong = [n for n in offered if digests.get(n) != expected[n]]
    result.runs += 1
    if wrong or not offered:
        result.wrong += 1
        result.first_wrong = result.first_wrong or (wrong or ["nothing: the board offers no tensor"])[0]
    condition: dict[str, float | None] = {"temperature_c": None, "frequency_mhz": None}
    with suppress(LinkError):
        condition = board.condition()
    if (hot := condition["temperature_c"]) is not None:
        result.hottest_c = max(hot, result.hottest_c if result.hottest_c is not None else hot)
    if (pace := condition["frequency_mhz"]) is not None:
        result.slowest_mhz = min(pace, result.slowest_mhz if result.slowest_mhz is not None else pace)
    missing = sum(n not in digests for n in offered)
    row = {"run": result.runs, "seconds": round(took_s, 4), **condition}
    return row | {"tensors": len(digests), "wrong": wrong[:50], "missing": missing}
