"""Healthy boards, most of them different ones: other roundings, onnxruntime and LiteRT as the board. A forced blame is an alarm."""

from __future__ import annotations

import json
import random
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np
import onnx
from qverify.onnx_model.exact_products import inexact_kernels
from qverify.report.document import Report
from qverify.tensors.prepared import PreparedInput, PreparedInputs
from qverify.tensors.recording import Recording

from benchmarks.detection_subjects import REAL, Subject

# The scale itself is another one in the pow2 modes: a board of these is not healthy for a network with free scales.
ROUNDINGS = ("tflite-single", "gemmlowp", "cmsis", "mul8", "mul15", "mul16", "mul24", "mul31")
LEVELS = ("DISABLE_ALL", "ENABLE_BASIC", "ENABLE_EXTENDED", "ENABLE_ALL")
SAME, DIFFERENT = "same arithmetic", ("other rounding", "two roundings", "onnxruntime", "litert")
TFLITE = {
    "ad_toycar_tfl": "ad_toycar/ad_toycar_int8.tflite",
    "kws_tfl": "kws_mlperf_int8/kws_mlperf_int8.tflite",
    "resnet8_tfl": "resnet8_cifar10/resnet8_cifar10_int8.tflite",
    "vww_tfl": "vww_96/vww_96_int8.tflite",
    "mbv1_025_128_qat": "mbv1_025_128_qat/mbv1_025_128_qat.tflite",
}
GOLDEN = {
    "ad_toycar_tfl": "ad_toycar",
    "kws_tfl": "kws_mlperf_int8",
    "resnet8_tfl": "resnet8_cifar10",
    "vww_tfl": "vww_96",
}


@dataclass(slots=True)
class Healthy:
    """alarm: a blame, or a unit that fails forced though the gate holds. differs: the boards gave other bytes."""

    number: int
    kind: str
    subject: str
    source: str
    how: str
    verdict: str
    differs: bool
    alarm: str

    def __str__(self) -> str:
        return f"--healthy-run {self.number}: {self.kind}, {self.subject} on {self.source}, {self.how}: {self.verdict} {self.alarm}"


@dataclass(slots=True)
class Fleet:
    seed: int
    subjects: list[Subject]
    skipped: dict[str, str] = field(default_factory=dict)
    _compiled: dict[tuple[str, str], Subject] = field(default_factory=dict)

    def run(self, number: int) -> Healthy:
        rng = random.Random(f"{self.seed} healthy {number}")
        kind = SAME if number % 5 < 2 else rng.choice(self._kinds())
        fitting = [s for s in self.subjects if kind != "litert" or s.name in TFLITE]
        subject = rng.choice(fitting)
        source = rng.choice(subject.sources(12))
        runs = {
            SAME: self._same,
            "other rounding": self._rounding,
            "two roundings": self._two,
            "onnxruntime": self._engine,
            "litert": self._litert,
        }
        how, report = runs[kind](rng, subject, source)
        return _healthy(number, kind, subject, source, how, report)

    def golden(self) -> list[Healthy]:
        """The LiteRT dumps that lie beside the models, each once."""
        found = []
        for name in [s.name for s in self.subjects if s.name in GOLDEN]:
            for path in sorted((REAL / "golden").glob(f"{GOLDEN[name]}_tfl_*.npz")):
                subject = self._in(name, "tflite-single")
                with np.load(path) as held:
                    dump = {n: held[n] for n in held.files}
                spec = subject.graph.spec(subject.graph.inputs[0])
                item = PreparedInput(spec, spec.aligned_bytes(dump.pop("__input_float")), path.name)
                report = subject.judge(PreparedInputs((item,)), _recording(subject, "litert", dump))
                found.append(_healthy(-1, "litert golden", subject, path.name, path.stem[-3:], report))
        return found

    def _kinds(self) -> list[str]:
        if not any(s.name in TFLITE for s in self.subjects):
            self.skipped["litert"] = "none of these networks has a LiteRT file"
        elif _litert() is None:
            self.skipped["litert"] = "ai_edge_litert is not installed; only the dumps beside the models stand for it"
        if inexact_kernels():
            self.skipped["onnxruntime"] = (
                "its products of uint8 by int8 saturate on this processor: it is no healthy board"
            )
        return [k for k in DIFFERENT if k not in self.skipped]

    def _in(self, name: str, rounding: str) -> Subject:
        key = (name, rounding)
        if key not in self._compiled:
            plain = next(s for s in self.subjects if s.name == name)
            self._compiled[key] = Subject(name, plain.path, rounding)
        return self._compiled[key]

    def _same(self, rng: random.Random, subject: Subject, source: str) -> tuple[str, Report]:
        return "ref-exact", subject.on("local", subject.inputs(source))[0]

    def _rounding(self, rng: random.Random, subject: Subject, source: str) -> tuple[str, Report]:
        """model.bin in another mode: simulator and board agree in bits, onnxruntime is within 1 LSB forced."""
        mode = rng.choice(ROUNDINGS)
        return mode, (other := self._in(subject.name, mode)).on("local", other.inputs(source))[0]

    def _two(self, rng: random.Random, subject: Subject, source: str) -> tuple[str, Report]:
        """The board rounds in one mode, the simulator in another: a board of another runtime, within 1 LSB forced."""
        here, there = rng.sample(ROUNDINGS, 2)
        board, host = self._in(subject.name, there), self._in(subject.name, here)
        prepared = board.inputs(source)
        made = board.host(prepared).recordings["simulator"]
        return f"{there} judged in {here}", host.judge(prepared, _recording(host, there, dict(made.tensors)))

    def _engine(self, rng: random.Random, subject: Subject, source: str) -> tuple[str, Report]:
        level, host = rng.choice(LEVELS), self._in(subject.name, "tflite-single")
        prepared = host.inputs(source)
        tensors = _onnxruntime(str(subject.path), level, prepared, tuple(host.graph.observable()))
        return level, host.judge(prepared, _recording(host, "onnxruntime", tensors))

    def _litert(self, rng: random.Random, subject: Subject, source: str) -> tuple[str, Report]:
        kernels, host = rng.choice(("reference", "optimised")), self._in(subject.name, "tflite-single")
        prepared = host.inputs(source)
        tensors = _litert_tensors(host, kernels, prepared)
        return kernels, host.judge(prepared, _recording(host, "litert", tensors))


