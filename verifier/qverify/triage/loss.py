"""What quantization costs: every paired tensor accumulated over frames, and the outputs when one tensor alone is quantized."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from qverify.model_bin.graph import Graph
from qverify.onnx_model.switched_model import Switch, Switched, Weights
from qverify.onnx_model.view import View, attributes
from qverify.report.triage_document import SingleTensorLoss, TensorLoss
from qverify.tensors.spec import TensorSpec
from qverify.triage.float_pairing import FloatPair, FloatPairs
from qverify.triage.ladder import Distance, real_spec
from qverify.triage.loudness import OutputStep

Array = npt.NDArray[Any]
LOST_DB = 20.0  # 8 bit per channel keeps 35 dB and more
MOST_RUNS = 400  # of the float model, for all tensors alone; fewer frames are used where there are many tensors
Frames = list[dict[str, Array]]  # inputs of the float model, frame by frame


@dataclass(slots=True)
class _One:
    """One pair over the frames. low, high: of the float values; outside: elements beyond the quantized range."""

    distance: Distance = field(default_factory=Distance)
    low: float = math.inf
    high: float = -math.inf
    outside: int = 0


class Losses:
    """add() once a frame with both sides' tensors; rows() in running order."""

    def __init__(self, paired: FloatPairs, floats: View, graph: Graph):
        self.paired, self.floats, self.graph = paired, floats, graph
        self._found = {p.tensor: _One() for p in paired.pairs}
        self._pair = {p.tensor: p for p in paired.pairs}

    def add(self, values: Iterable[tuple[str, Array]], quantized: Mapping[str, Array]) -> None:
        """values: of the float model, one after the other. A tensor the quantized side does not have counts as not seen."""
        for name, value in values:
            other = quantized.get(self._pair[name].quantized)
            if other is None or not value.size:
                continue
            spec, one = self.graph.spec(self._pair[name].quantized), self._found[name]
            one.distance.add(value, other, real_spec(name, value), spec)
            one.low, one.high = min(one.low, float(value.min())), max(one.high, float(value.max()))
            low, high = quantized_range(spec)
            half = float(max(spec.scale)) / 2
            one.outside += int(np.count_nonzero((value < low - half) | (value > high + half)))

    def rows(self) -> list[TensorLoss]:
        found: dict[str, TensorLoss] = {}
        for pair in self.paired.pairs:
            one = self._found[pair.tensor]
            if one.distance.elements:
                found[pair.tensor] = self._row(pair, one)
        for row in found.values():
            above = [found[n].sqnr_db for n in nearest(self.floats, row.tensor, found.keys())]
            row.drop_db = min(above) - row.sqnr_db if above and math.isfinite(min(above)) else None
        return list(found.values())

    def _row(self, pair: FloatPair, one: _One) -> TensorLoss:
        spec, distance = self.graph.spec(pair.quantized), one.distance
        low, high = quantized_range(spec)
        reached = max(min(one.high, high) - max(one.low, low), 0.0)
        weights = [
            (self._real(pair, at), value, self._axis(pair)) for at, value in pair.weights.items() if value.ndim > 1
        ]  # biases are int32
        return TensorLoss(
            pair.tensor,
            pair.quantized,
            pair.node,
            pair.op,
            pair.how,
            distance.metric("sqnr_db"),
            distance.metric("cosine"),
            distance.rmse,
            None,
            low,
            high,
            one.low,
            one.high,
            one.outside / distance.elements,
            reached / (high - low),
            OutputStep.of(spec).size,
            min((sqnr_db(a, b) for a, b, _ in weights), default=None),
            pair.one_scale,
            max((channels_lost(a, b, axis) for a, b, axis in weights), default=0.0),
        )

    def _axis(self, pair: FloatPair) -> int:
        """Of the output channels in the weights."""
        node = next(n for n in self.floats.nodes if n.name == pair.node)
        if node.op_type == "Conv" or (node.op_type == "Gemm" and attributes(node).get("transB")):
            return 0
        return 1 if node.op_type == "ConvTranspose" else -1

    def _real(self, pair: FloatPair, at: int) -> Array:
        node = next(n for n in self.floats.nodes if n.name == pair.node)
        return self.floats.constants[node.input[at]]


def sqnr_db(a: Array, b: Array) -> float:
    """10 log10(sum a^2 / sum (a-b)^2)."""
    signal, noise = float(np.square(a, dtype=np.float64).sum()), float(np.square(a - b, dtype=np.float64).sum())
    return math.inf if noise == 0 else -math.inf if signal == 0 else 10 * math.log10(signal / noise)


def channels_lost(a: Array, b: Array, axis: int) -> float:
    """Share of the channels along axis whose SQNR is below LOST_DB; channels that are all zero are whole."""
    one, other = np.moveaxis(a, axis, 0), np.moveaxis(b, axis, 0)
    found = [sqnr_db(x, y) for x, y in zip(one, other, strict=True)]
    return sum(x < LOST_DB for x in found) / max(len(found), 1)


