"""Triage: every stage of the ladder once a frame, every rung judged, and where it breaks the evidence and the next step."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any, Literal

from qverify.compare.blame import first_divergence
from qverify.compare.forced import Located
from qverify.compare.options import Options
from qverify.compiler.view import View
from qverify.errors import UsageError
from qverify.inputs.sources import Asked, prepared_inputs
from qverify.model_bin.graph import Graph
from qverify.onnx_model.load import load
from qverify.onnx_model.switched import Switched
from qverify.renderers.json_file import printable
from qverify.report.document import Report, worst
from qverify.report.triage import Rung, Stage, Triage
from qverify.session.device_rungs import DeviceRungs, with_dump
from qverify.session.frames import sources
from qverify.session.stages import Files, Original, stage_files
from qverify.session.verify import Job, Ran, Request, Watch, judged
from qverify.sides.dump import dump
from qverify.sides.float_file import FloatFile
from qverify.tensors.prepared import PreparedInputs
from qverify.tensors.recording import Array
from qverify.tensors.spec import TensorSpec
from qverify.triage.advice import advice, loss_evidence, loss_kind
from qverify.triage.divergence import agreeing, first_of, pieces
from qverify.triage.float_pairing import Paired, pair_ends, pair_float
from qverify.triage.ladder import Gate, Outputs, bare, default_gate
from qverify.triage.loss import MOST_RUNS, Experiment, Losses, alone, switches
from qverify.triage.neighbourhood import neighbourhoods
from qverify.triage.what_if import what_if

Values = Mapping[str, tuple[Array, TensorSpec]]  # a stage's final outputs, by their names in the network


@dataclass(frozen=True, slots=True)
class TriageRequest:
    """What is asked. gates: by `A~B`. loss: when to quantize tensors one at a time. app_input, app_output: what the
    application fed and got (of one frame)."""

    models: list[str]
    stages: list[str] = field(default_factory=list)
    board: str | None = None
    run_sim: bool = True
    inputs: Asked = field(default_factory=Asked)
    gates: dict[str, Gate] = field(default_factory=dict)
    app_input: str | None = None
    app_output: str | None = None
    loss: Literal["auto", "always", "never"] = "auto"
    deadline_s: float = 120.0
    shapes: dict[str, tuple[int, ...]] = field(default_factory=dict)
    allow_other_model: bool = False
    reach: dict[str, str] = field(default_factory=dict)


def triage(request: TriageRequest, watch: Watch | None = None) -> Triage:
    """Raises QVerifyError (exit 2) for the user's mistakes. A board that cannot be reached leaves its rung INCONCLUSIVE."""
    start = time.perf_counter()
    ladder = Ladder(request, watch)
    try:
        for number, (files, source) in enumerate(_frames(request.inputs.files)):
            ladder.frame(replace(request.inputs, files=files), source, number)
    finally:
        ladder.close()
    found = ladder.conclude()
    found.timings["total"] = time.perf_counter() - start
    return found


def _frames(files: str | None) -> list[tuple[str | None, str]]:
    several = sources(files)
    return [(files, files or "random")] if several is None else [(path, name) for path, name in several]


