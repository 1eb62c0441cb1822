"""Soak: one model on one board for a time; every run's digests against the simulator's, a line a run, written as it goes."""

from __future__ import annotations

import datetime
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

from qverify.errors import UsageError
from qverify.inputs.sources import InputRequest, prepared_inputs
from qverify.session.models import Models, open_models
from qverify.sides.board import Board
from qverify.sides.simulator import Simulator
from qverify.tensors.digest import tensor_digest
from qverify.tensors.prepared import PreparedInputs

PAUSE_S = 2.0  # after a lost connection


@dataclass(frozen=True, slots=True)
class Soak:
    """seconds: how long. every_s: from the start of one run to that of the next, 0: at once."""

    models: list[str]
    board: str
    seconds: float
    inputs: InputRequest = field(default_factory=InputRequest)
    every_s: float = 0.0
    deadline_s: float = 120.0
    reach: dict[str, str] = field(default_factory=dict)


@dataclass(slots=True)
class SoakResult:
    """wrong: runs with a digest that is not the simulator's. lost: times the board was not there. first_wrong: its tensor.
    gone: the board was not there at the end. cut: ended by Ctrl-C. unwritten: why the log ended.
    scope: which tensors were looked at, where not all.
    hottest_c, slowest_mhz: of the readings after each run, where the board tells."""

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

    @property
    def exit_status(self) -> int:
        return 1 if self.wrong else 3 if not self.runs or self.gone else 0


class _Broke(LinkError):
    """A first run that did not end. came: the digests that did."""

    def __init__(self, why: str, came: dict[str, str]):
        super().__init__(why)
        self.came = came


class _Unwritten(Exception):
    """The log cannot be written."""


def soak(asked: Soak, log: FileIO | None = None, tell: Callable[[float, SoakResult], None] | None = None) -> SoakResult:
    """log: unbuffered, at its end; one JSON object a line, the first says what ran, so that nothing is lost on a cut. Ctrl-C and a log that
    cannot be written end it, and what was found by then is returned. UsageError and the first LinkError end it before
    anything ran; later ones are counted and the board is connected again."""
    models = open_models(asked.models)
    prepared = prepared_inputs(models.graph, asked.inputs)
    expected = Simulator(models.graph).run(prepared, keep=set()).digests
    if not expected:
        raise UsageError("the model has no tensor to hold a board to")
    start, found = time.monotonic(), SoakResult()
    board: Board | None = None
    try:
        _write({**_about(asked, models, prepared), "tensors": len(expected)}, log)
        while (now := time.monotonic()) - start < asked.seconds or not (found.runs or found.lost):
            row: dict[str, Any] = {"t_s": round(now - start, 3), "at": _utc()}
            try:
                if board is None:
                    board, digests = _opened(asked, models, prepared)
                else:
                    digests, _ = board.again(None)
                found.gone = False
                row |= _judged(board, digests, expected, found, time.monotonic() - now)
            except LinkError as error:
                came = error.came if isinstance(error, _Broke) else board.came if board is not None else {}
                row |= _cut_off(came, expected, found)
                if not found.runs and not found.lost and not found.wrong:
                    raise
                found.lost, found.gone = found.lost + 1, True
                row |= {"lost": " ".join(str(error).split())}
                if board is not None:
                    board.close()
                board = None
                time.sleep(PAUSE_S)
            _write(row, log)
            if tell is not None:
                tell(time.monotonic() - start, found)
            rest = min(asked.every_s + now, start + asked.seconds) - time.monotonic()
            time.sleep(max(0.0, rest))
    except KeyboardInterrupt:
        found.cut = True
    except _Unwritten as error:
        found.unwritten = str(error)
    finally:
        if board is not None:
            board.close()
    return found


def _write(row: dict[str, Any], log: FileIO | None) -> None:
    """A whole line or none."""
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


def _about(asked: Soak, models: Models, prepared: PreparedInputs) -> dict[str, Any]:
    """The log's first line: what the lines after it are of."""
    model = hashlib.sha256(models.binary).hexdigest()
    return {"soak": asked.board, "model_sha256": model, "inputs_sha256": prepared.sha256, "at": _utc()}


def _utc() -> str:
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="milliseconds")


def _opened(asked: Soak, models: Models, prepared: PreparedInputs) -> tuple[Board, dict[str, str]]:
    """Connected, model and inputs pushed by a first run, and its digests. LinkError where that run did not end."""
    board = Board(asked.board, models.binary, models.graph, asked.deadline_s, asked.reach)
    try:
        first = board.run(prepared)
    except BaseException:
        board.close()
        raise
    if first.state != "complete":
        board.close()
        raise _Broke(first.why, board.came)
    made = {n: tensor_digest(v) for n, v in first.tensors.items() if n not in models.graph.inputs}
    return board, dict(first.digests) or made


def _cut_off(came: dict[str, str], expected: dict[str, str], found: SoakResult) -> dict[str, Any]:
    """What a run that did not end had wrong by then; with that it counts as a run."""
    wrong = [n for n, digest in came.items() if n in expected and digest != expected[n]]
    if wrong:
        found.runs, found.wrong = found.runs + 1, found.wrong + 1
        found.first_wrong = found.first_wrong or wrong[0]
    return {"wrong": wrong[:50]} if wrong else {}


def _judged(
    board: Board, digests: dict[str, str], expected: dict[str, str], found: SoakResult, took_s: float
) -> dict[str, Any]:
    """The run's line. What the board offers and did not send is wrong, too. A board that goes away right after the run has no
    readings, and its run counts."""
    offered = expected if "per_node" in board.capabilities else [n for n in board.graph.outputs if n in expected]
    if "per_node" not in board.capabilities:
        found.scope = "final outputs only: the board offers no per-node dump"
    wrong = [n for n in offered if digests.get(n) != expected[n]]
    found.runs += 1
    if wrong or not offered:
        found.wrong += 1
        found.first_wrong = found.first_wrong or (wrong or ["nothing it offers"])[0]
    condition: dict[str, float | None] = {"temperature_c": None, "frequency_mhz": None}
    with suppress(LinkError):
        condition = board.condition()
    if (hot := condition["temperature_c"]) is not None:
        found.hottest_c = max(hot, found.hottest_c if found.hottest_c is not None else hot)
    if (pace := condition["frequency_mhz"]) is not None:
        found.slowest_mhz = min(pace, found.slowest_mhz if found.slowest_mhz is not None else pace)
    missing = sum(n not in digests for n in offered)
    row = {"run": found.runs, "seconds": round(took_s, 4), **condition}
    return row | {"tensors": len(digests), "wrong": wrong[:50], "missing": missing}
