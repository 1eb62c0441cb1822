"""Judges a capture again, as it is or with some sides run again. No board is needed (CAPTURE.md)."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from qverify_agents.errors import LinkError
from qverify_agents.worker import RUNTIMES

from qverify.capture.reader import PRECISION, Capture, note_ignored, open_capture
from qverify.compare.frozen import OutputHistory
from qverify.compare.options import Options
from qverify.errors import BadFileError, QVerifyError, UsageError
from qverify.inputs.sources import InputRequest
from qverify.printable import printable
from qverify.report.document import ReportDocument, worst
from qverify.report.stated_facts import usable_facts
from qverify.session.captured_runtime import OURS
from qverify.session.chosen_sides import choose_board
from qverify.session.host_sides import HostSides, SideResults, Watch
from qverify.session.job import JobOutcome, unreachable_board
from qverify.session.make_report import make_report
from qverify.session.many_frames import KeptReports, OnFrame, frame_row, not_run_row
from qverify.session.models import Models, open_models
from qverify.session.node_evidence import NodeEvidence
from qverify.session.offline.captured_sides import read_sides
from qverify.session.other_inputs import mark_other_inputs
from qverify.session.recorded_causes import CauseFinder
from qverify.session.repeat import mark_repeat
from qverify.session.run_evidence import Pull, RunEvidence
from qverify.session.runner import describe_runner
from qverify.tensors.prepared import PreparedInputs
from qverify.tensors.recording import Recording

RERUN_SIDES = ("reference", "simulator")  # those that --rerun can run again
TASK_GATES = "the run had a gate of the task, and a capture has no labels: run again with --task and --labels"
SIDE_ORDER = (*RERUN_SIDES, "board")


@dataclass(frozen=True, slots=True)
class RejudgeRequest:
    """A request to judge a capture again.

    Attributes:
        folder: the capture.
        options: how to judge; options that are not set are those of the captured run.
        rerun: sides of RERUN_SIDES to run again on the captured inputs.
        board: address of a board whose run replaces the captured board; None to judge the captured one.
        run_sim: also judge the simulator.
        models: paths to use instead of the captured models.
        deadline_s: time limit of each reply of the board.
        reach: options of the board's address that were given separately.
        runtime: what ran on the captured board, as the user states it, because the capture is not trusted.
    """

    folder: str
    options: Options = field(default_factory=Options)
    rerun: tuple[str, ...] = ()
    board: str | None = None
    run_sim: bool = True
    models: tuple[str, ...] = ()
    deadline_s: float = 120.0
    reach: dict[str, str] = field(default_factory=dict)
    runtime: str = "qvrt"


class CapturedJob:
    """A capture with the interface of a Job. Its sides are not run, and tensors cannot be pulled from its board."""

    def __init__(self, capture: Capture, models: Models, run_sim: bool):
        self.capture, self.models, self.run_sim = capture, models, run_sim
        self._host, self._frame = HostSides(models), 0
        self.history = OutputHistory()

    def prepared(self, inputs: InputRequest, number: int) -> PreparedInputs:
        """Returns the captured inputs of frame `number`; `inputs` is not used."""
        self._frame = number
        return self.capture.prepared(number, self.models.graph)

    def record(self, prepared: PreparedInputs, watch: Watch | None = None) -> tuple[SideResults, Pull | None, str]:
        """Returns the captured sides of the frame that was prepared last, None (no tensor can be pulled), and "" (the
        board did not have to be reached)."""
        ran = SideResults(read_sides(self.capture, self._frame, self.models, prepared, self.run_sim))
        ran.run_unit, ran.kernel_sets = self._host.run_units(self.run_sim), self._host.kernel_sets()
        return ran, None, ""

    def repeat(self, report: ReportDocument, evidence: RunEvidence, times: int, watch: Watch | None = None) -> None:
        """Adds the captured run's results of --repeat and --paranoid to the report; nothing is run."""
        mark_captured_repeat(report, self.capture, self._frame)

    def disconnect_if_broken(self, ran: SideResults) -> None:
        pass

    def close(self) -> None:
        pass


