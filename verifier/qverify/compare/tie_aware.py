"""The limit of a unit with float inside: two sides may differ only where the exact value allows both integers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np

from qverify import plural
from qverify.compare.error_bounds.bounded_values import Array, Held, NoBound, Real, Whole
from qverify.compare.error_bounds.chain import evaluated, is_stepwise, missing
from qverify.compare.limits import Limit, float_inside
from qverify.model_bin.graph import Graph
from qverify.model_bin.units import Unit

AT_A_TIE = "1 LSB within the derived error of a tie"
OF_BOTH = "the derived error of both sides, at most 2^-18 of max|reference|"


@dataclass(frozen=True, slots=True)
class ExactUnit:
    """A unit to evaluate in float64. given: the inputs that one side recorded. made, recorded: all outputs of the
    reference and of the other side, for a unit whose steps depend on them."""

    unit: Unit
    output: str
    graph: Graph
    given: Mapping[str, Array]
    made: Mapping[str, Array] = field(default_factory=dict)
    recorded: Mapping[str, Array] = field(default_factory=dict)

    def values(self, at: Array) -> Iterator[tuple[Array, Held, Held]]:
        """Yields positions and the bounded values of the reference and of the other side there, in parts."""
        if not is_stepwise(self.unit):
            for part, value in evaluated(self.unit, self.output, self.graph, self.given, at):
                yield part, value, value
            return
        sides = [evaluated(self.unit, self.output, self.graph, self.given, at, m) for m in (self.made, self.recorded)]
        ((part, value),), ((_, other),) = sides  # a recurrence is evaluated in one part
        yield part, value, other


@dataclass(frozen=True, slots=True)
class TieAwareResult:
    """holds: every element is within its bound. limit: the limit as applied. where: flat position of the first element
    that is not; None where all are. lost: how many elements of the reference are not within it and mean nothing,
    because its float32 intermediates may overflow or underflow there; the recorded side is. reference_error: where
    the recorded side must have the exact value rounded once, how far the reference may be from it, of integers in LSB;
    else None."""

    holds: bool
    limit: Limit
    where: int | None = None
    lost: int = 0
    reference_error: float | None = None


def tie_aware(limit: Limit, unit: Unit, output: str, graph: Graph) -> tuple[Limit, bool]:
    """Returns the limit as stated before anything is evaluated, and whether it is tie-aware. Units without float inside
    keep their limit; so do those without a float64 evaluation, and the limit's text says so."""
    spec = graph.spec(output)
    floats = spec.numpy_dtype.kind == "f"
    if not floats and (not float_inside(unit) or not spec.quantized):
        return limit, False
    if why := missing(unit, graph):
        return _keep_limit(limit, why), False
    return (Limit(0, limit.share, OF_BOTH) if floats else Limit(max(limit.lsb, 1), 0.0, AT_A_TIE)), True


def _keep_limit(limit: Limit, why: str) -> Limit:
    return Limit(limit.lsb, limit.share, f"{limit.text} ({why})")


def check_both(exact: ExactUnit, made: Array, recorded: Array, limit: Limit, plain: Limit) -> TieAwareResult | Limit:
    """Compares both arrays with the exact values, at the elements where they differ. made: by the reference; recorded:
    by qverify's simulator or runtime. limit: from tie_aware. plain: from limit_for; it is returned, with the reason,
    where an op turns out to have no evaluation. ValueError, IndexError for inputs that do not fit."""
    one, other = made.reshape(-1), recorded.reshape(-1)
    try:
        if one.dtype.kind == "f":
            return _floats(exact, one.astype(np.float64), other.astype(np.float64), plain)
        return _integers(exact, one.astype(np.int64), other.astype(np.int64), limit)
    except NoBound as why:
        return _keep_limit(plain, f"no float64 evaluation of {why}")


