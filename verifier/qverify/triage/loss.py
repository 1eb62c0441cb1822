"""The loss due to quantization: that of every paired tensor over all frames, and that of the final outputs if one
tensor alone is quantized."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from qverify.arithmetic.functions64 import log10_of
from qverify.model_bin.graph import Graph
from qverify.onnx_model.graph_view import GraphView, attributes
from qverify.onnx_model.switched_model import Switch, SwitchedModel, Weights
from qverify.report.triage_document import SingleTensorLoss, TensorLoss
from qverify.tensors.spec import TensorSpec
from qverify.triage.clipping import ClippedChannel, ClippingCount, describe_clipped_weights
from qverify.triage.float_pairing import FloatPair, FloatPairs
from qverify.triage.kept_range import ALL, Range, find_kept_range
from qverify.triage.ladder import Distance, real_spec
from qverify.triage.loudness import OutputStep

Array = npt.NDArray[Any]
LOST_DB = 20.0  # 8 bit per channel keeps 35 dB and more
MOST_RUNS = 400  # of the float model, for all tensors; with many tensors, fewer frames are used
Frames = list[dict[str, Array]]  # inputs of the float model, frame by frame


@dataclass(slots=True)
class _PairTotals:
    """Totals of one pair over the frames. low, high: smallest and largest float value. outside: number of elements
    beyond the quantized range. clipping: the clipped elements of each channel."""

    clipping: ClippingCount
    distance: Distance = field(default_factory=Distance)
    low: float = math.inf
    high: float = -math.inf
    outside: int = 0


class Losses:
    """Losses of all pairs: add() is called once per frame with both sides' tensors, and rows() returns the result."""

    def __init__(self, paired: FloatPairs, floats: GraphView, graph: Graph):
        self.paired, self.floats, self.graph = paired, floats, graph
        self._kept = {p.tensor: find_kept_range(floats, p.tensor) for p in paired.pairs}
        self._totals = {
            p.tensor: _PairTotals(ClippingCount(graph.spec(p.quantized), self._kept[p.tensor])) for p in paired.pairs
        }
        self._pair = {p.tensor: p for p in paired.pairs}

    def add(self, values: Iterable[tuple[str, Array]], quantized: Mapping[str, Array]) -> None:
        """Adds one frame. values: name and value of the float model's tensors, one by one. A tensor that is missing on
        the quantized side is not counted."""
        for name, value in values:
            quantized_value = quantized.get(self._pair[name].quantized)
            if quantized_value is None or not value.size:
                continue
            spec, totals = self.graph.spec(self._pair[name].quantized), self._totals[name]
            totals.low, totals.high = min(totals.low, float(value.min())), max(totals.high, float(value.max()))
            low, high = quantized_range(spec)
            totals.clipping.add(value, quantized_value)
            half = float(max(spec.scale)) / 2
            kept = np.clip(value, *self._kept[name])
            totals.outside += int(np.count_nonzero((kept < low - half) | (kept > high + half)))
            stored = _keep_stored(quantized_value, spec, self._kept[name])
            totals.distance.add(kept, stored, real_spec(name, kept), spec)

    def clipped(self) -> dict[str, list[ClippedChannel]]:
        """Returns the clipped channels of each tensor that has any, in running order, by the float model's names."""
        return {p.tensor: rows for p in self.paired.pairs if (rows := self._totals[p.tensor].clipping.worst())}

    def clipped_weights(self) -> dict[str, str]:
        """Returns the constants of weights whose float values go far beyond the quantized ones, with the fact in words."""
        found = {}
        for pair in self.paired.pairs:
            for at, value in pair.weights.items():
                node = next(n for n in self.floats.nodes if n.name == pair.node)
                if value.ndim > 1 and (
                    text := describe_clipped_weights(self._float_weights(pair, at), value, self._channel_axis(pair))
                ):
                    found[str(node.input[at])] = f"{node.input[at]} of {pair.node}: {text}"
        return found

    def rows(self) -> list[TensorLoss]:
        """Returns the loss of every tensor that was added, in running order."""
        losses: dict[str, TensorLoss] = {}
        for pair in self.paired.pairs:
            totals = self._totals[pair.tensor]
            if totals.distance.elements:
                losses[pair.tensor] = self._make_row(pair, totals)
        for row in losses.values():
            above = [losses[n].sqnr_db for n in nearest(self.floats, row.tensor, losses.keys())]
            row.drop_db = min(above) - row.sqnr_db if above and math.isfinite(min(above)) else None
        return list(losses.values())

    def _make_row(self, pair: FloatPair, totals: _PairTotals) -> TensorLoss:
        spec, distance = self.graph.spec(pair.quantized), totals.distance
        low, high = quantized_range(spec)
        reached = max(min(totals.high, high) - max(totals.low, low), 0.0)
        # Biases, which are int32, have one dimension and are left out.
        weights = [
            (self._float_weights(pair, at), value, self._channel_axis(pair))
            for at, value in pair.weights.items()
            if value.ndim > 1
        ]
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
            totals.low,
            totals.high,
            totals.outside / distance.elements,
            reached / (high - low),
            OutputStep.of(spec).size,
            min((sqnr_db(a, b) for a, b, _ in weights), default=None),
            pair.one_scale,
            max((channels_lost(a, b, axis) for a, b, axis in weights), default=0.0),
        )

    def _channel_axis(self, pair: FloatPair) -> int:
        """Returns the axis of the output channels in the weights."""
        node = next(n for n in self.floats.nodes if n.name == pair.node)
        if node.op_type == "Conv" or (node.op_type == "Gemm" and attributes(node).get("transB")):
            return 0
        return 1 if node.op_type == "ConvTranspose" else -1

    def _float_weights(self, pair: FloatPair, at: int) -> Array:
        node = next(n for n in self.floats.nodes if n.name == pair.node)
        return self.floats.constants[node.input[at]]