def rejudge(request: RejudgeRequest, on_frame: OnFrame | None = None, watch: Watch | None = None) -> JobOutcome:
    """Judges every frame again and returns one report. A frame with damaged inputs is listed as not run, and the others
    are judged. on_frame: receives each frame's row if there are several frames. Raises BadFileError if no frame can be
    judged."""
    capture, kept, rows = open_capture(request.folder), KeptReports(), list[dict[str, Any]]()
    evidence, history = None, OutputHistory()
    for number, source, outcome in _judge_frames(request, capture, watch):
        if isinstance(outcome, QVerifyError):
            rows.append(not_run_row(number, source, outcome, capture.board_lost(number)))
        else:
            rows.append(frame_row(number, source, outcome.report))
            kept.add(outcome.report, rows[-1])
            if outcome.evidence is not None:
                history.add(outcome.evidence.results.recordings)
            finals, evidence = outcome.finals, outcome.evidence if len(capture.frames) == 1 else None
        if on_frame is not None and len(capture.frames) > 1:
            on_frame(rows[-1])
    if not kept.reports:
        raise BadFileError(f"{request.folder}: no frame can be judged: {rows[0]['why']}")
    whole = kept.combine(rows)
    whole.findings = history.put_frozen_first(whole.verdict, whole.findings)
    if capture.command.get("task_gates"):
        mark_inconclusive(whole, TASK_GATES)
        whole.caveats.append(TASK_GATES)
    if len(rows) == 1:
        whole.frames = []
    return JobOutcome(whole, finals, evidence=evidence)


def mark_captured_repeat(report: ReportDocument, capture: Capture, number: int) -> None:
    """Adds the captured run's results of --repeat and --paranoid to the report. Raises BadFileError if they are
    malformed."""
    for key, option, mark in (("repeat", "--repeat", mark_repeat), ("other_inputs", "--paranoid", mark_other_inputs)):
        if not (results := capture.frames[number].get(key)):
            continue
        try:
            mark(report, results)
        except (LookupError, TypeError, ValueError, OverflowError) as error:
            message = f"{capture.folder}: its results of {option} at frame {number} cannot be read: {error}"
            raise BadFileError(message) from error


def mark_inconclusive(report: ReportDocument, why: str) -> None:
    """Turns every PASSED of the report into INCONCLUSIVE. why: the reason."""
    for pair in report.pairs:
        if pair.verdict == "PASSED":
            pair.verdict, pair.why = "INCONCLUSIVE", why
    report.verdict = worst([pair.verdict for pair in report.pairs])


def _judge_frames(
    request: RejudgeRequest, capture: Capture, watch: Watch | None = None
) -> Iterator[tuple[int, str, JobOutcome | QVerifyError]]:
    """Yields (number, source, outcome) of every frame; the outcome of a frame that cannot be judged is its error.
    Raises BadFileError for a damaged model or a capture without frames, UsageError for a wrong request."""
    if not capture.frames:
        raise BadFileError(f"{request.folder}: the capture contains no frame ({capture.incomplete or 'nothing ran'})")
    if unknown := [side for side in request.rerun if side not in RERUN_SIDES]:
        raise UsageError(f"--rerun {unknown[0]}: wanted {' or '.join(RERUN_SIDES)}; a board runs again with -b")
    capture.reads_forms = is_runner(request.runtime)
    models = open_models([*request.models], operators=True) if request.models else captured_models(capture)
    host, board = HostSides(models), _connect(request, models)
    options, causes = merge_options(request.options, capture), CauseFinder()
    try:
        for number, row in enumerate(capture.frames):
            try:
                if capture.why(number):
                    raise BadFileError(capture.why(number))
                prepared = capture.prepared(number, models.graph)
                ran, pull = _collect_sides(request, capture, number, host, prepared, watch, models), None
                if request.board is None and "board" in ran.recordings:
                    _set_runtime(ran.recordings["board"], request, capture.stated_decimals(number, "board"))
                if request.board is not None:
                    board = board or _try_to_connect(request, models)
                    if board is not None:
                        pull = board.pull
                    ran.recordings["board"] = _run_board(board, request, models, prepared)
                report = make_report(models, prepared, ran, replace(options, frame=number), pull)
                if request.board is None and is_runner(request.runtime):
                    describe_runner(report, ran.recordings.get("board"), options)
            except BadFileError as error:
                yield number, str(row["source"]), error
                continue
            causes.add(report, NodeEvidence(ran.recordings, models.graph, prepared.arrays(), pull), number)
            if request.board is None:
                mark_captured_repeat(report, capture, number)
            elif board is not None and ran.recordings["board"].state != "complete":
                board.close()
                board = None  # the next frame gets a new connection
            if capture.incomplete:
                mark_inconclusive(report, f"the capture is incomplete: {capture.incomplete}")
            evidence = RunEvidence(prepared, ran, None)
            yield number, str(row["source"]), JobOutcome(report, list(models.graph.outputs), evidence=evidence)
    finally:
        if board is not None:
            board.close()


