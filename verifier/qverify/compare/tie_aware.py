"""The limit for a unit with float inside: two sides may differ only at elements where the exact value allows both
results."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from qverify import plural
from qverify.compare.error_bounds.bounded_values import Array, BoundedValue, NoBound, Real, Whole
from qverify.compare.error_bounds.chain import evaluate_unit, explain_missing_evaluation, is_stepwise
from qverify.compare.limits import Limit, float_inside, limit_for
from qverify.model_bin.graph import Graph
from qverify.model_bin.units import Unit
from qverify.report.document import Forced
from qverify.tensors.real_values import to_float64

LIMIT_OF_INTEGERS = "1 LSB within the derived error of a tie"
LIMIT_OF_FLOATS = "the derived error of both sides, at most 2^-18 of max|reference|"


@dataclass(frozen=True, slots=True)
class ExactUnit:
    """A unit to evaluate in float64.

    Attributes:
        unit, output, graph: the unit, the output to evaluate, and the graph.
        given: the inputs that one side recorded.
        made, recorded: all outputs of the reference, and of the other side, for a unit whose steps depend on them.
    """

    unit: Unit
    output: str
    graph: Graph
    given: Mapping[str, Array]
    made: Mapping[str, Array] = field(default_factory=dict)
    recorded: Mapping[str, Array] = field(default_factory=dict)

    def values(self, at: Array) -> Iterator[tuple[Array, BoundedValue, BoundedValue]]:
        """Yields, part by part, positions and the bounded values at these positions of the reference and of the other
        side."""
        if not is_stepwise(self.unit):
            for part, value in evaluate_unit(self.unit, self.output, self.graph, self.given, at):
                yield part, value, value
            return
        sides = [
            evaluate_unit(self.unit, self.output, self.graph, self.given, at, m) for m in (self.made, self.recorded)
        ]
        ((part, value_made),), ((_, value_recorded),) = sides  # a recurrence is evaluated in one part
        yield part, value_made, value_recorded


@dataclass(frozen=True, slots=True)
class TieAwareResult:
    """The result of comparing two arrays with exact values.

    Attributes:
        holds: whether every element is within its bound.
        limit: the limit that was applied.
        where: flat position of the first element beyond its bound, or None.
        lost: number of elements at which the reference is beyond the bound but means nothing, because its float32
            intermediates may overflow or underflow, while the recorded side is within the bound.
        reference_error: if the recorded side must be equal to the exact value rounded once, the distance from it that
            the reference may have (for integers in LSB); else None.
    """

    holds: bool
    limit: Limit
    where: int | None = None
    lost: int = 0
    reference_error: float | None = None


def choose_tie_aware_limit(limit: Limit, unit: Unit, output: str, graph: Graph) -> tuple[Limit, bool]:
    """Returns the limit before anything is evaluated, and whether it is tie-aware. Units without float inside keep
    their limit. Units without a float64 evaluation keep it, too, and the limit's text states this."""
    spec = graph.spec(output)
    floats = spec.numpy_dtype.kind == "f"
    if not floats and (not float_inside(unit) or not spec.quantized):
        return limit, False
    if why := explain_missing_evaluation(unit, graph):
        return _keep_limit(limit, why), False
    return (
        Limit(0, limit.share, LIMIT_OF_FLOATS) if floats else Limit(max(limit.lsb, 1), 0.0, LIMIT_OF_INTEGERS)
    ), True


class TieAwareLimits:
    """The limits of a graph's units, each chosen once."""

    def __init__(self, graph: Graph):
        self._graph = graph
        self._chosen: dict[str, tuple[Unit, tuple[Limit, bool]]] = {}

    def of(self, unit: Unit, output: str) -> tuple[Limit, bool]:
        """Returns choose_tie_aware_limit() of limit_for()."""
        known = self._chosen.get(output)
        if known is None or known[0] is not unit:
            limit = limit_for(unit, output, self._graph)
            known = self._chosen[output] = unit, choose_tie_aware_limit(limit, unit, output, self._graph)
        return known[1]