def sqnr_db(a: Array, b: Array) -> float:
    """Returns 10 log10(sum a^2 / sum (a-b)^2) in dB; inf if a is equal to b."""
    signal, noise = float(np.square(a, dtype=np.float64).sum()), float(np.square(a - b, dtype=np.float64).sum())
    return math.inf if noise == 0 else -math.inf if signal == 0 else 10 * log10_of(signal / noise)


def channels_lost(a: Array, b: Array, axis: int) -> float:
    """Returns the share, 0..1, of the channels along the axis that have an SQNR below LOST_DB."""
    channels_a, channels_b = np.moveaxis(a, axis, 0), np.moveaxis(b, axis, 0)
    ratios = [sqnr_db(x, y) for x, y in zip(channels_a, channels_b, strict=True)]
    return sum(x < LOST_DB for x in ratios) / max(len(ratios), 1)


def _keep_stored(quantized: Array, spec: TensorSpec, kept: Range) -> Array:
    """Returns the stored integers without what lies beyond the kept range."""
    if quantized.dtype.kind not in "iu" or kept == ALL:
        return quantized
    limits = np.iinfo(quantized.dtype)
    scale, zero = np.array(spec.scale, np.float64), np.array(spec.zero_point, np.float64)
    shape = [1] * quantized.ndim
    if scale.size > 1:
        shape[spec.channel_axis] = -1
    low, high = (
        np.clip(np.rint(end / scale + zero), limits.min, limits.max).astype(quantized.dtype).reshape(shape)
        for end in kept
    )
    return np.clip(quantized, low, high)


def quantized_range(spec: TensorSpec) -> tuple[float, float]:
    """Returns the lowest and highest real value that the tensor can represent in any of its channels."""
    limits = np.iinfo(spec.numpy_dtype)  # type: ignore[type-var]
    scale, zero = np.array(spec.scale, np.float64), np.array(spec.zero_point, np.float64)
    return float(((limits.min - zero) * scale).min()), float(((limits.max - zero) * scale).max())


def nearest(view: GraphView, tensor: str, known: Iterable[str]) -> list[str]:
    """Returns the nearest of the known tensors from which this one is computed."""
    targets, sources, visited = set(known), dict[str, None](), {tensor}
    todo = list(view.producer[tensor].input) if tensor in view.producer else []
    while todo:
        name = todo.pop(0)
        if name in visited or name in view.constants or not name:
            continue
        visited.add(name)
        if name in targets:
            sources[name] = None
        elif name in view.producer:
            todo += view.producer[name].input
    return list(sources)


