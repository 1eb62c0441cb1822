"""The two scaled terms of an addition as its kernel reads them, for hypotheses that add them in another way."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from qverify import ops
from qverify.arithmetic.float32 import fma32
from qverify.triage.altered_kernels.variant_checks import operand
from qverify.triage.case import Case
from qverify.triage.pre_rounding import add_ratios

Array = npt.NDArray[Any]
Round = Callable[[Array], Array]
F = np.float32


@dataclass(frozen=True, slots=True)
class AdditionTerms:
    """The operands of an addition in the order in which the kernel reads them.

    Attributes:
        a, b: the stored integers.
        za, zb, zero: zero points of a, b and the output.
        ratios: scales of a and b divided by that of the output.
        folded: the constant that combines all zero points; 0 in the float64 form of the kernel.
        low, high: limits of the activation.
        exact: whether the kernel is in its float32 form.
        dtype: dtype of the output.
    """

    a: Array
    b: Array
    za: int
    zb: int
    zero: int
    ratios: tuple[float, float]
    folded: np.float32
    low: int
    high: int
    exact: bool
    dtype: str


def terms(case: Case) -> AdditionTerms | None:
    """Returns the terms of an addition, or None in the integer rounding modes and for a form of its own."""
    rq = case.graph.constants[case.last.inputs[2] or ""]
    if rq.dtype.kind != "f" or (rq.dtype == np.float64 and len(rq) == 3):
        return None
    words = ops.words(case.last)
    swap = bool(words["swap"]) and rq.dtype == np.float32
    names = [n or "" for n in case.last.inputs[:2]][:: -1 if swap else 1]
    a, b = np.broadcast_arrays(*(operand(case, n) for n in names))
    za, zb = (case.graph.spec(n).zero_point[0] for n in names)
    ratios = add_ratios(case)[:: -1 if swap else 1]
    exact = rq.dtype == np.float32
    if exact:
        ratios = np.array([float(rq[0]), float(rq[1])])
    return AdditionTerms(
        a, b, za, zb, case.spec.zero_point[0], (float(ratios[0]), float(ratios[1])),
        F(rq[2]) if exact else F(0), words["act_min"], words["act_max"], exact, case.spec.dtype,
    )  # fmt: skip


def terms_at(addition: AdditionTerms, case: Case, places: Array) -> AdditionTerms:
    """Returns the terms with the operands of some elements of the output only. places: their flat indices."""
    a, b = (np.broadcast_to(v, case.spec.shape).reshape(-1)[places] for v in (addition.a, addition.b))
    return replace(addition, a=a, b=b)


def compute_addition(case: Case, way: Callable[[AdditionTerms], Array]) -> Array:
    """Returns the output of an addition that is computed in this way from its terms."""
    addition = terms(case)
    assert addition is not None
    return np.ascontiguousarray(np.broadcast_to(way(addition), case.spec.shape))


def finish(addition: AdditionTerms, steps: Array, rounded: Round = np.rint) -> Array:
    """Returns the output from its real value in steps (zero point included)."""
    return np.clip(rounded(steps), addition.low, addition.high).astype(addition.dtype)


def centred(addition: AdditionTerms, dtype: type) -> tuple[Array, Array]:
    """Returns both operands without zero points, in output steps."""
    real_a: Array
    real_b: Array
    real_a, real_b = (
        (addition.a.astype(np.int64) - addition.za).astype(dtype),
        (addition.b.astype(np.int64) - addition.zb).astype(dtype),
    )
    return real_a * dtype(addition.ratios[0]), real_b * dtype(addition.ratios[1])


def f32(value: Any) -> Array:
    """Returns the value as a float32 array."""
    return np.asarray(value, np.float32)


def folded_sum(addition: AdditionTerms) -> Array:
    """Returns the healthy sum in output steps, zero point included, before it is rounded."""
    r1, r2 = addition.ratios
    if not addition.exact:
        return (
            (addition.a.astype(np.int64) - addition.za) * np.float64(r1)
            + (addition.b.astype(np.int64) - addition.zb) * np.float64(r2)
            + addition.zero
        )
    return fma32(addition.a.astype(F), f32(r1), fma32(addition.b.astype(F), f32(r2), f32(addition.folded)))