def _healthy(number: int, kind: str, subject: Subject, source: str, how: str, report: Report) -> Healthy:
    forced = [
        f"{p.a}/{p.b} {t.node}: {t.forced.why}"
        for p in report.pairs
        if p.b == "board"
        for t in p.tensors
        if t.forced is not None and t.forced.verdict == "FAILED"
    ]
    alarm = (
        f"blamed {report.blame.side} {report.blame.node}: {report.blame.why}" if report.blame else "; ".join(forced[:3])
    )
    differs = any(not p.bit_equal for p in report.pairs if p.b == "board")
    return Healthy(number, kind, subject.name, source, how, report.verdict, differs, alarm)


def _recording(subject: Subject, runtime: str, tensors: dict[str, Any]) -> Recording:
    """A board that offers what of the graph's tensors it has; a float output is what its stored values stand for."""
    graph = subject.graph
    held = {
        n: v.reshape(graph.spec(n).shape)
        for n, v in tensors.items()
        if n in graph.tensors and v.dtype == graph.spec(n).dtype
    }
    run_unit = None
    for unit in subject.units:
        lacking = unit.name in graph.outputs and unit.name not in held and all(n in held for n in unit.inputs)
        if lacking and unit.op in ("dequantize", "reshape"):
            from qverify.sides.simulator import Simulator

            run_unit = run_unit or Simulator(graph).run_unit
            held |= run_unit(unit, {n: held[n] for n in unit.inputs})
    return Recording(
        "board",
        runtime,
        runtime=runtime,
        host=runtime,
        specs={n: graph.spec(n) for n in held},
        finals=graph.outputs,
        tensors=held,
        capabilities=frozenset({"finals", "per_node"}),
    )


@cache
def _session(path: str, level: str, wanted: tuple[str, ...]) -> Any:
    import onnxruntime as ort

    model = onnx.load(path)
    made = {o for n in model.graph.node for o in n.output}
    have = {o.name for o in model.graph.output}
    model.graph.output.extend(onnx.ValueInfoProto(name=n) for n in wanted if n in made and n not in have)
    options = ort.SessionOptions()
    options.log_severity_level, options.intra_op_num_threads = 3, 1
    options.graph_optimization_level = getattr(ort.GraphOptimizationLevel, f"ORT_{level}")
    return ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])


def _onnxruntime(path: str, level: str, prepared: PreparedInputs, wanted: tuple[str, ...]) -> dict[str, Any]:
    session = _session(path, level, wanted)
    outputs = [o.name for o in session.get_outputs()]
    return dict(zip(outputs, session.run(outputs, prepared.arrays()), strict=True))


@cache
def _litert() -> Any:
    try:
        from ai_edge_litert import interpreter
    except ImportError:
        return None
    return interpreter


@cache
def _interpreter(path: str, kernels: str) -> Any:
    module = _litert()
    kinds = module.OpResolverType
    resolver = kinds.BUILTIN_REF if kernels == "reference" else kinds.BUILTIN_WITHOUT_DEFAULT_DELEGATES
    made = module.Interpreter(
        path, experimental_op_resolver_type=resolver, experimental_preserve_all_tensors=True, num_threads=1
    )
    made.allocate_tensors()
    return made


def _litert_tensors(subject: Subject, kernels: str, prepared: PreparedInputs) -> dict[str, Any]:
    """Every stored tensor that the map beside the ONNX knows, in its NCHW order."""
    engine = _interpreter(str(REAL / TFLITE[subject.name]), kernels)
    known = json.loads((subject.path.parent / f"{subject.path.name}.map.json").read_text())
    given = engine.get_input_details()[0]
    first = next(n for n, at in known.items() if at["tfl"] == given["index"])
    value = np.asarray(subject.host(prepared).recordings["simulator"].tensors[first])
    engine.set_tensor(given["index"], value.transpose(0, 2, 3, 1) if value.ndim == 4 else value)
    engine.invoke()
    found = {n: engine.get_tensor(at["tfl"]) for n, at in known.items()}
    return {n: v.transpose(0, 3, 1, 2) if v.ndim == 4 else v for n, v in found.items()}
