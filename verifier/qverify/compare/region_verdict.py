"""Judges a region that was recomputed as one. The roundings inside of it, which nothing shows, are carried to its
output; what they do not allow is a finding."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np

from qverify.compare.error_bounds import inner_tensors
from qverify.compare.error_bounds.bounded_values import Array, NoBound, Real, round_interval
from qverify.compare.error_bounds.inner_tensors import NEAR_TIE, Rule, Steps, keep_some
from qverify.compare.error_bounds.probable import probable_errors
from qverify.compare.error_bounds.region import MOVING, evaluate_region
from qverify.compare.foreign import describe_direction
from qverify.compare.improbable import lies_on_one_side
from qverify.compare.limits import FLOAT_SHARE
from qverify.compare.multiples import describe_multiple
from qverify.compare.regions import list_inner
from qverify.model_bin.graph import Graph
from qverify.model_bin.units import Unit
from qverify.plural import count
from qverify.report.document import Forced, Verdict

WIDEST = 8.0  # LSB: a carried bound with a larger mean excuses nothing
WIDEST_SHARE = 2.0**-6  # the same for floats, as a share of the largest value
MOST_COMBINED = 3  # inner tensors of which some are rounded and others not
FEW = 16  # elements that may lie on one side by chance
ALTERNATIVES: dict[
    str, tuple[Rule, bool]
] = {  # by description: what becomes of inner tensors; whether y is rounded down
    "inner tensors rounded as in the model": (inner_tensors.round_as_model, False),
    "inner tensors not rounded": (inner_tensors.keep_clipped, False),
    "inner tensors neither rounded nor clipped to their range": (inner_tensors.keep, False),
    "every tensor rounded down": (inner_tensors.round_down, True),
}
Ends = tuple[Array, Array]  # smallest and largest value that each element may have


@dataclass(frozen=True, slots=True)
class RecomputedRegion:
    """A recomputed region.

    Attributes:
        unit, output, graph: the region, the output that is judged, and the graph.
        given: the inputs that the recorded side has.
        made: what the other side computes from them.
        recorded: the recorded output.
        half: half a unit in the last decimal of floats by which the pair is judged.
    """

    unit: Unit
    output: str
    graph: Graph
    given: Mapping[str, Array]
    made: Array
    recorded: Array
    half: float

    @property
    def inner(self) -> list[str]:
        """The quantized tensors inside of the region, which a side may round in its own way: not those that are only moved to
        the output, whose rounding is that of the output."""
        computed_from = {n for node in self.unit.nodes if node.op not in MOVING for n in node.inputs}
        return [n for n in list_inner(self.unit) if self.graph.spec(n).quantized and n in computed_from]

    def allowed(self, rule: Rule = inner_tensors.allow_any, down: bool = False) -> Ends:
        """Returns the smallest and the largest value that each element may have under this rule. down: whether the
        output is rounded down. An element whose error spans its type may have any value, from -inf to inf. An
        infinite element that the recorded side has, too, may have no other value. Raises NoBound, ValueError or
        IndexError as evaluate_region()."""
        value = evaluate_region(self.unit, self.output, self.graph, self.given, rule)
        if isinstance(value, Real):
            alike = np.isinf(value.value) & (self.recorded == value.value)
            with np.errstate(invalid="ignore", over="ignore"):
                reach = np.where(alike, 0.0, value.error + FLOAT_SHARE * np.abs(value.value) + self.half)
                return value.value - reach, value.value + reach
        return _round(value, down)


def _round(steps: Steps, down: bool) -> Ends:
    real = steps.real
    if steps.limits is None:  # recorded values that were only moved
        return real.value - real.error, real.value + real.error
    whole = round_interval(real.value, real.error + NEAR_TIE, 0, steps.limits)
    low, high = np.asarray(whole.low, np.float64), np.asarray(whole.high, np.float64)
    if down:
        low, high = inner_tensors.round_down(real.value - real.error, real.value + real.error, steps)
    least, most = steps.type_limits
    endless = ~(real.error < most - least)  # clipped to the range, it would look like a bound
    return np.where(endless, -np.inf, low), np.where(endless, np.inf, high)


def judge_region(region: RecomputedRegion, measured: Forced) -> Forced:
    """Returns the forced verdict: FAILED beyond the carried bound, or if the differences lie on one side only; PASSED
    within it; INCONCLUSIVE without a bound, or with one that is too wide. A region that is computed exactly as one of
    ALTERNATIVES is right in any case. measured: the distances."""
    with probable_errors():
        found = _find_alternative(region)
    if found is not None:
        name, ends = found
        limit = f"every element is that of the region with {name}{_describe_choice(region, ends)}"
        return replace(measured, verdict="PASSED", limit=limit, why="")
    try:
        low, high = region.allowed()
    except NoBound as missing:
        return _leave_open(region, measured, f"no bound can be carried through {missing}")
    except (ValueError, IndexError, MemoryError) as error:
        return _leave_open(region, measured, f"it could not be evaluated in float64: {type(error).__name__}")
    if not _holds(region.made, (low, high)):
        return _leave_open(region, measured, f"the carried bound does not contain what {measured.by} computes")
    finding = _find(region, (low, high), measured)
    if finding is None:
        return replace(measured, verdict="PASSED", limit=_describe_limit(region, (low, high)), why="")
    verdict, why, wrong = finding
    limit, direction = _describe_limit(region, (low, high)), describe_direction(region.made, region.recorded)
    multiple = describe_multiple(region.made, region.recorded, region.graph.spec(region.output), region.unit)
    why = "; ".join(text for text in (why, direction, multiple) if text)
    return replace(measured, verdict=verdict, limit=limit, why=why, unexplained=wrong)


def _leave_open(region: RecomputedRegion, measured: Forced, why: str) -> Forced:
    differ = count(measured.mismatched or 0, "element", "differs", "differ")
    why = f"{differ} and cannot be judged: {why}"
    return replace(
        measured,
        verdict="INCONCLUSIVE",
        limit="none: no bound is derived",
        why=why,
        unexplained=measured.mismatched or 0,
    )


def _holds(values: Array, ends: Ends) -> bool:
    return bool(((values >= ends[0]) & (values <= ends[1])).all())


def _find(region: RecomputedRegion, ends: Ends, measured: Forced) -> tuple[Verdict, str, int] | None:
    """Returns verdict, reason and number of elements if the bound does not excuse the differences, else None."""
    outside = ~((region.recorded >= ends[0]) & (region.recorded <= ends[1]))
    if outside.any():
        where = [int(i) for i in np.unravel_index(int(np.flatnonzero(outside)[0]), outside.shape)]
        wrong = int(outside.sum())
        return "FAILED", f"{count(wrong, 'element')} beyond it, first {where}", wrong
    if wrong := _count_one_sided(region):
        why = f"{count(wrong, 'element', 'lies', 'lie')} on one side, which roundings inside of it do not explain"
        return "FAILED", why, wrong
    if why := _describe_width(region, ends):
        return "INCONCLUSIVE", why, measured.mismatched or 0
    return None if region.inner else _find_improbable(region)


def _find_improbable(region: RecomputedRegion) -> tuple[Verdict, str, int] | None:
    """Returns verdict, reason and number of elements of a region without a rounding inside, if elements lie beyond the
    probable error of its float32 sums; else None."""
    with probable_errors():
        low, high = region.allowed()
    beyond = np.flatnonzero(~((region.recorded >= low) & (region.recorded <= high)))
    if not beyond.size:
        return None
    made, recorded = (v.reshape(-1)[beyond] for v in (region.made, region.recorded))
    differ, where = count(len(beyond), "element", "differs", "differ"), np.unravel_index(beyond[0], low.shape)
    text = f"{differ} by more than float32 sums err in any of the usual orders, first {[int(i) for i in where]}"
    some = len(beyond) < np.count_nonzero(region.made != region.recorded)  # of all, the caller says it
    why = "; ".join(part for part in (text, describe_direction(made, recorded) if some else "") if part)
    apart = recorded.astype(np.float64) - made.astype(np.float64)
    return "FAILED" if lies_on_one_side(beyond, apart, low.shape) else "INCONCLUSIVE", why, len(beyond)


def _count_one_sided(region: RecomputedRegion) -> int:
    """Returns the number of elements that differ, if they all lie on one side and are too many, and too far apart or
    too large a share, for roundings to both sides; else 0. It applies to regions with a rounding inside: others are
    held to the ties of a single rounding. Equal values of the region count once, because they are rounded alike."""
    if not region.inner or region.recorded.dtype.kind not in "iu":
        return 0
    made, apart = region.made.reshape(-1).astype(np.int64), region.recorded.reshape(-1).astype(np.int64)
    apart = apart - made
    low, high = int(np.count_nonzero(apart < 0)), int(np.count_nonzero(apart > 0))
    if min(low, high):
        return 0
    limits = np.iinfo(region.recorded.dtype)
    free = (made > limits.min) & (made < limits.max)
    far = np.abs(apart) > 1
    many = np.unique(made[free & (apart != 0)]).size >= FEW and 4 * int((apart[free] != 0).sum()) > 3 * int(free.sum())
    return low + high if np.unique(made[far]).size >= FEW or many else 0


def _measure_widths(ends: Ends) -> Array:
    """Returns the distance between the ends of each element; 0 where both are the same infinity."""
    with np.errstate(invalid="ignore", over="ignore"):
        return np.where(ends[0] == ends[1], 0, ends[1] - ends[0])


def _describe_width(region: RecomputedRegion, ends: Ends) -> str:
    """Returns why the bound is too wide to excuse anything, or "" if it is not."""
    widths = _measure_widths(ends)
    if endless := int(np.count_nonzero(~np.isfinite(widths))):
        return f"the carried bound of {count(endless, 'element')} has no limit"
    reach = float(np.mean(widths)) / 2
    if region.recorded.dtype.kind == "f":
        largest = float(np.abs(region.made[np.isfinite(region.made)]).max(initial=0.0))
        return "" if reach <= WIDEST_SHARE * largest + region.half else f"the carried bound, {reach:.3g}, is too wide"
    return "" if reach <= WIDEST else f"the carried bound, {reach:.3g} LSB on average, is too wide"


def _list_alternatives(inner: list[str]) -> Iterator[tuple[str, tuple[Rule, bool]]]:
    """Yields ALTERNATIVES, and of a few inner tensors those in which only some are not rounded."""
    yield from ALTERNATIVES.items()
    for some in range(1, len(inner) if len(inner) <= MOST_COMBINED else 0):
        for kept in combinations(inner, some):
            yield f"{', '.join(kept)} not rounded, other inner tensors as in the model", (keep_some(kept), False)


def _describe_choice(region: RecomputedRegion, ends: Ends) -> str:
    """Returns the extent to which the alternative leaves elements open: the number of those at ties, or the error of
    floats; "" if it does not."""
    if region.recorded.dtype.kind == "f":
        return f", within {float(_measure_widths(ends).max(initial=0.0)) / 2:.2g}"
    tied = int(np.count_nonzero(_measure_widths(ends)))
    return f", up to ties at {count(tied, 'element')}" if tied else ""


def _find_alternative(region: RecomputedRegion) -> tuple[str, Ends] | None:
    """Returns the first alternative that gives every element, within a bound that is not too wide, and what it allows; or
    None."""
    for name, (rule, down) in _list_alternatives(region.inner):
        if down and not region.inner:  # a single rounding, which is no chip's habit
            continue
        try:
            ends = region.allowed(rule, down)
        except (NoBound, ValueError, IndexError, MemoryError):
            continue
        if _holds(region.recorded, ends) and not _describe_width(region, ends):
            return name, ends
    return None


def _describe_limit(region: RecomputedRegion, ends: Ends) -> str:
    """Returns the limit of the region in words."""
    inner = region.inner
    carried = f"carried from {count(len(inner), 'rounding')} inside" if inner else "with no rounding inside"
    widths = _measure_widths(ends)
    if endless := int(np.count_nonzero(~np.isfinite(widths))):
        return f"none at {count(endless, 'element')}, {carried}"
    if region.recorded.dtype.kind == "f":
        reach = float(widths.max(initial=0.0)) / 2
        return f"up to {reach:.2g}, {carried}"
    most = int(np.maximum(ends[1] - region.made, region.made - ends[0]).max(initial=0))
    if not inner:
        return f"{most} LSB at a tie, {carried}"
    return f"up to {most} LSB, {carried}"