def _integers(exact: ExactUnit, one: Array, other: Array, limit: Limit) -> TieAwareResult:
    differ = np.flatnonzero(one != other)
    eight = exact.graph.spec(exact.output).numpy_dtype.itemsize == 1
    largest, exactly, count = 0.0, False, 0
    for at, exact_value in evaluated(exact.unit, exact.output, exact.graph, exact.given, differ):
        assert isinstance(exact_value, Whole)
        lost = np.zeros(at.shape, bool) if exact_value.lost is None else exact_value.lost
        if exact_value.error is not None:
            _check_bounded(exact, exact_value.error, (exact_value.low < exact_value.high) & ~lost)
            largest = max(largest, float(np.abs(exact_value.error).max(initial=0.0, where=~lost)))
        low, high = exact_value.ours if exact_value.ours is not None else (exact_value.low, exact_value.high)
        exactly = exact_value.ours is not None
        right = (exact_value.low <= one[at]) & (one[at] <= exact_value.high)
        if eight:
            right &= np.abs(one[at] - other[at]) <= 1
        inside = (right | lost) & (low <= other[at]) & (other[at] <= high)
        if not inside.all():
            first = int(at[np.flatnonzero(~inside)[0]])
            far = eight and abs(int(one[first]) - int(other[first])) > 1
            return TieAwareResult(False, limit if far else _state_limit(largest, eight, exactly), first)
        count += int((lost & ~((low <= one[at]) & (one[at] <= high))).sum())
    return TieAwareResult(True, _state_limit(largest, eight, exactly), None, count, largest if exactly else None)


def _near(side: Array, value: Array, error: Array) -> Array:
    """Returns where a side is within the error of the exact value, or the same infinity or NaN."""
    return (side == value) | (np.isnan(side) & np.isnan(value)) | (np.isfinite(value) & (np.abs(side - value) <= error))


def _check_bounded(exact: ExactUnit, error: Array, known: Array) -> None:
    """Raises NoBound where the error of a known value has no limit: anything would be within it. known: where the value
    is a number, of which there may be more than one."""
    if count := int(np.count_nonzero(~np.isfinite(error) & known)):
        raise NoBound(f"{exact.unit.op} at {plural.count(count, 'element')}, whose error has no limit")


def _state_limit(error: float, eight: bool, exactly: bool) -> Limit:
    """Returns the limit that was applied, in words. error: of the value before it is rounded, LSB. eight: 8 bits, where
    1 LSB is the maximum whatever the error. exactly: the recorded side must have the exact value rounded once, and only
    the reference may be off by the error."""
    apart = 1 if eight else 1 + int(np.floor(min((1 if exactly else 2) * error, 2.0**17)))
    if apart == 1:
        return Limit(1, 0.0, f"1 LSB within {error:.2g} LSB of a tie (derived)")
    if exactly:
        return Limit(apart, 0.0, f"0 LSB from the exact value; the reference within {error:.3g} LSB of it (derived)")
    return Limit(apart, 0.0, f"{apart} LSB, both within {error:.3g} LSB of the exact value (derived)")


def _floats(exact: ExactUnit, one: Array, other: Array, plain: Limit) -> TieAwareResult:
    """Checks that each element is within twice its own bound, or 2^-18 of the largest where that is less; where the
    recorded side must have the exact value rounded once, that it has, and that the other is within its bound."""
    with np.errstate(invalid="ignore", over="ignore"):
        differ = np.flatnonzero((one != other) & ~(np.isnan(one) & np.isnan(other)))
        finite = np.abs(one[np.isfinite(one)])
        most, largest, exactly, count = plain.share * float(finite.max(initial=0.0)), 0.0, False, 0
        for at, exact_value, others in exact.values(differ):
            assert isinstance(exact_value, Real) and isinstance(others, Real)
            lost = np.zeros(at.shape, bool) if exact_value.lost is None else exact_value.lost
            own = others.error if others.ours is None else others.ours
            once = np.full(at.shape, others.ours is not None) & ~lost
            if others.mixed:
                once &= own < others.error
            exactly = bool(once.any())
            _check_bounded(exact, exact_value.error, np.isfinite(exact_value.value) & once)
            allowed = np.where(once, exact_value.error, np.fmin(2 * exact_value.error, most))
            largest = max(largest, float(allowed.max(initial=0.0, where=~lost)))
            held, apart = _near(other[at], others.value, own), np.abs(one[at] - other[at])
            right = np.where(once, _near(one[at], exact_value.value, allowed) & held, apart <= allowed)
            meaningless = lost & ~(apart <= 2 * own)
            inside = np.where(lost, held, right)
            if not inside.all():
                return TieAwareResult(False, _state_float_limit(largest, exactly), int(at[np.flatnonzero(~inside)[0]]))
            count += int(meaningless.sum())
    return TieAwareResult(True, _state_float_limit(largest, exactly), None, count, largest if exactly else None)


def _state_float_limit(allowed: float, exactly: bool) -> Limit:
    """Returns the limit that was applied, in words. exactly: as in _state_limit."""
    if exactly:
        return Limit(0, 0.0, f"the exact value rounded once; the reference within {allowed:.2g} of it (derived)")
    return Limit(0, 0.0, f"up to {allowed:.2g}, the derived error of both sides or 2^-18 of max|reference|")