def make_switches(paired: FloatPairs, floats: GraphView, graph: Graph) -> list[Switch]:
    """Returns one switch per paired tensor, which also switches the weights of the node that computes it."""
    makers = {node.name: str(node.output[0]) for node in floats.nodes}
    switches = []
    for pair in paired.pairs:
        spec = graph.spec(pair.quantized)
        weights = tuple(Weights(makers[pair.node], at, value) for at, value in pair.weights.items())
        zero = np.array(spec.zero_point, spec.numpy_dtype)
        switches.append(Switch(pair.tensor, np.array(spec.scale, np.float32), zero, spec.channel_axis, weights))
    return switches


@dataclass(frozen=True, slots=True)
class OutputLoss:
    """The loss of the final outputs with some tensors quantized, compared with none quantized.

    Attributes:
        worst: the worst output that a cosine can judge; the worst of all if there is none.
        cosine, sqnr_db: of that output.
        harm: the cosine by which results are ranked; 1.0 if no output can be judged.
        mean: the mean cosine of all outputs; those that cannot be judged count as 1.0.
    """

    worst: str
    cosine: float
    sqnr_db: float
    harm: float
    mean: float


class LossExperiment:
    """Runs the switched model over the frames and compares its outputs with those of its own float run.

    Attributes:
        steps: steps of the quantized final outputs, by the float model's names. An output that is quiet, too small or
            within half a step does no harm.
        runs: number of runs so far.
    """

    def __init__(self, switched: SwitchedModel, frames: Frames, steps: Mapping[str, OutputStep] | None = None):
        self.switched, self.frames, self.steps, self.runs = switched, frames, steps or {}, 0
        self._float = [self._run(f, ()) for f in frames]

    def _run(self, feed: dict[str, Array], on: Iterable[str]) -> dict[str, Array]:
        self.runs += 1
        return self.switched.run(feed, frozenset(on))

    def measure(self, on: Iterable[str]) -> OutputLoss:
        """Returns the loss of the outputs with the tensors of `on` quantized."""
        distances: dict[str, Distance] = {}
        for feed, plain in zip(self.frames, self._float, strict=True):
            for name, value in self._run(feed, on).items():
                spec = real_spec(name, value)
                distances.setdefault(name, Distance()).add(plain[name], value, spec, spec)
        cosines = {n: _nan_as_worst(d.metric("cosine")) for n, d in distances.items()}
        judged = [n for n, d in distances.items() if d.judged(self.steps.get(n)) == "gate"]
        worst = min(judged or cosines, key=lambda n: (cosines[n], n))
        mean = (sum(cosines[n] for n in judged) + len(cosines) - len(judged)) / len(cosines)
        return OutputLoss(
            worst, cosines[worst], distances[worst].metric("sqnr_db"), cosines[worst] if judged else 1.0, mean
        )


def _nan_as_worst(cosine: float) -> float:
    return -1.0 if math.isnan(cosine) else cosine


def quantize_one_at_a_time(
    experiment: LossExperiment, rows: list[TensorLoss], tell: Callable[[int, int], None] | None = None
) -> None:
    """Sets `single` of every row and sorts the rows in place: the tensor that damages the worst output most comes
    first. tell: is called with the number of tensors done and their total."""
    order = {}
    for at, row in enumerate(rows):
        result = experiment.measure([row.tensor])
        row.single = SingleTensorLoss(result.worst, result.cosine, result.sqnr_db)
        order[row.tensor] = (result.harm, result.mean, row.tensor)
        if tell is not None:
            tell(at + 1, len(rows))
    rows.sort(key=lambda r: order[r.tensor])


def loudest_frames(outputs: Sequence[Mapping[str, float]], most: int) -> list[int]:
    """Returns the indices of at most `most` frames, ascending: those that make the most further outputs loud, and then
    the first ones. outputs: for each frame, the largest value of each output in steps of its scale."""
    chosen: list[int] = []
    silent = {n for n in (outputs[0] if outputs else {}) if any(frame[n] >= 1 for frame in outputs)}
    while silent:
        best = max(range(len(outputs)), key=lambda at: (sum(outputs[at][n] >= 1 for n in silent), -at))
        chosen.append(best)
        silent -= {n for n in silent if outputs[best][n] >= 1}
    others = [at for at in range(len(outputs)) if at not in chosen]
    return sorted((chosen + others)[:most])
