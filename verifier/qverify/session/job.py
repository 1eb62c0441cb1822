"""The main job: prepares the inputs, runs every side on them, and makes one Report of the results."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from qverify_agents.errors import LinkError

from qverify.compare.frozen import OutputHistory
from qverify.compare.judge_roles import check_output_roles
from qverify.compare.later import Later
from qverify.compare.options import Options
from qverify.errors import QVerifyError, UsageError
from qverify.inputs.sources import InputRequest, prepared_inputs
from qverify.model_bin.graph import Graph
from qverify.report.document import EXIT, ReportDocument
from qverify.report.report_json import to_json
from qverify.report.stated_facts import usable_facts
from qverify.session.background import Background
from qverify.session.board_optimizer import name_optimization
from qverify.session.checks.run_checks import Checks
from qverify.session.chosen_sides import ChosenSides, choose_sides
from qverify.session.engine_sides import EngineSides
from qverify.session.host_sides import HostSides, SideResults, Watch, progress_of_step
from qverify.session.inventory_facts import state_inventory
from qverify.session.make_report import make_report
from qverify.session.models import Models
from qverify.session.node_evidence import NodeEvidence
from qverify.session.recorded_causes import CauseFinder
from qverify.session.reference_spread import ReferenceSpread, mark_spread
from qverify.session.repeat import repeat
from qverify.session.request import Request
from qverify.session.run_evidence import Pull, RunEvidence
from qverify.session.runner import BoardModel, connect_board, describe_runner, open_with_board_model
from qverify.tensors.prepared import PreparedInputs
from qverify.tensors.recording import Recording

if TYPE_CHECKING:
    from qverify.capture.writer import CaptureWriter
    from qverify.session.task.task_run import TaskRun


@dataclass(slots=True)
class JobOutcome:
    """The result of a job. finals: names of the final outputs. unreached: why the board could not be reached (also in
    the report), "" if it was reached. evidence: None after a run of many frames."""

    report: ReportDocument
    finals: list[str]
    unreached: str = ""
    evidence: RunEvidence | None = None


@dataclass(slots=True)
class OpenedModels:
    """Models that were opened before, for several jobs. models, vendor: the result of open_with_board_model for a
    request with the same model files, shapes and runner. host: the sides of this host, which only one job may use at a
    time."""

    models: Models
    vendor: BoardModel | None
    host: HostSides


def verify(
    request: Request, watch: Watch | None = None, job: Job | None = None, frame: int = 0, source: str = ""
) -> JobOutcome:
    """Runs the main job on one frame. job: a job for this request, which is closed at the end; a new one if None. frame,
    source: its number and name in the report, of several networks.
    Raises QVerifyError (exit 2) for the user's mistakes, and LinkError if an address or a link fails. A board that
    cannot be reached raises nothing: the outcome states it."""
    job = Job(request) if job is None else job
    try:
        if job.task is not None:
            job.task.begin([str(request.inputs.files)])
        checks = Checks(request)
        outcome = job.run(request.inputs, frame, watch, source)
        checks.add(job, frame, source or str(request.inputs.files or "random"), outcome.evidence)
        checks.finish(job, outcome.report, Job, watch, frame)
        if job.task is not None:
            job.task.state(outcome.report)
        job.finish_capture(outcome.report)
        return outcome
    except (QVerifyError, LinkError) as error:
        job.discard_empty_capture(error)
        raise
    finally:
        job.close()


class Job:
    """One model and its sides, for any number of inputs. The board stays connected from one to the next.

    unreached: the error because of which the board could not be reached, None if it was reached. on_unreached: called with
    that reason as soon as it is known, while the sides of this host still compute. on_lost: if not None, a board whose run
    breaks off is connected again, once in a run, and runs the same inputs again; then this is called with why the first run
    broke off, and whether the second is complete."""

    def __init__(
        self,
        request: Request,
        fewest_sides: int = 2,
        opened: OpenedModels | None = None,
        sides: ChosenSides | None = None,
    ):
        """Opens the models. opened: models that need not be opened again. sides: what was chosen for the request; None to
        choose it. Raises UsageError if the request contradicts
        itself or provides fewer than `fewest_sides` sides."""
        self.request = request
        self.unreached: LinkError | None = None
        self.on_unreached: Callable[[str], None] | None = None
        self.on_lost: Callable[[str, bool], None] | None = None
        self.history = OutputHistory()
        self._causes = CauseFinder()
        self.sides = choose_sides(request) if sides is None else sides
        if opened is None:
            models, vendor = open_with_board_model(request, self.sides)
            engines = EngineSides(self.sides, models, request.deadline_s)
            opened = OpenedModels(models, vendor, HostSides(models, self.sides.reference, engines))
        self.models, self._vendor, self._host = opened.models, opened.vendor, opened.host
        known = self.models.compiled, self.models.engine, self.models.alone
        check_output_roles(request.options, self.models.graph)
        on = {
            "reference": self.sides.reference and any(model is not None for model in known),
            "simulator": self.sides.simulator and not self.models.no_simulator,
            "board": self.sides.board is not None,
            **dict.fromkeys(self.sides.engines, True),
        }
        if sum(on.values()) < fewest_sides:
            only = ", ".join(side for side, runs in on.items() if runs) or "none"
            raise UsageError(f"only one side ({only}): give -b BOARD, -s True, or a quantized ONNX besides model.bin")
        self._spread = ReferenceSpread(request, self.models) if request.reference_spread else None
        self._board: Any = None
        self._earlier_traffic = Counter[str]()  # link counters of connections that broke in earlier frames
        self.task = _start_task(request, self.models, [side for side, runs in on.items() if runs])
        self._capture = None if request.capture is None else self._start_capture(request.capture)

    def run(self, inputs: InputRequest, frame: int = 0, watch: Watch | None = None, source: str = "") -> JobOutcome:
        """Runs every side on one frame and judges it. source: the frame's name as reports show it."""
        shown = source or inputs.source or str(inputs.files or "random")
        return self.run_prepared(self.prepared(inputs, frame), frame, watch, shown)

    def run_prepared(
        self,
        prepared: PreparedInputs,
        frame: int,
        watch: Watch | None,
        source: str,
        is_further: bool = False,
        later: Later | None = None,
    ) -> JobOutcome:
        """Runs every side on prepared inputs and judges them. source: as for run(). is_further: it is one more run of a frame,
        on other inputs, which no capture, history or task number contains. later: as for judge_all."""
        start = time.perf_counter()
        spread = (
            self._spread.measure(self._host, prepared, progress_of_step(watch, "reference spread"))
            if self._spread
            else None
        )
        ran, pull, unreached = self.record(prepared, watch)
        if not is_further:
            self.history.add(ran.recordings)
        options = replace(self.request.options, frame=frame)
        report = make_report(self.models, prepared, ran, options, pull, later=None if options.drawings else later)
        if self.has_runner:
            built_for = self._vendor.built_for if self._vendor is not None else {}
            page, stated = self.sides.runner, self.sides.arithmetic is not None
            shipped = page.arithmetics if page is not None and not stated else ()
            describe_runner(report, ran.recordings.get("board"), options, built_for, shipped)
            report.facts = dict(usable_facts(built_for)) | report.facts
        report.link = dict(self._earlier_traffic + Counter(report.link)) if self._earlier_traffic else report.link
        if self.is_kept(report) and not is_further:
            self.keep_frame(frame, source, prepared, ran, pull)
        if spread is not None:
            mark_spread(report, spread)
        known = NodeEvidence(ran.recordings, self.models.graph, prepared.arrays(), pull)
        self._causes.add(report, known, frame)
        evidence = RunEvidence(prepared, ran, pull)
        if self.task is not None and not is_further:
            self.task.add(frame, source, evidence)
        self.repeat(report, evidence, self.request.repeat, watch)
        self.disconnect_if_broken(ran)
        if self.request.paranoid:
            self._run_on_other_inputs(report, evidence, options, watch)
        report.timings["total"] = time.perf_counter() - start
        return JobOutcome(report, list(self.models.graph.outputs), unreached, evidence)

    def run_board(self, prepared: PreparedInputs, watch: Watch | None = None) -> Recording | None:
        """Runs the board alone, on prepared inputs; None if it is not connected. Nothing is judged, and values of earlier
        runs cannot be pulled afterwards."""
        if self._board is None:
            return None
        recording: Recording = self._board.run(
            prepared, progress_of_step(watch, "check"), "differ", **self._run_options()
        )
        return recording

    def run_host(self, prepared: PreparedInputs) -> SideResults:
        """Runs the sides of this host alone, without a simulator beside a reference. Nothing is judged."""
        has_reference = self.models.compiled is not None or self.models.alone is not None
        return self._host.run(prepared, self.sides.simulator and not (has_reference and self.sides.reference))

    def leave_out_original(self) -> None:
        """Does not run the unchanged original ONNX beside the reference in the runs that follow."""
        self._host.runs_original = False

    def is_kept(self, report: ReportDocument) -> bool:
        """Returns whether the frame of this report is to be added to the capture, if there is one."""
        return True

    def start_capture(self, folder: str) -> None:
        """Starts a capture of the frames that follow. Raises UsageError if the folder is not empty."""
        self._capture = self._start_capture(folder)

    def _start_capture(self, folder: str) -> CaptureWriter:
        from qverify.session.start_capture import start_capture

        return start_capture(folder, self.request, self.models, self.sides)

    def keep_frame(
        self, number: int, source: str, prepared: PreparedInputs, ran: SideResults, pull: Pull | None
    ) -> None:
        """Adds a frame to the capture, if there is one."""
        if self._capture is not None:
            self._capture.add_frame(number, source, prepared, ran.recordings, pull)

    def keep_experiments(self, rows: list[dict[str, Any]]) -> None:
        """Adds triage's experiments to the last frame of the capture, if there is one."""
        if self._capture is not None and rows:
            self._capture.add_experiments(rows)

    def finish_capture_without_report(self) -> str:
        """Finishes the capture of a run without a report of its own. Returns why the capture is incomplete, or ""."""
        return self._capture.close() if self._capture is not None else ""

    def repeat(self, report: ReportDocument, evidence: RunEvidence, times: int, watch: Watch | None = None) -> None:
        """Runs the board again, up to `times` runs in all, and adds what changed between the runs to the report and the
        capture."""
        if times < 2 or self._board is None or evidence.results.recordings["board"].state != "complete":
            return
        repeat(self._board, evidence, self.models.graph, report, times, progress_of_step(watch, "repeat"))
        if self._capture is not None:
            self._capture.add_repeat(report.repeat or {})

    def _run_on_other_inputs(
        self, report: ReportDocument, evidence: RunEvidence, options: Options, watch: Watch | None
    ) -> None:
        """Makes the run of --paranoid on other inputs. Values of the first run cannot be pulled afterwards."""
        from qverify.session.other_inputs import mark_other_inputs, run_on_other_inputs

        before = evidence.results.recordings["board"]
        if self._board is None or before.state != "complete":
            return
        outcome, recording = run_on_other_inputs(
            self._board,
            self.models,
            evidence,
            options,
            self.request.spot_seed,
            progress_of_step(watch, "paranoid"),
            self._run_options(),
        )
        evidence.pull = None
        mark_other_inputs(report, outcome)
        if self._capture is not None:
            self._capture.add_other_inputs(outcome)
        if recording is not None and recording.state != "complete":
            self._earlier_traffic.update(recording.link)
            self._disconnect()

    def prepared(self, inputs: InputRequest, number: int) -> PreparedInputs:
        """Returns the prepared inputs of frame `number`."""
        return prepared_inputs(self.models.graph, inputs)

    def record(self, prepared: PreparedInputs, watch: Watch | None = None) -> tuple[SideResults, Pull | None, str]:
        """Runs every side once, those of the host while the board runs. Returns their results, a function that pulls
        more tensors from the board (None without a board), and why the board could not be reached ("" if it was)."""
        # With host islands, the host computes nodes for the board in the session that its own sides use.
        one_by_one = self.request.board is None or bool(self.models.graph.islands)
        if one_by_one or self._host.results_are_known:
            reached = self._reach()  # before anything is computed for a board that is not there
            ran = self._host.run(prepared, self.sides.simulator, watch)
            recording, unreached = self._record_board(prepared, watch, reached)
        else:
            with Background(partial(self._host.run, prepared, self.sides.simulator), watch) as host:
                recording, unreached = self._record_board(prepared, watch, self._reach())
                ran = host.result()
        if recording is not None:
            ran.recordings["board"] = recording
            state_inventory(recording, self.request.board)
            name_optimization(self._board, prepared, ran.recordings)
        return ran, self._board.pull if self._board is not None else None, unreached

    def _reach(self) -> str:
        """Connects the board. Returns why it could not be reached, "" if it was, or if there is none. Raises LinkError for an
        error of the address or the link that is not INCONCLUSIVE."""
        try:
            self._connect()
        except LinkError as error:
            if error.exit_status != EXIT["INCONCLUSIVE"]:
                raise
            self.unreached, unreached = error, " ".join(str(error).split())
            if self.on_unreached is not None:
                self.on_unreached(unreached)
            return unreached
        return ""

    def _record_board(
        self, prepared: PreparedInputs, watch: Watch | None, unreached: str
    ) -> tuple[Recording | None, str]:
        """Returns the board's recording (None without a board), and why it could not be reached, as _reach() gave it."""
        if unreached:
            return unreachable_board(self.models.graph, str(self.request.board), unreached), unreached
        board = self._board
        if board is None:
            return None, ""
        recording = self._run_board(board, prepared, watch)
        if self.on_lost is None or self.has_runner or recording.state == "complete":
            return recording, ""
        self._earlier_traffic.update(recording.link)
        self._disconnect()
        if unreached := self._reach():
            return unreachable_board(self.models.graph, str(self.request.board), unreached), unreached
        again = self._run_board(self._board, prepared, watch)
        self.on_lost(recording.why, again.state == "complete")
        return again, ""

    def _run_board(self, board: Any, prepared: PreparedInputs, watch: Watch | None) -> Recording:
        pull = "all" if self.request.paranoid else self.request.pull
        recording: Recording = board.run(prepared, progress_of_step(watch, "board"), pull, **self._run_options())
        return recording

    def _run_options(self) -> dict[str, bool]:
        """Returns the arguments of the board's run() that only a board with a runner takes."""
        return {"dump_all": self.request.options.dump_all} if self.has_runner else {}

    def disconnect_if_broken(self, ran: SideResults) -> None:
        """Disconnects the board if its run broke off, so that the next frame gets a new connection."""
        if self._board is not None and ran.recordings["board"].state != "complete":
            self._earlier_traffic.update(ran.recordings["board"].link)
            self._disconnect()

    @property
    def has_runner(self) -> bool:
        """Whether a runner, a command beside the board, runs the model. Without one the board runs qvrt, or the ONNX or
        the .tflite with a runtime that speaks the protocol."""
        return self.sides.runner is not None

    def connected_board(self) -> Any:
        """Returns the board side (sides.board.Board) if it is still connected after record(), else None."""
        return self._board

    def _connect(self) -> Any:
        if self._board is None and self.request.board is not None and self.sides.board is not None:
            self._board = connect_board(self.request, self.sides.board, self._vendor, self.models)
        return self._board

    def record_not_run(self, number: int, source: str, why: str, board_lost: bool = False) -> None:
        """Adds a frame that did not run to the capture, if there is one. board_lost: it was not tried because the board
        had been lost; otherwise it could not be prepared."""
        if self._capture is not None:
            self._capture.add_not_run(number, source, why, board_lost)

    def finish_capture(self, report: ReportDocument) -> None:
        """Finishes the capture, if there is one, with the run's report; adds a note to the report if it is
        incomplete."""
        if self._capture is not None and (why := self._capture.close(json.dumps(to_json(report), allow_nan=False))):
            report.notes.append(f"WARNING: capture {self._capture.folder} is incomplete: {why}")

    def end_capture(self, report: ReportDocument) -> None:
        """Finishes the capture with the report of its frames; the frames that follow are not added."""
        self.finish_capture(report)
        self._capture = None

    def discard_empty_capture(self, error: QVerifyError | LinkError) -> None:
        """Removes the capture if it is empty and the run ended because of a user's mistake, such as a mistyped
        address."""
        if self._capture is not None and error.exit_status == 2:
            self._capture.discard_if_empty()

    def release_board(self) -> None:
        """Disconnects the board; the next run connects it again."""
        self._disconnect()

    def close(self) -> None:
        """Disconnects the board, and marks a capture that is still open as cut off."""
        self._disconnect()
        self._host.close()
        if self._capture is not None:
            self._capture.close(why="the run was cut off")

    def _disconnect(self) -> None:
        if self._board is not None:
            self._board.close()
            self._board = None


def unreachable_board(graph: Graph, uri: str, why: str) -> Recording:
    """Returns the recording of a board that could not be reached."""
    specs = {n: graph.spec(n) for n in graph.observable()}
    missing = dict.fromkeys(specs, why)
    return Recording(
        "board", "", host=uri, specs=specs, finals=graph.outputs, missing=missing, state="did not run", why=why
    )


def _start_task(request: Request, models: Models, sides: list[str]) -> TaskRun | None:
    if request.task is None:
        return None
    from qverify.session.task.task_run import TaskRun

    return TaskRun(request.task, models.graph, request, sides)
