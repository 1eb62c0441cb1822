"""The ladder of triage: opens its stages once, runs them frame by frame, and judges every rung."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from itertools import pairwise

from qverify_agents.errors import LinkError

from qverify.capture.rows import SIDES
from qverify.compare.forced import Located
from qverify.compare.stated_arithmetic import read_stated
from qverify.errors import QVerifyError, UndescribedError, UsageError
from qverify.inputs.likely_mistakes import find_likely_mistakes
from qverify.inputs.sources import InputRequest, prepared_inputs
from qverify.model_bin.graph import Graph
from qverify.plural import count
from qverify.printable import printable
from qverify.report.document import ReportDocument, worst
from qverify.report.facts import Finding
from qverify.report.triage_document import Rung, Stage, TriageDocument
from qverify.session.chosen_sides import ChosenSides, choose_sides
from qverify.session.drawn_inputs import DrawnInputs
from qverify.session.host_sides import SideResults, Watch
from qverify.session.job import Job
from qverify.session.make_report import make_report
from qverify.session.many_frames import frame_row
from qverify.session.models import open_models
from qverify.session.node_evidence import NodeEvidence
from qverify.session.offline.captured_sides import captured_sides
from qverify.session.offline.rejudge import CapturedJob, merge_options, restore_names
from qverify.session.recorded_causes import CauseFinder
from qverify.session.request import BoardDump, Request
from qverify.session.run_evidence import RunEvidence
from qverify.session.runner import describe_runner
from qverify.session.triage.application_rungs import make_input_rung, make_output_rung
from qverify.session.triage.device_rungs import DeviceRungs, check_dump_shapes, read_dump
from qverify.session.triage.explain_frames import FrameExplainer
from qverify.session.triage.explain_nodes import simulated_exactly
from qverify.session.triage.float_losses import FloatLosses
from qverify.session.triage.float_rungs import FloatRungs
from qverify.session.triage.float_stages import (
    feed_network,
    inputs_only,
    network_values,
    open_float_stage,
    output_steps,
)
from qverify.session.triage.main_job import MainVerdicts
from qverify.session.triage.next_steps import advice_key, is_lossy, reason
from qverify.session.triage.open_stages import list_stages, split_board_model, stage_files
from qverify.session.triage.quantize_command import quantize_command
from qverify.session.triage.triage_request import TriageRequest
from qverify.tensors.prepared import PreparedInputs
from qverify.tensors.recording import Array
from qverify.triage.advice import advice
from qverify.triage.clipping import find_clipping
from qverify.triage.loudness import quiet_outputs

RANDOM = "the inputs are random: what quantization costs on real ones is not known (-i)"


class Ladder:
    """The stages of triage. frame() runs all of them on one set of inputs, conclude() judges the results of all frames.

    failing: the request of the first frame whose board fails, None without one."""

    def __init__(self, request: TriageRequest, watch: Watch | None = None):
        self.request, self.watch, self.report = request, watch, TriageDocument("INCONCLUSIVE", None, "")
        capture = request.capture
        self.board = self.report.board = request.board if capture is None else capture.board
        self.options = request.options if capture is None else merge_options(request.options, capture)
        captured = [] if capture is None else capture.model_paths()
        run_sim = request.run_sim and (capture is None or "simulator" in captured_sides(capture))
        self.sides = ChosenSides() if capture is not None else choose_sides(self._job_request(request.models))
        models, board_model = split_board_model(request.models, self.sides.runner is not None)
        self.files = stage_files([*captured, *models], request.stages, run_sim, self.board, bool(request.engine.names))
        self.files.models += board_model
        self.job = self._open_job() if self.files.models else None
        try:
            self._prepare()
        except QVerifyError as error:
            self.discard_empty_capture(error)
            self.close()
            raise

    def _prepare(self) -> None:
        """Lists the stages, and opens the objects that collect their results. Raises UsageError if the request
        contradicts itself."""
        request = self.request
        self.floats = [open_float_stage(o, self._shapes()) for o in self.files.originals]
        if self.job is None and (len(self.floats) < 2 or request.board or self.files.dumps or request.app_output):
            raise UsageError("-m names no quantized ONNX and no model.bin: give one, or only two float ONNX")
        if self.job is None and request.keep is not None:
            raise UsageError("--capture keeps the run of a compiled model: give -m a quantized ONNX or a model.bin")
        names = {row["kind"]: row["path"] for row in self.job.models.rows} if self.job is not None else {}
        engines, has_reference = self._engines_and_reference()
        stages = list_stages(self.files, names, self.board, request.app_output, engines, has_reference)
        no_simulator = self.job.models.no_simulator if self.job is not None else ""
        self.report.stages = [s for s in stages if not no_simulator or s.kind != "simulator"]
        self._note(no_simulator and f"simulator: {no_simulator}")
        if self.files.dumps and "quant.onnx" not in names:
            raise UsageError(f"{self.files.dumps[0]} is a dump, compared with the quantized ONNX: give that with -m")
        self._check_gates()
        self.devices = DeviceRungs(request.gates)
        steps = output_steps(self.job.models.graph) if self.job is not None else {}
        self.from_float = FloatRungs(self.floats, request.gates, self._note, steps)
        self.application_rungs: dict[str, Rung] = {}  # by "input" and "output"
        self.losses = self._open_losses()
        self._explainer, self._causes = FrameExplainer(request.explain_s), CauseFinder()
        self.failing: Request | None = None
        self.drawn_inputs = DrawnInputs()
        self.main_verdicts = MainVerdicts()

    def _engines_and_reference(self) -> tuple[list[str], bool]:
        """Returns the engines on this host that are further sides, and whether the reference runs."""
        if self.request.capture is None:
            return [*self.sides.engines], self.sides.reference
        sides = captured_sides(self.request.capture)
        return [side for side in sides if side not in SIDES], self.request.capture.command.get("run_reference", True)

    def _open_job(self) -> Job | CapturedJob:
        """Opens the compiled model, or the capture of the request."""
        request = self.request
        if request.capture is not None:
            models = open_models(self.files.models, request.shapes, request.allow_other_model, operators=True)
            restore_names(models, request.capture)
            return CapturedJob(request.capture, models, self.files.run_sim)
        has_other_stages = bool(self.files.originals or self.files.dumps or request.app_output)
        return Job(self._job_request(self.files.models), 1 if has_other_stages else 2, sides=self.sides)

    def judge_in_place(self) -> None:
        """Adds the main job's verdict on a dump in the board's place, as `qverify verify` with the same options gives it."""
        request, dump = self.request, self.request.dump
        if (
            dump is None
            or request.board is not None
            or request.stages
            or not self.files.dumps
            or len(self.report.frames) > 1
        ):
            return
        if request.inputs.files is None:
            self._note(
                "the main job compares the dump with what this host computes of -i INPUT, what the device was given"
            )
            return
        from qverify.session.offline.verify_dump import verify_dump

        try:
            self.main_verdicts.add_in_place(verify_dump(self._job_request(self.files.models), dump))
        except QVerifyError as error:
            self._note(f"the main job with the dump in the board's place: {error}")

    def _job_request(self, models: list[str]) -> Request:
        """Returns the request of the main job with these models."""
        request = self.request
        return Request(
            models,
            request.board,
            "simulator" in request.stages if request.stages else request.run_sim,
            inputs=request.inputs,
            options=self.options,
            deadline_s=request.deadline_s,
            shapes=request.shapes,
            allow_other_model=request.allow_other_model,
            arithmetic=request.arithmetic,
            reach=request.reach,
            runner=request.runner,
            simulators=request.simulators,
            run_reference=request.run_reference,
            capture=request.keep,
        ).with_engine(request.engine)

    @property
    def build(self) -> str | None:
        """The command line by which the failing board's engine builds its model; None if no board fails or it states none."""
        return None if self.failing is None or self.sides.runner is None else self.sides.runner.build

    def _shapes(self) -> dict[str, tuple[int, ...]]:
        """Returns the shapes of the network's inputs, for float files with dynamic inputs."""
        if self.job is None:
            return self.request.shapes
        graph = self.job.models.graph
        return {n: graph.spec(n).shape for n in graph.inputs} | self.request.shapes

    def _open_losses(self) -> FloatLosses | None:
        """Returns the object that measures the losses of the last float file; None without a float file or a quantized
        ONNX."""
        files = [s.file for s in self.floats if s.stage.kind == "float" and s.file is not None]
        if not files or self.job is None or self.job.models.compiled is None or self.job.models.original is None:
            return None
        losses = FloatLosses(files[-1], self.job.models, self.files.models)
        self.report.unpaired = losses.paired.unpaired
        self._note(*losses.paired.notes)
        return losses

    def _check_gates(self) -> None:
        """Raises UsageError for a gate of a rung that does not exist, or one that would relax simulator ~ board."""
        rungs = {f"{a}~{b}" for a, b in self._neighbours()}
        for gate in self.request.gates:
            if gate not in rungs:
                raise UsageError(f"--gate {gate}: no such rung; there are {', '.join(sorted(rungs)) or 'none'}")
        board_gate = self.request.gates.get("simulator~board")
        if board_gate is not None and board_gate.kind != "exact" and not self.options.relax_board:
            raise UsageError(
                "--gate simulator~board: both run the same model.bin, so their bytes must be equal; --relax-board allows another gate"
            )

    def _neighbours(self) -> list[tuple[str, str]]:
        """Returns the pairs of stages to compare. Results of another runtime are compared with the reference, or with the
        simulator without one; those of a board whose arithmetic is stated with the simulator alone."""
        stated = self.job is not None and read_stated(self.job.models.graph) is not None
        has_runner = isinstance(self.job, Job) and self.job.has_runner
        other_runtimes = ("dump", "engine", *(("board",) if has_runner and not stated else ()))
        chain = [s.name for s in self.report.stages if s.kind not in other_runtimes]
        first = next((s.name for s in self.report.stages if s.kind in ("reference", "simulator")), "reference")
        pairs = [p for p in pairwise(chain) if not stated or p != ("reference", "simulator")]
        return [*pairs, *((first, s.name) for s in self.report.stages if s.kind in other_runtimes)]

    def close(self) -> None:
        """Closes the connection to the board, and marks a capture that finish_capture did not finish as cut off."""
        if self.job is not None:
            self.job.close()

    def finish_capture(self) -> None:
        """Finishes the capture, if there is one, once every frame was run or recorded as not run."""
        if isinstance(self.job, Job) and (why := self.job.finish_capture_without_report()):
            self._note(f"WARNING: capture {self.request.keep} is incomplete: {why}")

    def discard_empty_capture(self, error: QVerifyError | LinkError) -> None:
        """Removes the capture if it is empty and the run ended because of a user's mistake."""
        if isinstance(self.job, Job):
            self.job.discard_empty_capture(error)

    def record_not_run(self, number: int, source: str, why: str) -> None:
        """Adds a frame that could not be prepared to the capture, if there is one."""
        if isinstance(self.job, Job):
            self.job.record_not_run(number, source, why)

    def _note(self, *lines: str) -> None:
        """Adds lines to the notes of the report, each once; "" is left out."""
        self.report.notes += [n for n in dict.fromkeys(lines) if n and n not in self.report.notes]

    def frame(self, inputs: InputRequest, source: str, number: int) -> None:
        """Runs all stages on one set of inputs."""
        self.report.frames.append(printable(source))
        if self.job is not None:
            self._run_compiled(self.job, inputs, source, number)
            return
        prepared = prepared_inputs(inputs_only(self.floats[0]), inputs)
        self._add_inputs(prepared)
        self.from_float.add(prepared.arrays(), None, None)

    def _run_compiled(self, job: Job | CapturedJob, inputs: InputRequest, source: str, number: int) -> None:
        graph, request = job.models.graph, self.request
        prepared = job.prepared(inputs, number)
        ran, pull, unreached = job.record(prepared, self.watch)
        if unreached and isinstance(job, Job):  # later frames would only wait for the same timeout
            self._note(unreached)
            job.request = replace(job.request, board=None)
        if isinstance(job, Job):
            job.keep_frame(number, source, prepared, ran, pull)
        job.history.add(ran.recordings)
        how = self.request.dump or BoardDump("")
        for path in self.files.dumps:
            ran.recordings["dump"] = read_dump(replace(how, path=path), job.models, ran.recordings)
            check_dump_shapes(path, ran.recordings["dump"].specs, graph)
            self._note(*ran.recordings["dump"].notes)
        if len(ran.recordings) > 1:
            located: list[Located] = []
            report = make_report(job.models, prepared, ran, replace(self.options, frame=number), pull, located)
            if isinstance(job, Job) and job.has_runner:
                describe_runner(report, ran.recordings.get("board"), self.options)
            self.drawn_inputs.add(report, frame_row(number, source, report))
            times = max(request.repeat, 2 if report.verdict == "FAILED" else 1)  # twice before a failure is explained
            job.repeat(report, RunEvidence(prepared, ran, pull), times, self.watch)
            exact = simulated_exactly(located)
            evidence = NodeEvidence(ran.recordings, graph, prepared.arrays(), pull, exact=exact)
            if request.explain_s > 0:
                self._causes.add(report, evidence, number)
            self.main_verdicts.add(report)
            self.devices.add(report, located, graph)
            if isinstance(job, Job) and any(p.b == "board" and p.verdict == "FAILED" for p in report.pairs):
                self.failing = self.failing or replace(job.request, inputs=inputs, capture=None)
            self._explainer.frame(job, report, evidence, number, self.watch)
            self.report.explained = list(self._explainer.explained)
            self._add_run(report)
        else:
            self.report.models = list(job.models.rows)
            self._add_mistakes(graph, prepared)
        self._add_inputs(prepared)
        feed, finals = network_values(graph, prepared, ran)
        first = next((s for s in self.report.stages if s.kind in ("reference", "simulator", "board")), None)
        self.from_float.add(feed, first, finals)
        self._add_losses(feed, prepared, ran)
        if request.app_input is not None:
            self.application_rungs["input"] = make_input_rung(graph, prepared, inputs, request.app_input)
        if request.app_output is not None:
            device = [s for s in self.report.stages if s.kind in ("reference", "simulator", "board")][-1]
            gate = request.gates.get(f"{device.name}~application")
            self.application_rungs["output"] = make_output_rung(graph, ran, device, request.app_output, gate)
        job.disconnect_if_broken(ran)

    def finish_frames(self) -> None:
        """Makes the experiments that must come after the last frame."""
        self._explainer.finish(self.watch)
        self.report.explained = list(self._explainer.explained)

    def _add_run(self, report: ReportDocument) -> None:
        """Adds models, notes, caveats and timings of a frame's report to the report of triage."""
        self.report.take_run(report)
        self.report.findings += report.findings
        self._note(*report.notes, *report.caveats)
        self.report.caveats = list(dict.fromkeys([*self.report.caveats, *report.caveats]))
        self.report.drafts |= report.drafts
        for name, seconds in report.timings.items():
            self.report.timings[name] = self.report.timings.get(name, 0.0) + seconds

    def _add_mistakes(self, graph: Graph, prepared: PreparedInputs) -> None:
        """Adds the likely mistakes in a frame's inputs, for a frame without a report of the main job that states
        them."""
        for mistake in find_likely_mistakes(graph, prepared):
            self.report.caveats += [mistake.text] if mistake.text not in self.report.caveats else []
            self.report.drafts |= {mistake.input: mistake.draft} if mistake.draft else {}

    def add_draft(self, error: QVerifyError) -> None:
        """Adds the draft of an input description that an error proposes to the report, if it proposes one."""
        if isinstance(error, UndescribedError) and error.draft:
            self.report.drafts[error.input] = error.draft

    def _add_inputs(self, prepared: PreparedInputs) -> None:
        self.report.inputs += [
            {"name": i.spec.name, "source": printable(i.source), "sha256": i.sha256, "seed": i.seed}
            for i in prepared.inputs
        ]
        if any(i.seed is not None for i in prepared.inputs) and RANDOM not in self.report.unknown:
            self.report.unknown.append(RANDOM)

    def _add_losses(self, feed: Mapping[str, Array], prepared: PreparedInputs, ran: SideResults) -> None:
        if self.losses is not None and "reference" in ran.recordings:
            tensors = {**prepared.arrays(), **ran.recordings["reference"].tensors}
            self.losses.add(feed_network(self.losses.file, feed)[0], tensors)

    def conclude(self) -> TriageDocument:
        """Returns the report: the rungs in order, the first that fails, and what is not known. Call it once, after the
        last frame."""
        report, stages = self.report, {s.name: s for s in self.report.stages}
        judged = self.devices.rungs() | self.from_float.rungs()
        if "output" in self.application_rungs:
            judged[(self.application_rungs["output"].a, "application")] = self.application_rungs["output"]
        nothing = {k: Rung(*k, "", "INCONCLUSIVE", "coverage", "nothing was compared") for k in self._neighbours()}
        report.rungs = [judged.get(key, none) for key, none in nothing.items()]
        report.rungs += self._list_contradicted(report.rungs)
        report.main_job = self.main_verdicts.result()
        for rung in report.rungs:
            if f"{rung.a}~{rung.b}" in self.request.gates:
                rung.caveats.append(f"{rung.a} ~ {rung.b} judged by {rung.gate} (--gate)")
        self._explain(report.rungs, stages)
        report.quiet = quiet_outputs([row for rung in report.rungs for row in rung.outputs], report.losses)
        report.rungs = [
            *([self.application_rungs["input"]] if "input" in self.application_rungs else []),
            *report.rungs,
        ]
        for rung in report.rungs:
            if rung.verdict != "PASSED":
                culprits = self.losses.culprits(rung.kind) if self.losses is not None else []
                rung.next_step = advice(advice_key(stages, rung), rung.kind, culprits, reason(rung))
                if rung.kind in ("few", "few_clipped", "weights") and advice_key(stages, rung) == "quantized":
                    rung.next_step += self._quantize_command(culprits)
        report.verdict, report.input_drawings = worst([r.verdict for r in report.rungs]), self.drawn_inputs.worst()
        bad = next((r for r in report.rungs if r.verdict == report.verdict != "PASSED"), None)
        if bad is not None:
            report.broken = f"{bad.a} ~ {bad.b}" if bad.verdict == "FAILED" else None
            report.next_step = bad.next_step
        if self.job is not None:
            compiled = self.job.models.compiled
            saturated = compiled.saturated if compiled is not None else []
            weights = self.losses.clipped_weights.items() if self.losses is not None else ()
            report.findings += [Finding("constants", name, text) for name, text in [*saturated, *weights]]
            in_experiments = self._explainer.findings
            report.findings = [*(self.job.history.find_frozen(report.verdict) or in_experiments), *report.findings]
        self._list_unknown({s.kind for s in stages.values()})
        return report

    def _list_contradicted(self, rungs: list[Rung]) -> list[Rung]:
        """Returns the rungs of pairs that the main job does not pass although all these rungs pass: pairs that are no
        neighbours in the ladder. A gate that the user set on a rung of the board speaks for all pairs of the board."""
        if worst([r.verdict for r in rungs]) != "PASSED" or any(g.endswith("~board") for g in self.request.gates):
            return []
        known = {(r.a, r.b) for r in rungs}
        others = sorted(self.main_verdicts.not_passed() - known)
        return [rung for key in others if (rung := self.devices.rungs().get(key)) is not None]

    def _quantize_command(self, tensors: list[str]) -> str:
        """Returns `: COMMAND`, to end a next step with, or ""."""
        floats = [s for s in self.floats if s.stage.kind == "float"]
        command = quantize_command(floats[-1], tensors, self.request) if floats else ""
        return f": {command}" if command else ""

    def _explain(self, rungs: list[Rung], stages: Mapping[str, Stage]) -> None:
        """Adds evidence and losses to the rungs from float; the other rungs have their evidence already."""
        for rung in rungs:
            self.from_float.explain(rung)
        if self.losses is not None:
            self.losses.finish()
            self.report.findings += find_clipping(self.losses.clipped.items(), RANDOM in self.report.unknown)
        last = next((s.stage.name for s in reversed(self.floats) if s.stage.kind == "float"), "")
        for rung in rungs:
            if self.losses is not None and rung.a == last and stages[rung.b].kind != "float":
                self.losses.fail_clipped(rung, RANDOM in self.report.unknown)
            if RANDOM in self.report.unknown and rung.verdict == "FAILED" and advice_key(stages, rung) == "quantized":
                rung.verdict, rung.kind = "INCONCLUSIVE", "random"
        if self.losses is None:
            return
        lossy = [r for r in rungs if is_lossy(r, stages)]
        if self.request.loss == "always" or (lossy and self.request.loss == "auto"):
            self.losses.one_at_a_time(self.from_float.gate_below(last), self.watch)
            self.report.timings["loss"] = self.losses.duration_s
        for rung in lossy[:1]:
            self.losses.explain(rung)
        self.report.losses, self.report.what_if = self.losses.rows, self.losses.what_if

    def _list_unknown(self, kinds: set[str]) -> None:
        """Adds to the report what triage cannot know without further stages. kinds: the kinds of its stages."""
        unknown = []
        if "float" not in kinds:
            unknown.append(
                "no float ONNX: what quantization costs is not known, the ladder starts at the quantized one"
            )
        elif self.losses is None:
            unknown.append("no quantized ONNX: what each tensor's quantization costs is not known")
        if self.report.unpaired:
            text = count(len(self.report.unpaired), "quantized tensor", "has", "have")
            unknown.append(f"{text} no corresponding float tensor; the loss there is not known")
        if not kinds & {"board", "dump"}:
            unknown.append("no -b BOARD: what the device computes is not known")
        self.report.unknown += unknown
