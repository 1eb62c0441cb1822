"""Says of a node's output whether one factor makes what a side recorded of what another side computes."""

from __future__ import annotations

import numpy as np

from qverify.compare.error_bounds.bounded_values import Reals
from qverify.model_bin.units import Unit
from qverify.tensors.real_values import to_float64
from qverify.tensors.recording import Array
from qverify.tensors.spec import TensorSpec

MIN_SHARE = 0.98  # of the elements, that the factor must give
FEWEST = 8  # elements, of different values, that no rounding explains
NEAR = 2.0**-16  # relative, of floats
SLACK = 0.05  # LSB beyond the two roundings of an integer
LEAST = 2.0**-4  # a smaller factor leaves nothing to tell it by


def describe_multiple(made: Array, recorded: Array, spec: TensorSpec, unit: Unit) -> str:
    """Returns by which factor the recorded values are the computed ones, within the rounding of both, in words; "" if no
    factor but 1 gives them, or if an offset does."""
    if made.shape != recorded.shape or made.dtype != recorded.dtype or len(spec.zero_point) > 1:
        return ""
    whole = made.dtype.kind in "iu"
    zero = spec.zero_point[0] if whole and spec.zero_point else 0
    a, b = (to_float64(side.reshape(-1)) - zero for side in (made, recorded))
    used = np.isfinite(a) & np.isfinite(b)
    if whole:
        limits = np.iinfo(made.dtype.name)
        for side in (a + zero, b + zero):
            used &= (side > limits.min) & (side < limits.max)
    a, b = a[used], b[used]
    squares = float((a * a).sum())
    if not squares:
        return ""
    factor = float((a * b).sum()) / squares
    if abs(factor + 1) < SLACK:
        factor = -1.0
    if abs(factor) < LEAST:
        return ""
    off = _mark_off(a, b, 1.0, 0.0, whole)
    if np.unique(a[off]).size < FEWEST or _mark_off(a, b, factor, 0.0, whole).mean() > 1 - MIN_SHARE:
        return ""
    if _mark_off(a, b, 1.0, float(np.median(b - a)), whole).mean() <= 1 - MIN_SHARE:
        return ""
    if factor == -1.0:
        return "every value is the negative of the computed one: a sign, or the operands of a subtraction exchanged"
    cause = "a variance divided by n - 1" if _divides_by_one_less(factor, unit) else "a scale"
    return f"every value is {factor:.4g} times the computed one, within the rounding of both: {cause}"


def _divides_by_one_less(factor: float, unit: Unit) -> bool:
    """Returns whether the factor is that of a layer_norm of n elements whose variance is divided by n - 1."""
    depth = next((n.words[0] for n in unit.nodes if n.op == "layer_norm"), 0)
    return depth > 1 and abs(factor - float(np.sqrt((depth - 1) / depth))) < 1 / (8 * depth)


def _mark_off(a: Reals, b: Reals, factor: float, offset: float, whole: bool) -> Array:
    """Returns a mask of the elements that factor and offset do not give within the rounding of both sides."""
    room = 0.5 + 0.5 * abs(factor) + SLACK if whole else NEAR * np.abs(b)
    return np.asarray(np.abs(b - factor * a - offset) > room)
