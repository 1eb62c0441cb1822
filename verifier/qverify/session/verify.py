"""The main job: inputs once, every side once, one Report."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal

from qverify_agents.errors import LinkError

from qverify.compare.options import Options
from qverify.errors import QVerifyError, UsageError
from qverify.inputs.sources import Asked, prepared_inputs
from qverify.model_bin.graph import Graph
from qverify.report.document import EXIT, Report
from qverify.session.host import Host, Ran, Watch, step_of
from qverify.session.judging import Pull, judged
from qverify.session.models import Models, open_models
from qverify.session.other_inputs import mark_others, run_on_others
from qverify.session.repeat import repeat
from qverify.session.spread import ReferenceSpread, mark_spread
from qverify.tensors.prepared import PreparedInputs
from qverify.tensors.recording import Recording

if TYPE_CHECKING:
    from qverify.capture.writer import CaptureWriter


@dataclass(frozen=True, slots=True)
class Request:
    """What is asked, validated by run(). deadline_s: for each answer of the board."""

    models: list[str]
    board: str | None = None
    run_sim: bool = True
    _: KW_ONLY
    inputs: Asked = field(default_factory=Asked)
    options: Options = field(default_factory=Options)
    deadline_s: float = 120.0
    shapes: dict[str, tuple[int, ...]] = field(default_factory=dict)
    allow_other_model: bool = False
    pull: Literal["differ", "all"] = "differ"
    reach: dict[str, str] = field(default_factory=dict)  # options of the board's address given beside it
    capture: str | None = None  # folder that keeps everything the run sees
    repeat: int = 1  # runs of the board on the same inputs
    paranoid: bool = False  # every tensor is pulled, and the board runs on other inputs, too
    spot_seed: int | None = None  # of the spot check and of those inputs; None: fresh in each run
    reference_spread: bool = False  # how far apart the reference's own settings are
    reference_python: tuple[str, ...] = ()  # commands of other interpreters that take part in it
    reference_timeout_s: float = 900.0  # for each of their runs


@dataclass(slots=True)
class Outcome:
    """unreached: why there was no board to speak to; the report says so, too. seen: not kept of many frames."""

    report: Report
    finals: list[str]
    unreached: str = ""
    seen: Seen | None = None


@dataclass(slots=True)
class Seen:
    """What a verdict was reached by. pull: asks the board, while its job is open."""

    prepared: PreparedInputs
    ran: Ran
    pull: Callable[[list[str]], Any] | None


def verify(request: Request, watch: Watch | None = None) -> Outcome:
    """Raises QVerifyError (exit 2) for the user's mistakes and LinkError (exit 3) for an unreachable board."""
    job = Job(request)
    try:
        outcome = job.run(request.inputs, watch=watch)
        job.captured(outcome.report)
        return outcome
    except (QVerifyError, LinkError) as error:
        job.forget(error)
        raise
    finally:
        job.close()


