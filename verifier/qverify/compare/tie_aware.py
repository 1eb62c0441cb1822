"""The limit of a unit with float inside: two sides may differ only where the exact value leaves both integers open."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from qverify.compare.error_bounds.bounded_values import Array, NoBound, Real, Whole
from qverify.compare.error_bounds.chain import evaluated, missing
from qverify.compare.limits import Limit, float_inside
from qverify.model_bin.graph import Graph
from qverify.model_bin.units import Unit

AT_A_TIE = "1 LSB within the derived error of a tie"
OF_BOTH = "the derived error of both sides, 2^-18 of max|reference| at most"


@dataclass(frozen=True, slots=True)
class ExactUnit:
    """A unit to be evaluated in float64. given: the inputs that one side recorded."""

    unit: Unit
    output: str
    graph: Graph
    given: Mapping[str, Array]


@dataclass(frozen=True, slots=True)
class TieAwareResult:
    """holds: every element within its bound. limit: as applied. where: the first element that is not, flat; None: all are, or too far off to look."""

    holds: bool
    limit: Limit
    where: int | None = None


def tie_aware(limit: Limit, unit: Unit, output: str, graph: Graph) -> tuple[Limit, bool]:
    """The limit as it is to be stated before anything is evaluated, and whether it is tie-aware. Units without float inside
    keep theirs, as do those without a float64 evaluation, which is said."""
    spec = graph.spec(output)
    floats = spec.numpy_dtype.kind == "f"
    if not floats and (not float_inside(unit) or not spec.quantized):
        return limit, False
    if why := missing(unit, graph):
        return _as_before(limit, why), False
    return (Limit(0, limit.share, OF_BOTH) if floats else Limit(max(limit.lsb, 1), 0.0, AT_A_TIE)), True


def _as_before(limit: Limit, why: str) -> Limit:
    return Limit(limit.lsb, limit.share, f"{limit.text} ({why})")


def check_both(exact: ExactUnit, made: Array, recorded: Array, limit: Limit, plain: Limit) -> TieAwareResult | Limit:
    """Both arrays against the exact values, elements in which they differ. made: by the reference; recorded: by our own
    simulator or runtime. limit: of tie_aware; plain: of limit_for, which is
    returned, saying why, where an op turns out to have no evaluation. ValueError, IndexError: of inputs that do not fit."""
    one, other = made.reshape(-1), recorded.reshape(-1)
    try:
        if one.dtype.kind == "f":
            return _floats(exact, one.astype(np.float64), other.astype(np.float64), plain)
        return _integers(exact, one.astype(np.int64), other.astype(np.int64), limit)
    except NoBound as why:
        return _as_before(plain, f"no float64 evaluation of {why}")


def _integers(exact: ExactUnit, one: Array, other: Array, limit: Limit) -> TieAwareResult:
    differ = np.flatnonzero(one != other)
    eight = exact.graph.spec(exact.output).numpy_dtype.itemsize == 1
    far = differ[np.abs(one[differ] - other[differ]) > 1] if eight else differ[:0]
    if len(far):
        return TieAwareResult(False, limit, int(far[0]))
    largest, exactly = 0.0, False
    for at, holds in evaluated(exact.unit, exact.output, exact.graph, exact.given, differ):
        assert isinstance(holds, Whole)
        if holds.error is not None:
            largest = max(largest, float(np.abs(holds.error).max(initial=0.0)))
        low, high = holds.ours if holds.ours is not None else (holds.low, holds.high)
        exactly = holds.ours is not None
        inside = (holds.low <= one[at]) & (one[at] <= holds.high) & (low <= other[at]) & (other[at] <= high)
        if not inside.all():
            return TieAwareResult(False, _stated(largest, eight, exactly), int(at[np.flatnonzero(~inside)[0]]))
    return TieAwareResult(True, _stated(largest, eight, exactly))


def _stated(error: float, eight: bool, exactly: bool) -> Limit:
    """error: of the value before it is rounded, LSB. eight: bits, where 1 LSB is the most whatever the error. exactly: the
    recorded side owes the exact value rounded once, the reference alone may be off by the error."""
    apart = 1 if eight else 1 + int(np.floor(min((1 if exactly else 2) * error, 2.0**17)))
    if apart == 1:
        return Limit(1, 0.0, f"1 LSB within {error:.2g} LSB of a tie (derived)")
    if exactly:
        return Limit(apart, 0.0, f"0 LSB from the exact value; the reference within {error:.3g} LSB of it (derived)")
    return Limit(apart, 0.0, f"{apart} LSB, both within {error:.3g} LSB of the exact value (derived)")


def _floats(exact: ExactUnit, one: Array, other: Array, plain: Limit) -> TieAwareResult:
    """Each element within twice its own bound, or 2^-18 of the largest where that is less."""
    with np.errstate(invalid="ignore", over="ignore"):
        differ = np.flatnonzero((one != other) & ~(np.isnan(one) & np.isnan(other)))
        finite = np.abs(one[np.isfinite(one)])
        most, largest = plain.share * float(finite.max(initial=0.0)), 0.0
        for at, holds in evaluated(exact.unit, exact.output, exact.graph, exact.given, differ):
            assert isinstance(holds, Real)
            allowed = np.fmin(2 * holds.error, most)
            largest = max(largest, float(allowed.max(initial=0.0)))
            inside = np.abs(one[at] - other[at]) <= allowed
            if not inside.all():
                return TieAwareResult(False, _of_both(largest), int(at[np.flatnonzero(~inside)[0]]))
    return TieAwareResult(True, _of_both(largest))


def _of_both(allowed: float) -> Limit:
    return Limit(0, 0.0, f"up to {allowed:.2g}, the derived error of both sides or 2^-18 of max|reference|")
