"""Reads tensors of two judged sides for the search of facts that the recorded values alone show, in real values or in
the stored integers that these stand for."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from qverify.arithmetic.functions64 import log2_of
from qverify.compare.judge import Judged
from qverify.compare.values import Values
from qverify.model_bin.graph import Graph
from qverify.tensors.real_values import to_float64
from qverify.tensors.recording import Array
from qverify.tensors.spec import TensorSpec

Real = npt.NDArray[np.float64]
MIN_VALUES = 8  # different values that a statement needs
MIN_BITS = 20.0  # of evidence: a chance of less than one in a million
MOST_TENSORS = 16  # tried in one pair
CLEAR = 6.0  # times nearer, on average, that values are which differ by rounding only


@dataclass(frozen=True, slots=True)
class Sides:
    """The values of one tensor. wanted: of side a. given: of side b, of any shape. step: one LSB, or 0 for floats."""

    wanted: Real
    given: Real
    step: float


def is_output(judged: Judged, graph: Graph | None, name: str) -> bool:
    """Returns whether a judged tensor is a final output, or what is dequantized to one, as far as is known."""
    if graph is None:
        return judged.rows[name].final
    stored = graph.stored()
    return name in graph.outputs or any(o in stored and stored[o].name == name for o in graph.outputs)


def read_sides(judged: Judged, graph: Graph | None, wanted: str, given: str) -> Sides | None:
    """Returns the values of side a under one name and of side b under another, in stored integers if both have the
    same type, else in real values; None if they are not there, not finite, or of no known scale."""
    a, b = find_value(judged.a, graph, judged.names[wanted].a)[0], find_value(judged.b, graph, judged.names[given].b)[0]
    if a is None or b is None or a.dtype != b.dtype or a.dtype.kind not in "iufb":
        return read_real(judged, graph, wanted, given)
    return _finite(to_float64(a), to_float64(b), 0.0 if a.dtype.kind == "f" else 1.0)


def read_real(judged: Judged, graph: Graph | None, wanted: str, given: str) -> Sides | None:
    """Returns real values as read_sides() does, also of stored integers of one type."""
    a, spec_a = find_value(judged.a, graph, judged.names[wanted].a)
    b, spec_b = find_value(judged.b, graph, judged.names[given].b)
    for value, spec in ((a, spec_a), (b, spec_b)):
        if value is None or value.dtype.kind not in "iufb" or not (spec.quantized or value.dtype.kind == "f"):
            return None
    if a is None or b is None or (len(spec_b.scale) > 1 and b.shape != spec_b.shape):
        return None
    step = float(max((*spec_a.scale, *spec_b.scale), default=0.0)) * (1 + 2.0**-20)
    return _finite(spec_a.dequantized(a), spec_b.dequantized(b), step)


def read_codes(judged: Judged, graph: Graph | None, wanted: str, given: str) -> Sides | None:
    """Returns the stored integers of side a under one name and of side b under another, each by the scale of its own
    name; those of real values are not rounded. None if they are not there, not finite, or of no known scale."""
    a = _codes(judged.a, graph, judged.names[wanted].a, quantization(judged, graph, wanted))
    b = _codes(judged.b, graph, judged.names[given].b, quantization(judged, graph, given))
    return _finite(a, b, 1.0) if a is not None and b is not None else None


def quantization(judged: Judged, graph: Graph | None, name: str) -> TensorSpec | None:
    """Returns the spec with the single scale of the integers that a judged tensor has or stands for: that of the graph, or
    else the one that a side states; None if there is none."""
    specs = [graph.stored().get(name), graph.tensors.get(name)] if graph is not None else []
    pair = judged.names[name]
    specs += [judged.b.recording.specs.get(pair.b), judged.a.recording.specs.get(pair.a)]
    return next((s for s in specs if s is not None and len(s.scale) == 1), None)


def find_value(side: Values, graph: Graph | None, name: str) -> tuple[Array | None, TensorSpec]:
    """Returns a tensor of a side, or None if it is not there, and its spec."""
    value = side.get_local(name)
    spec = side.recording.specs.get(name) or (graph.tensors.get(name) if graph is not None else None)
    if value is not None and (spec is None or spec.dtype != value.dtype.name):
        spec = TensorSpec(name, value.dtype.name, value.shape)
    return value, spec or TensorSpec(name, "float32", ())


def _codes(side: Values, graph: Graph | None, name: str, spec: TensorSpec | None) -> Real | None:
    value, _ = find_value(side, graph, name)
    if value is None or spec is None or value.dtype.kind not in "iuf":
        return None
    if value.dtype.kind == "f":
        return to_float64(value) / spec.scale[0] + (spec.zero_point[0] if spec.zero_point else 0)
    return to_float64(value) if value.dtype == spec.numpy_dtype else None


def _finite(a: Real, b: Real, step: float) -> Sides | None:
    usable = a.size and b.size and np.isfinite(a).all() and np.isfinite(b).all()
    return Sides(a, b, step) if usable else None


def average_deviation(values: Real) -> float:
    """Returns the average distance of the values from their median."""
    return float(np.mean(np.abs(values - np.median(values))))


def bits_of_a_match(wanted: Real, given: Real, tolerance: float) -> float:
    """Returns how many bits of evidence it is if one wanted element agrees with a given one that was drawn at
    random."""
    ordered = np.sort(given, axis=None)
    few = wanted[:: max(1, wanted.size // 4096)]
    below = np.searchsorted(ordered, few - tolerance, "left")
    share = float(np.mean(np.searchsorted(ordered, few + tolerance, "right") - below)) / max(len(ordered), 1)
    return -log2_of(min(1.0, max(share, 1 / max(len(ordered), 2))))


def at_least(number: int) -> str:
    """Returns the number in words, rounded down to a power of two, so that similar frames have the same words."""
    return f"at least {1 << (number.bit_length() - 1)}" if number else "0"