class Job:
    """One model and its sides, for any number of inputs; the board stays connected between them."""

    def __init__(self, request: Request, fewest_sides: int = 2):
        self.request = request
        self.models = open_models(request.models, request.shapes, request.allow_other_model)
        sides = {
            "reference": self.models.integer_onnx is not None,
            "simulator": request.run_sim,
            "board": request.board is not None,
        }
        if sum(sides.values()) < fewest_sides:
            only = ", ".join(s for s, on in sides.items() if on) or "none"
            raise UsageError(f"only one side ({only}): give -b BOARD, -s True, or a quantized ONNX besides model.bin")
        if request.repeat > 1 and request.board is None:
            raise UsageError("--repeat runs a board again; give -b BOARD")
        if request.paranoid and not (sides["board"] and sides["simulator"]):
            raise UsageError("--paranoid holds a board to the simulator on other inputs; give -b BOARD and -s True")
        self._spread = ReferenceSpread(request, self.models) if request.reference_spread else None
        if request.reference_python and self._spread is None:
            raise UsageError("--reference-python takes part in --reference-spread; give that, too")
        self._host = Host(self.models)
        self._board: Any = None
        self._carried = Counter[str]()  # by connections that ended: a broken frame is followed by another
        self._capture = _started(request, self.models)

    def run(self, inputs: Asked, frame: int = 0, watch: Watch | None = None, source: str = "") -> Outcome:
        """inputs: of one frame. source: what people call it."""
        start = time.perf_counter()
        prepared = self.prepared(inputs, frame)
        spread = self._spread.of(self._host, prepared, step_of(watch, "reference spread")) if self._spread else None
        ran, pull, unreached = self.record(prepared, watch)
        options = replace(self.request.options, frame=frame)
        report = judged(self.models, prepared, ran, options, pull)
        report.link = dict(self._carried + Counter(report.link)) if self._carried else report.link
        if self._capture is not None:
            self._capture.frame(frame, source or str(inputs.files or "random"), prepared, ran.recordings, pull)
        if spread is not None:
            mark_spread(report, spread)
        seen = Seen(prepared, ran, pull)
        self.repeat(report, seen, self.request.repeat, watch)
        self.refresh(ran)
        if self.request.paranoid:
            self._on_others(report, seen, options, watch)
        report.timings["total"] = time.perf_counter() - start
        return Outcome(report, list(self.models.graph.outputs), unreached, seen)

    def repeat(self, report: Report, seen: Seen, times: int, watch: Watch | None = None) -> None:
        """The board that just ran runs again; the report, and the capture, say what changes."""
        if times < 2 or self._board is None or seen.ran.recordings["board"].state != "complete":
            return
        repeat(self._board, seen, self.models.graph, report, times, step_of(watch, "repeat"))
        if self._capture is not None:
            self._capture.repeated(report.repeat or {})

    def _on_others(self, report: Report, seen: Seen, options: Options, watch: Watch | None) -> None:
        """--paranoid, once the first run's values are not asked for any more."""
        before = seen.ran.recordings["board"]
        if self._board is None or before.state != "complete":
            return
        found, recording = run_on_others(
            self._board, self.models, seen.prepared, before, options, self.request.spot_seed, step_of(watch, "paranoid")
        )
        seen.pull = None
        mark_others(report, found)
        if self._capture is not None:
            self._capture.on_others(found)
        if recording is not None and recording.state != "complete":
            self._carried.update(recording.link)
            self._disconnect()

    def prepared(self, inputs: Asked, number: int) -> PreparedInputs:
        """Of frame `number`."""
        return prepared_inputs(self.models.graph, inputs)

    def record(self, prepared: PreparedInputs, watch: Watch | None = None) -> tuple[Ran, Pull | None, str]:
        """Every side once; how to ask the board for more; why there was no board to speak to."""
        ran, board, unreached = self._host.run(prepared, self.request.run_sim, watch), None, ""
        try:
            board = self._connected()
        except LinkError as error:
            if error.exit_status != EXIT["INCONCLUSIVE"]:
                raise
            unreached = " ".join(str(error).split())
            ran.recordings["board"] = absent(self.models.graph, str(self.request.board), unreached)
        if board is not None:
            pull = "all" if self.request.paranoid else self.request.pull
            ran.recordings["board"] = board.run(prepared, step_of(watch, "board"), pull)
        return ran, Remembered(board.pull) if board is not None else None, unreached

    def refresh(self, ran: Ran) -> None:
        """After a run that broke off, the next frame gets a connection of its own."""
        if self._board is not None and ran.recordings["board"].state != "complete":
            self._carried.update(ran.recordings["board"].link)
            self._disconnect()

    def _connected(self) -> Any:
        from qverify.sides.board import Board

        asked = self.request
        if self._board is None and asked.board is not None:
            self._board = Board(
                asked.board, self.models.binary, self.models.graph, asked.deadline_s, asked.reach, asked.spot_seed
            )
        return self._board

    def not_run(self, number: int, source: str, why: str) -> None:
        """A frame that could not be prepared is named in the capture, too."""
        if self._capture is not None:
            self._capture.not_run(number, source, why)

    def captured(self, report: Report) -> None:
        """The run is over: its report goes into the capture, and a note into it where the capture is not whole."""
        if self._capture is not None and (why := self._capture.close(json.dumps(report.to_json(), allow_nan=False))):
            report.notes.append(f"WARNING: capture {self._capture.folder} is incomplete: {why}")

    def forget(self, error: QVerifyError | LinkError) -> None:
        """A capture of nothing, because of a mistake (a mistyped address is one), is not left behind."""
        if self._capture is not None and error.exit_status == 2:
            self._capture.forget()

    def close(self) -> None:
        self._disconnect()
        if self._capture is not None:
            self._capture.close(why="the run was cut off")

    def _disconnect(self) -> None:
        if self._board is not None:
            self._board.close()
            self._board = None


def absent(graph: Graph, uri: str, why: str) -> Recording:
    """The side of a board that could not be reached."""
    specs = {n: graph.spec(n) for n in graph.observable()}
    missing = dict.fromkeys(specs, why)
    return Recording(
        "board", "", host=uri, specs=specs, finals=graph.outputs, missing=missing, state="did not run", why=why
    )


def _started(request: Request, models: Models) -> CaptureWriter | None:
    if request.capture is None:
        return None
    from qverify.session.capture import start_capture

    return start_capture(request.capture, request, models)


class Remembered:
    """A board's pull that asks for nothing twice in one frame."""

    def __init__(self, pull: Callable[[list[str]], Any]):
        self._pull, self._held = pull, dict[str, Any]()

    def __call__(self, names: list[str]) -> dict[str, Any]:
        if wanted := [n for n in names if n not in self._held]:
            try:
                self._held |= self._pull(wanted)
            except LinkError as error:
                self._held |= getattr(error, "came", {})  # what is whole of them
                raise
        return {n: self._held[n] for n in names if n in self._held}