def _keep_limit(limit: Limit, why: str) -> Limit:
    """Returns the limit with the reason why it is not tie-aware in its text."""
    return Limit(limit.lsb, limit.share, f"{limit.text} ({why})")


def check_both(exact: ExactUnit, made: Array, recorded: Array, limit: Limit, plain: Limit) -> TieAwareResult | Limit:
    """Compares both arrays with the exact values, at the elements where they differ. Raises ValueError or IndexError
    for inputs that do not fit.

    Args:
        exact: the unit to evaluate.
        made: the output of the reference.
        recorded: the output of qverify's simulator or runtime.
        limit: the limit that tie_aware() returned.
        plain: the limit that limit_for() returned. It is returned, with the reason, if an op has no evaluation after
            all.
    """
    flat_made, flat_recorded = made.reshape(-1), recorded.reshape(-1)
    try:
        if flat_made.dtype.kind == "f":
            return _check_floats(exact, to_float64(flat_made), to_float64(flat_recorded), plain)
        return _check_integers(exact, flat_made.astype(np.int64), flat_recorded.astype(np.int64), limit)
    except NoBound as why:
        return _keep_limit(plain, f"no float64 evaluation of {why}")


def _check_integers(exact: ExactUnit, made: Array, recorded: Array, limit: Limit) -> TieAwareResult:
    """Checks that each integer is one to which the exact value may round. Where the recorded side must be equal to the
    exact value rounded once, it has a narrower interval than the reference."""
    differing = np.flatnonzero(made != recorded)
    eight = exact.graph.spec(exact.output).numpy_dtype.itemsize == 1
    largest, exactly, count = 0.0, False, 0
    for at, exact_value in evaluate_unit(exact.unit, exact.output, exact.graph, exact.given, differing):
        assert isinstance(exact_value, Whole)
        lost = np.zeros(at.shape, bool) if exact_value.lost is None else exact_value.lost
        if exact_value.error is not None:
            _check_bounded(exact, exact_value.error, (exact_value.low < exact_value.high) & ~lost)
            largest = max(largest, float(np.abs(exact_value.error).max(initial=0.0, where=~lost)))
        low, high = exact_value.ours if exact_value.ours is not None else (exact_value.low, exact_value.high)
        exactly = exact_value.ours is not None
        made_fits = (exact_value.low <= made[at]) & (made[at] <= exact_value.high)
        if eight:
            made_fits &= np.abs(made[at] - recorded[at]) <= 1
        inside = (made_fits | lost) & (low <= recorded[at]) & (recorded[at] <= high)
        if not inside.all():
            first = int(at[np.flatnonzero(~inside)[0]])
            far = eight and abs(int(made[first]) - int(recorded[first])) > 1
            return TieAwareResult(False, limit if far else _state_limit(largest, eight, exactly), first)
        count += int((lost & ~((low <= made[at]) & (made[at] <= high))).sum())
    return TieAwareResult(True, _state_limit(largest, eight, exactly), None, count, largest if exactly else None)


def _find_endless(made: Real, recorded: Real) -> Array:
    """Returns a mask of the elements at which the error of any float32 kernel has no limit, as that of a variance that
    cancels, and the error of qverify's own sides has one. The reference's value means as little there as a lost one."""
    if recorded.ours is None or recorded.mixed:
        return np.zeros(made.value.shape, bool)
    return np.isfinite(made.value) & ~np.isfinite(made.error) & np.isfinite(recorded.ours)


def _is_near(side: Array, value: Array, error: Array) -> Array:
    """Returns a mask of the elements at which a side is within the error of the exact value, or is the same infinity or
    NaN."""
    return (side == value) | (np.isnan(side) & np.isnan(value)) | (np.isfinite(value) & (np.abs(side - value) <= error))


def _check_bounded(exact: ExactUnit, error: Array, known: Array) -> None:
    """Raises NoBound if the error of a known value has no limit, because every result would be within it. known: mask
    of the elements whose value is known."""
    if count := int(np.count_nonzero(~np.isfinite(error) & known)):
        raise NoBound(f"{exact.unit.op} at {plural.count(count, 'element')}, whose error has no limit")


