"""Healthy boards, most of them different ones: other roundings, onnxruntime and LiteRT as the board. A forced blame is
an alarm."""

from __future__ import annotations

import json
import random
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np
import onnx
from qverify.onnx_model.exact_products import inexact_kernels
from qverify.report.document import ReportDocument
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
    """A run of a healthy board.

    alarm: the blame or the failing units, "" if there is no false alarm. differs: whether the board computed other
    bytes than the host sides.
    """

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
    """Runs healthy boards drawn by a seed. skipped: kinds of boards that cannot run here, with the reason."""

    seed: int
    subjects: list[Subject]
    skipped: dict[str, str] = field(default_factory=dict)
    _compiled: dict[tuple[str, str], Subject] = field(default_factory=dict)

    def run(self, number: int) -> Healthy:
        """Makes the healthy run of this number."""
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
        """Judges the LiteRT dumps stored with the models, each once."""
        runs = []
        for name in [s.name for s in self.subjects if s.name in GOLDEN]:
            for path in sorted((REAL / "golden").glob(f"{GOLDEN[name]}_tfl_*.npz")):
                subject = self._compiled_for(name, "tflite-single")
                with np.load(path) as arrays:
                    dump = {n: arrays[n] for n in arrays.files}
                spec = subject.graph.spec(subject.graph.inputs[0])
                item = PreparedInput(spec, spec.aligned_bytes(dump.pop("__input_float")), path.name)
                report = subject.judge(PreparedInputs((item,)), _recording(subject, "litert", dump))
                runs.append(_healthy(-1, "litert golden", subject, path.name, path.stem[-3:], report))
        return runs

    def _kinds(self) -> list[str]:
        """Returns the kinds of different boards that can run here."""
        if not any(s.name in TFLITE for s in self.subjects):
            self.skipped["litert"] = "none of these networks has a LiteRT file"
        elif _litert() is None:
            self.skipped["litert"] = "ai_edge_litert is not installed; only the dumps beside the models stand for it"
        if inexact_kernels():
            self.skipped["onnxruntime"] = (
                "its products of uint8 by int8 saturate on this processor: it is no healthy board"
            )
        return [k for k in DIFFERENT if k not in self.skipped]

    def _compiled_for(self, name: str, rounding: str) -> Subject:
        key = (name, rounding)
        if key not in self._compiled:
            plain = next(s for s in self.subjects if s.name == name)
            self._compiled[key] = Subject(name, plain.path, rounding)
        return self._compiled[key]

    def _same(self, rng: random.Random, subject: Subject, source: str) -> tuple[str, ReportDocument]:
        return "ref-exact", subject.run_board("local", subject.inputs(source))[0]

    def _rounding(self, rng: random.Random, subject: Subject, source: str) -> tuple[str, ReportDocument]:
        """Runs model.bin in another rounding mode: simulator and board have the same bits, onnxruntime is within 1 LSB
        forced."""
        mode = rng.choice(ROUNDINGS)
        compiled = self._compiled_for(subject.name, mode)
        return mode, compiled.run_board("local", compiled.inputs(source))[0]

    def _two(self, rng: random.Random, subject: Subject, source: str) -> tuple[str, ReportDocument]:
        """Board and simulator round in different modes, as if the board had another runtime: within 1 LSB forced."""
        host_mode, board_mode = rng.sample(ROUNDINGS, 2)
        board, host = self._compiled_for(subject.name, board_mode), self._compiled_for(subject.name, host_mode)
        prepared = board.inputs(source)
        simulated = board.host(prepared).recordings["simulator"]
        recording = _recording(host, board_mode, dict(simulated.tensors))
        return f"{board_mode} judged in {host_mode}", host.judge(prepared, recording)

    def _engine(self, rng: random.Random, subject: Subject, source: str) -> tuple[str, ReportDocument]:
        level, host = rng.choice(LEVELS), self._compiled_for(subject.name, "tflite-single")
        prepared = host.inputs(source)
        tensors = _onnxruntime(str(subject.path), level, prepared, tuple(host.graph.observable()))
        return level, host.judge(prepared, _recording(host, "onnxruntime", tensors))

    def _litert(self, rng: random.Random, subject: Subject, source: str) -> tuple[str, ReportDocument]:
        kernels, host = rng.choice(("reference", "optimised")), self._compiled_for(subject.name, "tflite-single")
        prepared = host.inputs(source)
        tensors = _litert_tensors(host, kernels, prepared)
        return kernels, host.judge(prepared, _recording(host, "litert", tensors))


def _healthy(number: int, kind: str, subject: Subject, source: str, how: str, report: ReportDocument) -> Healthy:
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
    """Returns the recording of a board that has these tensors of the graph. A float output that is missing is computed
    from its quantized values."""
    graph = subject.graph
    recorded = {
        n: v.reshape(graph.spec(n).shape)
        for n, v in tensors.items()
        if n in graph.tensors and v.dtype == graph.spec(n).dtype
    }
    run_unit = None
    for unit in subject.units:
        is_missing = (
            unit.name in graph.outputs and unit.name not in recorded and all(n in recorded for n in unit.inputs)
        )
        if is_missing and unit.op in ("dequantize", "reshape"):
            from qverify.sides.simulator import Simulator

            run_unit = run_unit or Simulator(graph).run_unit
            recorded |= run_unit(unit, {n: recorded[n] for n in unit.inputs})
    return Recording(
        "board",
        runtime,
        runtime=runtime,
        host=runtime,
        specs={n: graph.spec(n) for n in recorded},
        finals=graph.outputs,
        tensors=recorded,
        capabilities=frozenset({"finals", "per_node"}),
    )


@cache
def _session(path: str, level: str, wanted: tuple[str, ...]) -> Any:
    import onnxruntime as ort

    model = onnx.load(path)
    computed = {o for n in model.graph.node for o in n.output}
    existing = {o.name for o in model.graph.output}
    model.graph.output.extend(onnx.ValueInfoProto(name=n) for n in wanted if n in computed and n not in existing)
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
    interpreter = module.Interpreter(
        path, experimental_op_resolver_type=resolver, experimental_preserve_all_tensors=True, num_threads=1
    )
    interpreter.allocate_tensors()
    return interpreter


def _litert_tensors(subject: Subject, kernels: str, prepared: PreparedInputs) -> dict[str, Any]:
    """Returns every stored tensor that is in the map next to the ONNX file, in NCHW order."""
    engine = _interpreter(str(REAL / TFLITE[subject.name]), kernels)
    tensor_map = json.loads((subject.path.parent / f"{subject.path.name}.map.json").read_text())
    input_details = engine.get_input_details()[0]
    first = next(n for n, at in tensor_map.items() if at["tfl"] == input_details["index"])
    value = np.asarray(subject.host(prepared).recordings["simulator"].tensors[first])
    engine.set_tensor(input_details["index"], value.transpose(0, 2, 3, 1) if value.ndim == 4 else value)
    engine.invoke()
    stored = {n: engine.get_tensor(at["tfl"]) for n, at in tensor_map.items()}
    return {n: v.transpose(0, 3, 1, 2) if v.ndim == 4 else v for n, v in stored.items()}