def captured_models(capture: Capture) -> Models:
    """Opens the capture's quantized ONNX and model.bin under the names that they had in the run. Float files, which
    earlier versions stored although they were not used, are left out."""
    floats = {f for f, row in capture.models.items() if row["kind"] == "float.onnx"}
    paths = [p for p in capture.model_paths() if os.path.basename(p) not in floats]
    models = open_models(paths, operators=True)
    restore_names(models, capture)
    return models


def restore_names(models: Models, capture: Capture) -> None:
    """Gives the capture's models the names that they had in the run."""
    original_names = {str(row["sha256"]): str(row.get("path") or f) for f, row in capture.models.items()}
    for row in models.rows:
        row["path"] = printable(original_names.get(row["sha256"], row["path"]))


def merge_options(chosen: Options, capture: Capture) -> Options:
    """Returns the options of the captured run, overridden by those that the user set now."""
    names, default = [f for f in Options.__dataclass_fields__ if f not in ("frame", "named")], Options()
    try:
        command = {k: v for k, v in capture.command.items() if k in names}
        command["facts"] = usable_facts(command["facts"]) if isinstance(command.get("facts"), dict) else ()
        captured = Options(**command)
        changed = {k for k in names if k in chosen.named or getattr(chosen, k) != getattr(default, k)}
        return replace(captured, **{k: getattr(chosen, k) for k in changed})
    except (TypeError, ValueError, UsageError) as error:
        raise BadFileError(f"{capture.folder}: the options of its run cannot be read: {error}") from error


def _connect(request: RejudgeRequest, models: Models) -> Any:
    """Connects the board of the request; returns None if it has none."""
    if request.board is None:
        return None
    from qverify.session.open_board import open_board

    return open_board(models, choose_board(request.board, reach=request.reach), request.deadline_s)


def _try_to_connect(request: RejudgeRequest, models: Models) -> Any:
    """Connects again after a frame that broke the connection; returns None if the board can no longer be reached."""
    try:
        return _connect(request, models)
    except LinkError:
        return None


def _run_board(board: Any, request: RejudgeRequest, models: Models, prepared: PreparedInputs) -> Recording:
    """Runs the board and returns its recording; without a board, that of a board that could not be reached."""
    if board is None:
        return unreachable_board(
            models.graph, str(request.board), "the board failed in an earlier frame and could not be reached again"
        )
    return board.run(prepared)


def _collect_sides(
    request: RejudgeRequest,
    capture: Capture,
    number: int,
    host: HostSides,
    prepared: PreparedInputs,
    watch: Watch | None,
    models: Models,
) -> SideResults:
    """Returns the captured sides of a frame, after running those of `request.rerun` again."""
    ran = host.run(prepared, "simulator" in request.rerun, watch) if request.rerun else SideResults()
    rerun = {n: r for n, r in ran.recordings.items() if n in request.rerun}
    ran.recordings = _sort_sides({**read_sides(capture, number, models, prepared, request.run_sim), **rerun})
    ran.run_unit, ran.kernel_sets = host.run_units(request.run_sim), host.kernel_sets()
    return ran


def is_runner(runtime: str) -> bool:
    """Returns whether `replay --runtime` names no runtime of qverify's own boards."""
    return runtime not in (OURS, *RUNTIMES)


def _set_runtime(board: Recording, request: RejudgeRequest, decimals: int | None) -> None:
    """Sets the board's runtime to the one that the user states. decimals: of the values that a runner printed, which
    limit how finely it is judged. Raises UsageError if the captured board ran the model of another runtime."""
    if board.runtime == OURS:
        board.runtime = request.runtime
        if is_runner(request.runtime) and decimals is not None:
            board.settings[PRECISION] = decimals
            board.notes = [n for n in board.notes if n != note_ignored(PRECISION, board.side)]
    elif request.runtime not in (OURS, board.runtime):
        raise UsageError(f"--runtime {request.runtime}: the captured board ran {board.runtime}; leave --runtime out")


def _sort_sides(sides: dict[str, Recording]) -> dict[str, Recording]:
    """Returns the sides in the order reference, simulator, engines, board."""
    return {n: sides[n] for n in sorted(sides, key=lambda n: SIDE_ORDER.index(n) if n in SIDE_ORDER else 1.5)}