def _state_limit(error: float, eight: bool, exactly: bool) -> Limit:
    """Returns the limit that was applied to integers, with its text.

    Args:
        error: the largest error of a value before it is rounded, in LSB.
        eight: whether the tensor has 8 bits, for which 1 LSB is the maximum, however large the error is.
        exactly: whether the recorded side must be equal to the exact value rounded once, so that only the reference may
            be off by the error.
    """
    apart = 1 if eight else 1 + int(np.floor(min((1 if exactly else 2) * error, 2.0**17)))
    if apart == 1:
        return Limit(1, 0.0, f"1 LSB within {error:.2g} LSB of a tie (derived)")
    if exactly:
        return Limit(apart, 0.0, f"0 LSB from the exact value; the reference within {error:.3g} LSB of it (derived)")
    return Limit(apart, 0.0, f"{apart} LSB, both within {error:.3g} LSB of the exact value (derived)")


def _check_floats(exact: ExactUnit, made: Array, recorded: Array, plain: Limit) -> TieAwareResult:
    """Checks that the two sides differ by at most twice the bound of each element, or by 2^-18 of the largest value if
    that is less. Where the recorded side must be equal to the exact value rounded once, checks that it is, and that the
    reference is within its bound of the exact value."""
    with np.errstate(invalid="ignore", over="ignore"):
        differing = np.flatnonzero((made != recorded) & ~(np.isnan(made) & np.isnan(recorded)))
        finite = np.abs(made[np.isfinite(made)])
        most, largest, exactly, count = plain.share * float(finite.max(initial=0.0)), 0.0, False, 0
        for at, value_made, value_recorded in exact.values(differing):
            assert isinstance(value_made, Real) and isinstance(value_recorded, Real)
            lost = np.zeros(at.shape, bool) if value_made.lost is None else value_made.lost
            lost = lost | _find_endless(value_made, value_recorded)
            own_error = value_recorded.error if value_recorded.ours is None else value_recorded.ours
            rounded_once = np.full(at.shape, value_recorded.ours is not None) & ~lost
            if value_recorded.mixed:
                rounded_once &= own_error < value_recorded.error
            exactly = bool(rounded_once.any())
            _check_bounded(exact, value_made.error, np.isfinite(value_made.value) & rounded_once)
            allowed = np.where(rounded_once, value_made.error, np.fmin(2 * value_made.error, most))
            largest = max(largest, float(allowed.max(initial=0.0, where=~lost)))
            recorded_fits = _is_near(recorded[at], value_recorded.value, own_error)
            apart = np.abs(made[at] - recorded[at])
            made_fits = _is_near(made[at], value_made.value, allowed)
            both_fit = np.where(rounded_once, made_fits & recorded_fits, apart <= allowed)
            meaningless = lost & ~(apart <= 2 * own_error)
            inside = np.where(lost, recorded_fits, both_fit)
            if not inside.all():
                return TieAwareResult(False, _state_float_limit(largest, exactly), int(at[np.flatnonzero(~inside)[0]]))
            count += int(meaningless.sum())
    return TieAwareResult(True, _state_float_limit(largest, exactly), None, count, largest if exactly else None)


def _state_float_limit(allowed: float, exactly: bool) -> Limit:
    """Returns the limit that was applied to floats, with its text. exactly: as in _state_limit()."""
    if exactly:
        return Limit(0, 0.0, f"the exact value rounded once; the reference within {allowed:.2g} of it (derived)")
    return Limit(0, 0.0, f"up to {allowed:.2g}, the derived error of both sides or 2^-18 of max|reference|")


def conclude_ties(measured: Forced, outcome: TieAwareResult, shape: tuple[int, ...]) -> Forced:
    """Returns the measured distances with the verdict under the limit that was applied."""
    if outcome.holds:
        return replace(measured, verdict="PASSED", limit=outcome.limit.text, why="", not_judged=outcome.lost)
    at = "" if outcome.where is None else f" at {[int(i) for i in np.unravel_index(outcome.where, shape)]}"
    return replace(measured, verdict="FAILED", limit=outcome.limit.text, why=f"beyond {outcome.limit.text}{at}")