class Ladder:
    """The stages, opened once; frame() runs them all on one set of inputs, conclude() judges what was added up."""

    def __init__(self, request: TriageRequest, watch: Watch | None = None):
        self.request, self.watch = request, watch
        self.files: Files = stage_files(request.models, request.stages, request.run_sim, request.board)
        self.report = Triage("INCONCLUSIVE", None, "")
        self.job = self._job()
        self.graph: Graph | None = None if self.job is None else self.job.models.graph
        self.devices = DeviceRungs(request.gates)
        self.originals = [_opened(o, request.shapes) for o in self.files.originals]
        if self.job is None and len(self.originals) < 2:
            raise UsageError("only one stage: give two float ONNX, or a quantized ONNX or a model.bin besides")
        self.paired: Paired | None = None
        self.losses: Losses | None = None
        self._pair()
        self.fed: list[dict[str, Array]] = []  # inputs of the float file, frame by frame
        self.outputs: dict[tuple[str, str], Outputs] = {}
        self.application: Outputs | None = None
        self.app_input: str | None = None
        self._stages()

    def _job(self) -> Job | None:
        asked = self.request
        if not self.files.models:
            if asked.board is not None or self.files.dumps:
                raise UsageError(
                    "-m names no quantized ONNX and no model.bin; a board or a dump has nothing to be held to"
                )
            return None
        several = bool(self.files.originals or self.files.dumps or asked.app_output)
        job = Job(
            Request(
                self.files.models,
                asked.board,
                self.files.run_sim,
                asked.inputs,
                Options(),
                asked.deadline_s,
                asked.shapes,
                asked.allow_other_model,
                reach=asked.reach,
            ),
            1 if several else 2,
        )
        return job

    def close(self) -> None:
        if self.job is not None:
            self.job.close()

    def _pair(self) -> None:
        """The last float file's tensors with those of the quantized ONNX."""
        files = [o for o in self.originals if isinstance(o.file, FloatFile) and o.stage.kind == "float"]
        models = self.job.models if self.job is not None else None
        if not files or models is None or models.original is None or self.graph is None:
            return
        name = next(r["path"] for r in models.rows if r["kind"] == "quant.onnx")
        folder = next(
            (os.path.dirname(os.path.abspath(p)) for p in self.files.models if os.path.basename(p) == name), ""
        )
        shapes = {k: tuple(v) for k, v in self.graph.meta.get("options", {}).get("shapes", {}).items()}
        view = View(load(models.original, name, folder, shapes), name)
        file = files[-1].file
        assert isinstance(file, FloatFile)
        self.paired = pair_float(file.view, view, self.graph)
        self.losses = Losses(self.paired, file.view, self.graph)
        self.floats = file
        self.report.unpaired, self.report.notes = self.paired.unpaired, list(self.paired.notes)

    def _stages(self) -> None:
        found = [o.stage for o in self.originals]
        names = {r["kind"]: r["path"] for r in self.job.models.rows} if self.job is not None else {}
        if self.job is not None and self.job.models.integer_onnx is not None:
            found.append(Stage("reference", "reference", names["quant.onnx"]))
        compiled = names.get("model.bin", "compiled in memory")
        found += [Stage("dump", "dump", os.path.basename(p)) for p in self.files.dumps]
        if self.job is not None and self.files.run_sim:
            found.append(Stage("simulator", "simulator", compiled))
        if self.request.board is not None:
            found.append(Stage("board", "board", self.request.board))
        if self.request.app_output is not None:
            found.append(Stage("application", "application", os.path.basename(self.request.app_output)))
        known = {f"{a}~{b}" for a, b in self._neighbours(found)}
        for gate in self.request.gates:
            if gate not in known:
                raise UsageError(f"--gate {gate}: no such rung; there are {', '.join(sorted(known)) or 'none'}")
        self.report.stages = found

    def _neighbours(self, stages: list[Stage]) -> list[tuple[str, str]]:
        """A dump of another runtime is held to the reference; what follows it, too."""
        chain = [s.name for s in stages if s.kind != "dump"]
        found = list(pairwise(chain))
        if any(s.kind == "dump" for s in stages):
            found.append(("reference", "dump"))
        return found

    def frame(self, inputs: Asked, source: str, number: int) -> None:
        self.report.frames.append(printable(source))
        if self.job is None:
            graph = _inputs_only(self.originals[0].file)
            prepared = prepared_inputs(graph, inputs)
            self._floats(dict(prepared.arrays()), None)
        else:
            self._compiled_frame(self.job, inputs, number)
            return
        self._described(prepared)

    def _compiled_frame(self, job: Job, inputs: Asked, number: int) -> None:
        graph = job.models.graph
        prepared = prepared_inputs(graph, inputs)
        ran, pull, unreached = job.record(prepared, self.watch)
        if unreached:
            self.report.notes.append(unreached)
        for path in self.files.dumps:
            ran.recordings["dump"] = with_dump(path, graph)
        sides = sum(r.state != "did not run" or True for r in ran.recordings.values())
        located: list[Located] = []
        if sides > 1:
            report = judged(job.models, prepared, ran, Options(frame=number), pull, located)
            self.devices.add(report, located, graph)
            self._said(report)
        self._described(prepared)
        feed, finals = _network(graph, prepared, ran)
        self._floats(feed, finals)
        if self.losses is not None and self.paired is not None and "reference" in ran.recordings:
            given = self._fed(self.floats, feed)
            held = {**prepared.arrays(), **ran.recordings["reference"].tensors}
            self.losses.add(self.floats.tensors(given, [p.tensor for p in self.paired.pairs]), held)
            self.fed.append(given)
        self._applications(graph, prepared, ran, inputs)
        job.refresh(ran)

    def _said(self, report: Report) -> None:
        self.report.models = report.models
        self.report.notes += [n for n in (*report.notes, *report.caveats) if n not in self.report.notes]
        for name, seconds in report.timings.items():
            self.report.timings[name] = self.report.timings.get(name, 0.0) + seconds

    def _described(self, prepared: PreparedInputs) -> None:
        self.report.inputs += [
            {"name": i.spec.name, "source": printable(i.source), "sha256": i.sha256, "seed": i.seed}
            for i in prepared.inputs
        ]
        random = "the inputs are random: what quantization costs on real ones is not known (-i)"
        if any(i.seed is not None for i in prepared.inputs) and random not in self.report.unknown:
            self.report.unknown.append(random)

    def _fed(self, file: FloatFile, feed: Mapping[str, Array]) -> dict[str, Array]:
        """The feed under this file's own input names."""
        names, note = pair_ends(
            list(feed), file.view.inputs, (lambda n: feed[n].shape, file.view.shape), f"inputs of {file.name}"
        )
        if note and note not in self.report.notes and not (self.paired and file is self.floats):
            self.report.notes.append(note)
        return {theirs: feed[mine] for mine, theirs in names.items()}

    def _floats(self, feed: Mapping[str, Array], finals: Values | None) -> None:
        """The stages before the reference, and the rungs up to it. finals: of the first compiled side."""
        before: tuple[Stage, Values] | None = None
        for one in self.originals:
            values = one.run(self._fed(one.file, feed) if isinstance(one.file, FloatFile) else {})
            if before is not None:
                self._rung(before, (one.stage, values))
            before = (one.stage, values)
        first = next((s for s in self.report.stages if s.kind in ("reference", "simulator", "board")), None)
        if before is not None and finals is not None and first is not None:
            self._rung(before, (first, finals))
        if self.job is None:
            self.fed.append(dict(feed))

    def _rung(self, one: tuple[Stage, Values], other: tuple[Stage, Values]) -> None:
        (a, values), (b, others) = one, other
        if (a.name, b.name) not in self.outputs:
            shape_a, shape_b = (lambda n: values[n][0].shape), (lambda n: others[n][0].shape)
            names, note = pair_ends(list(values), list(others), (shape_a, shape_b), f"outputs of {a.name} and {b.name}")
            gate = self.request.gates.get(f"{a.name}~{b.name}", default_gate(a.kind, b.kind))
            self.outputs[(a.name, b.name)] = Outputs(a.name, b.name, gate, names or dict.fromkeys(values, ""))
            self.report.notes += [note] if note and note not in self.report.notes else []
        self.outputs[(a.name, b.name)].add(values, others)

    def _applications(self, graph: Graph, prepared: PreparedInputs, ran: Ran, inputs: Asked) -> None:
        asked = self.request
        if (asked.app_output or asked.app_input) and len(self.report.frames) > 1:
            raise UsageError("--app-input and --app-output are of one frame; give one with -i")
        if asked.app_input is not None:
            got = prepared_inputs(graph, replace(inputs, files=asked.app_input))
            differ = [a.spec.name for a, b in zip(prepared.inputs, got.inputs, strict=True) if a.data != b.data]
            self.app_input = f"{', '.join(differ)}: other bytes than were prepared" if differ else ""
        if asked.app_output is not None:
            device = self.report.stages[-2]
            own = ran.recordings.get(device.name)
            if own is None:
                raise UsageError("--app-output: there is no side to hold it to")
            theirs = with_dump(asked.app_output, graph)
            wanted = list(graph.outputs)
            if not set(wanted) & theirs.tensors.keys():
                raise UsageError(
                    f"--app-output {asked.app_output}: holds none of the outputs {wanted}; its arrays must be named after them"
                )
            gate = asked.gates.get(f"{device.name}~application", default_gate(device.kind, "application"))
            self.application = Outputs(device.name, "application", gate, {n: n for n in wanted})
            self.application.add(
                {n: (own.tensors[n], graph.spec(n)) for n in wanted if n in own.tensors},
                {n: (theirs.tensors[n], theirs.specs[n]) for n in wanted if n in theirs.tensors},
            )

    def conclude(self) -> Triage:
        report = self.report
        rungs = [self._input_rung()] if self.app_input is not None else []
        by_name = {s.name: s for s in report.stages}
        made = {key: outputs.rung() for key, outputs in self.outputs.items()} | self.devices.rungs()
        for key in self._neighbours(report.stages):
            if key == (self.application.a, "application") if self.application else False:
                assert self.application is not None
                rungs.append(self.application.rung())
            elif key in made:
                rungs.append(made[key])
        report.rungs = rungs
        self._losses(rungs, by_name)
        self._float_divergence(rungs, by_name)
        for rung in rungs:
            if rung.verdict != "PASSED":
                rung.next_step = advice(_room(by_name, rung), rung.kind, self._named(rung), rung.why)
        report.verdict = worst([r.verdict for r in rungs])
        bad = next((r for r in rungs if r.verdict == report.verdict and r.verdict != "PASSED"), None)
        if bad is not None:
            report.broken = f"{bad.a} ~ {bad.b}" if bad.verdict == "FAILED" else None
            report.next_step = bad.next_step
        self._not_known(by_name)
        return report

    def _named(self, rung: Rung) -> list[str]:
        """The tensors the next step speaks of."""
        tested = self.report.what_if
        if rung.kind in ("few", "few_clipped") and tested is not None and tested.steps:
            return tested.steps[-1].tensors
        return [row.tensor for row in self.report.losses[:3] if row.single is not None]

    def _input_rung(self) -> Rung:
        wrong = self.app_input or ""
        return Rung(
            "inputs", "application's", "equal bytes", "FAILED" if wrong else "PASSED", "differ" if wrong else "", wrong
        )

    def _losses(self, rungs: list[Rung], stages: Mapping[str, Stage]) -> None:
        """Accumulated always; one tensor at a time, and what if, where the rung breaks (or --loss always)."""
        if self.losses is None or self.paired is None:
            return
        rows = self.losses.rows()
        self.report.losses = rows
        crossing = [r for r in rungs if stages.get(r.b, _NONE).kind in ("reference", "fake-quantized", "simulator")]
        broken = next(
            (r for r in crossing if r.verdict == "FAILED" and stages[r.a].kind in ("float", "fake-quantized")), None
        )
        if self.request.loss == "never" or (broken is None and self.request.loss == "auto") or not rows:
            return
        start = time.perf_counter()
        frames = self.fed[: max(1, MOST_RUNS // (len(rows) + 1))]
        experiment = Experiment(
            Switched(self.floats.model, switches(self.paired, self.floats.view, self.losses.graph)), frames
        )
        alone(experiment, rows, self._tell("one tensor at a time"))
        gate = next((o.gate for (_, b), o in self.outputs.items() if b == "reference"), Gate("cosine", 0.75))
        self.report.what_if = what_if(experiment, [r.tensor for r in rows], gate, self._tell("what if"))
        self.report.timings["loss"] = time.perf_counter() - start
        if broken is not None:
            broken.kind = loss_kind(rows, self.report.what_if, self.floats.view.inputs)
            broken.evidence += loss_evidence(rows, broken.kind)

    def _tell(self, name: str) -> Any:
        return None if self.watch is None else lambda done, total: self.watch(name, done, total)

    def _float_divergence(self, rungs: list[Rung], stages: Mapping[str, Stage]) -> None:
        """Of two float files that differ: first divergence over the graph, on the first frame."""
        files = {o.stage.name: o.file for o in self.originals if isinstance(o.file, FloatFile)}
        for rung in rungs:
            if (
                rung.verdict != "FAILED"
                or rung.a not in files
                or stages.get(rung.b, _NONE).kind != "float"
                or not self.fed
            ):
                continue
            one, other = files[rung.a], files[rung.b]
            common = [n for n in one.view.producer if n in other.view.producer and n not in other.view.constants]
            values = [dict(f.tensors(self._fed(f, self.fed[0]), common)) for f in (one, other)]
            known = agreeing(*values)
            parts = pieces(other.view, known)
            first = first_divergence(parts, lambda n, known=known: known.get(n, True))  # type: ignore[misc]
            if first is not None:
                rung.first_divergence = first_of(parts, [first.node, *first.also])
                inputs = tuple(other.view.inputs)
                rung.neighbourhoods = neighbourhoods(parts, inputs, known.get, {}, [first.node, *first.also])

    def _not_known(self, stages: Mapping[str, Stage]) -> None:
        unknown = self.report.unknown
        kinds = {s.kind for s in stages.values()}
        if "float" not in kinds:
            unknown.append(
                "no float ONNX in -m: what quantization costs is not known; the ladder starts at the quantized model"
            )
        elif self.losses is None:
            unknown.append("no quantized ONNX in -m: what each tensor's quantization costs is not known")
        if self.report.unpaired:
            unknown.append(
                f"{len(self.report.unpaired)} quantized tensors have no float tensor of their own; their loss is not known"
            )
        if not kinds & {"board", "dump"}:
            unknown.append("no -b BOARD: what the device computes is not known")


_NONE = Stage("", "", "")


def _room(stages: Mapping[str, Stage], rung: Rung) -> str:
    """What the upper stage is, as advice names it."""
    if rung.a == "inputs":
        return "inputs"
    kind = stages[rung.b].kind
    if kind == "simulator" and stages[rung.a].kind == "float":
        return "quantized"
    return {"reference": "quantized", "fake-quantized": "quantized", "simulator": "integer"}.get(kind, kind)


@dataclass(slots=True)
class Opened:
    """An original stage that can be run: an ONNX file, or the arrays somebody dumped."""

    stage: Stage
    file: FloatFile | dict[str, Array]

    def run(self, feed: Mapping[str, Array]) -> Values:
        values = self.file.run(feed) if isinstance(self.file, FloatFile) else self.file
        return {n: (v, bare(n, v)) for n, v in values.items()}


def _opened(original: Original, shapes: dict[str, tuple[int, ...]]) -> Opened:
    if not original.data:
        return Opened(original.stage, dict(dump(original.path, "dump").tensors))
    folder = os.path.dirname(os.path.abspath(original.path))
    return Opened(original.stage, FloatFile(original.data, original.stage.source, folder, shapes))


def _inputs_only(file: FloatFile | dict[str, Array]) -> Graph:
    """What prepared_inputs asks of a graph, for a ladder of float files alone."""
    if not isinstance(file, FloatFile):
        raise UsageError("a ladder of dumps alone has nothing to run; `qverify compare` holds two against each other")
    specs = {n: TensorSpec(n, file.view.dtype(n), file.view.shape(n)) for n in file.view.inputs}
    return Graph([], specs, {}, tuple(specs), ())


def _network(graph: Graph, prepared: PreparedInputs, ran: Ran) -> tuple[dict[str, Array], Values]:
    """Inputs of the network as float values, and the final outputs of the first side that computed them."""
    ends = graph.meta.get("stripped", {"inputs": {}, "outputs": {}})
    first = next((ran.recordings[s] for s in ("reference", "simulator", "board") if s in ran.recordings), None)
    made = dict(first.tensors) if first is not None and "reference" in ran.recordings else {}
    names = [r for r in graph.meta.get("inputs", {})]
    feed: dict[str, Array] = {}
    for name in [*graph.inputs, *names]:
        value = made.get(name, prepared.arrays().get(name))
        if value is not None and not _is_fed_bytes(graph, name):
            spec = graph.spec(name)
            real = ends["inputs"].get(name, name)
            feed[real] = spec.dequantized(value).astype("float32") if name in ends["inputs"] else value
    finals = {
        ends["outputs"].get(n, n): (first.tensors[n], graph.spec(n))
        for n in graph.outputs
        if first is not None and n in first.tensors
    }
    return feed, finals


def _is_fed_bytes(graph: Graph, name: str) -> bool:
    """A graph input that preprocessing nodes read: bytes of a picture, or its roi."""
    rows = graph.meta.get("inputs", {})
    return any(name in (row.get("tensor"), row.get("roi")) and name != real for real, row in rows.items())