def quantized_range(spec: TensorSpec) -> tuple[float, float]:
    """The real values between which the tensor's integers lie; of several channels the widest."""
    limits = np.iinfo(spec.numpy_dtype)  # type: ignore[type-var]
    scale, zero = np.array(spec.scale, np.float64), np.array(spec.zero_point, np.float64)
    return float(((limits.min - zero) * scale).min()), float(((limits.max - zero) * scale).max())


def nearest(view: View, tensor: str, known: Iterable[str]) -> list[str]:
    """The known tensors this one is computed from, with none of them in between."""
    wanted, found, seen = set(known), dict[str, None](), {tensor}
    todo = list(view.producer[tensor].input) if tensor in view.producer else []
    while todo:
        name = todo.pop(0)
        if name in seen or name in view.constants or not name:
            continue
        seen.add(name)
        if name in wanted:
            found[name] = None
        elif name in view.producer:
            todo += view.producer[name].input
    return list(found)


def make_switches(paired: FloatPairs, floats: View, graph: Graph) -> list[Switch]:
    """One a paired tensor, its maker's weights with it."""
    makers = {node.name: str(node.output[0]) for node in floats.nodes}
    found = []
    for pair in paired.pairs:
        spec = graph.spec(pair.quantized)
        weights = tuple(Weights(makers[pair.node], at, value) for at, value in pair.weights.items())
        zero = np.array(spec.zero_point, spec.numpy_dtype)
        found.append(Switch(pair.tensor, np.array(spec.scale, np.float32), zero, spec.channel_axis, weights))
    return found


@dataclass(frozen=True, slots=True)
class ExperimentResult:
    """The final outputs of some tensors quantized, against none. worst: of those a cosine can judge, if there is one; its
    cosine and SQNR. harm: what outcomes are compared by: its cosine, 1.0 where no output can be judged. mean: of all
    outputs; those that cannot be judged count as 1.0."""

    worst: str
    cosine: float
    sqnr_db: float
    harm: float
    mean: float


class Experiment:
    """Runs the switched model and measures its outputs against its own float run, over the frames. steps: of the quantized
    final outputs, by the float model's names: one that is quiet, too small or within half a step is no harm. runs: counted."""

    def __init__(self, switched: Switched, frames: Frames, steps: Mapping[str, OutputStep] | None = None):
        self.switched, self.frames, self.steps, self.runs = switched, frames, steps or {}, 0
        self._float = [self._run(f, ()) for f in frames]

    def _run(self, feed: dict[str, Array], on: Iterable[str]) -> dict[str, Array]:
        self.runs += 1
        return self.switched.run(feed, frozenset(on))

    def measure(self, on: Iterable[str]) -> ExperimentResult:
        """Quantized: the tensors of `on`."""
        distances: dict[str, Distance] = {}
        for feed, plain in zip(self.frames, self._float, strict=True):
            for name, value in self._run(feed, on).items():
                here = real_spec(name, value)
                distances.setdefault(name, Distance()).add(plain[name], value, here, here)
        cosines = {n: _number(d.metric("cosine")) for n, d in distances.items()}
        told = [n for n, d in distances.items() if d.judged(self.steps.get(n)) == "gate"]
        worst = min(told or cosines, key=lambda n: (cosines[n], n))
        mean = (sum(cosines[n] for n in told) + len(cosines) - len(told)) / len(cosines)
        return ExperimentResult(
            worst, cosines[worst], distances[worst].metric("sqnr_db"), cosines[worst] if told else 1.0, mean
        )


def _number(cosine: float) -> float:
    return -1.0 if math.isnan(cosine) else cosine


def quantize_one_at_a_time(
    experiment: Experiment, rows: list[TensorLoss], tell: Callable[[int, int], None] | None = None
) -> None:
    """Fills `single` of every row, and sorts the rows: what damages the worst output most comes first."""
    order = {}
    for at, row in enumerate(rows):
        found = experiment.measure([row.tensor])
        row.single = SingleTensorLoss(found.worst, found.cosine, found.sqnr_db)
        order[row.tensor] = (found.harm, found.mean, row.tensor)
        if tell is not None:
            tell(at + 1, len(rows))
    rows.sort(key=lambda r: order[r.tensor])


def loudest_frames(outputs: Sequence[Mapping[str, float]], most: int) -> list[int]:
    """Frames, at most so many, in order: first those that make the most outputs loud which no frame before did, then the
    first ones. outputs: of each frame, how loud each output is in steps of its scale."""
    chosen: list[int] = []
    silent = {n for n in (outputs[0] if outputs else {}) if any(one[n] >= 1 for one in outputs)}
    while silent and len(chosen) < most:
        best = max(range(len(outputs)), key=lambda at: (sum(outputs[at][n] >= 1 for n in silent), -at))
        chosen.append(best)
        silent -= {n for n in silent if outputs[best][n] >= 1}
    rest = [at for at in range(len(outputs)) if at not in chosen]
    return sorted((chosen + rest)[:most])
