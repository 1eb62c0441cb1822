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
from qverify.compare.region_parts import find_wrong_part
from qverify.compare.regions import UNTOLD, list_inner
from qverify.model_bin.graph import Graph
from qverify.model_bin.units import Unit
from qverify.plural import count
from qverify.report.document import Forced, Verdict

WIDEST = 8.0  # LSB: a carried bound with a larger mean excuses nothing
WIDEST_SHARE = 2.0**-6  # the same for floats, as a share of the largest value
MOST_COMBINED = 4  # inner tensors of which some are rounded and others not
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
        stated: whether an arithmetic states every node of the region: then only the choice of what is rounded inside
            is open.
    """

    unit: Unit
    output: str
    graph: Graph
    given: Mapping[str, Array]
    made: Array
    recorded: Array
    half: float
    stated: bool = False

    @property
    def inner(self) -> list[str]:
        """The quantized tensors inside of the region, which a side may round in its own way: not those that are only moved to
        the output, whose rounding is that of the output."""
        computed_from = set[str]()
        for node in reversed(self.unit.nodes):
            if node.op not in MOVING or computed_from.intersection(node.outputs):
                computed_from.update(n for n in node.inputs if n)
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
    """Returns the forced verdict: FAILED beyond the carried bound, if the differences lie on one side only, or do so
    in parts outside of which everything is given, or farther from every choice than a stated arithmetic may be; PASSED
    within a bound of one step; INCONCLUSIVE without a bound, or with a wider one. A region that is computed exactly as
    one of ALTERNATIVES is right in any case. measured: the distances."""
    with probable_errors():
        tried = list(_try_alternatives(region))
    if (found := next(((name, ends) for name, ends in tried if _is_given(region, ends)), None)) is not None:
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
    finding = _find(region, (low, high), measured, tried)
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


def _find(
    region: RecomputedRegion, ends: Ends, measured: Forced, tried: list[tuple[str, Ends]]
) -> tuple[Verdict, str, int] | None:
    """Returns verdict, reason and number of elements if the bound does not excuse the differences, else None."""
    if part := find_wrong_part(region.recorded, region.made, tried):
        return "FAILED", *part
    outside = ~((region.recorded >= ends[0]) & (region.recorded <= ends[1]))
    if outside.any():
        where = [int(i) for i in np.unravel_index(int(np.flatnonzero(outside)[0]), outside.shape)]
        wrong = int(outside.sum())
        return "FAILED", f"{count(wrong, 'element')} beyond it, first {where}", wrong
    if wrong := _count_one_sided(region):
        why = f"{count(wrong, 'element', 'lies', 'lie')} on one side, which roundings inside of it do not explain"
        return "FAILED", why, wrong
    if wrong := _count_far(region, tried):
        why = f"{count(wrong, 'element', 'is', 'are')} farther from every choice of what is rounded inside"
        return "FAILED", f"{why} than these are from each other, and the arithmetic of each node is stated", wrong
    if why := _describe_width(region, ends):
        return "INCONCLUSIVE", why, measured.mismatched or 0
    if wide := _count_excused_by_width(region, ends):
        return "INCONCLUSIVE", _describe_nearest(region, wide, tried), wide
    return None if region.inner else _find_improbable(region)


def _find_improbable(region: RecomputedRegion) -> tuple[Verdict, str, int] | None:
    """Returns verdict, reason and number of elements of a region without a rounding inside, if elements lie beyond the
    probable error of its float32 sums; else None."""
    try:
        with probable_errors():
            low, high = region.allowed()
    except (NoBound, ValueError, IndexError, MemoryError):
        apart = int(np.count_nonzero(region.recorded != region.made))
        return "INCONCLUSIVE", "the probable error of its float32 sums could not be computed", apart
    beyond = np.flatnonzero(~((region.recorded >= low) & (region.recorded <= high)))
    if not beyond.size:
        return None
    made, recorded = (v.reshape(-1)[beyond] for v in (region.made, region.recorded))
    differ, where = count(len(beyond), "element", "differs", "differ"), np.unravel_index(beyond[0], low.shape)
    text = f"{differ} by more than float32 sums err in any of the usual orders, first {[int(i) for i in where]}"
    some = len(beyond) < np.count_nonzero(region.made != region.recorded)  # of all, the caller says it
    why = "; ".join(part for part in (text, describe_direction(made, recorded) if some else "") if part)
    distances = recorded.astype(np.float64) - made.astype(np.float64)
    return "FAILED" if lies_on_one_side(beyond, distances, low.shape) else "INCONCLUSIVE", why, len(beyond)


def _count_excused_by_width(region: RecomputedRegion, ends: Ends) -> int:
    """Returns the number of elements that differ and lie within the bound only because it is wider than the choice
    between two neighbouring steps: of floats, all that differ, if something inside is rounded. Where the arithmetic is
    stated, no bound excuses anything."""
    differs = region.recorded != region.made
    if region.recorded.dtype.kind not in "iu":
        wide = np.full(differs.shape, bool(region.inner))
    else:
        wide = ends[1] - ends[0] > 1
    return int(np.count_nonzero(differs & (wide | region.stated)))


def _describe_nearest(region: RecomputedRegion, wide: int, tried: list[tuple[str, Ends]]) -> str:
    """Returns that nothing tells roundings from faults, and which alternative is the nearest. wide: number of elements."""
    differ = count(wide, "element", "differs", "differ")
    why = (
        "where the arithmetic is stated, no bound excuses them"
        if region.stated
        else "the carried bound is too wide to tell roundings from faults"
    )
    text = f"{differ}, and {UNTOLD}; {why}"
    if region.recorded.dtype.kind not in "iu" or not tried:
        return text
    outside = [(name, _measure_outside(region, ends)) for name, ends in tried]
    name, apart = min(outside, key=lambda found: int(np.count_nonzero(found[1])))
    left = count(int(np.count_nonzero(apart)), "element")
    return f"{text}; nearest: {name}, all but {left}, by up to {int(apart.max())} LSB"


def _measure_outside(region: RecomputedRegion, ends: Ends) -> Array:
    """Returns the distance of each recorded element from what these ends allow."""
    recorded = region.recorded.astype(np.float64)
    return np.maximum(np.maximum(ends[0] - recorded, recorded - ends[1]), 0.0)


def _count_far(region: RecomputedRegion, tried: list[tuple[str, Ends]]) -> int:
    """Returns the number of elements of a stated region that are farther from all alternatives, and from what the
    arithmetic gives, than any two of these are from each other, and than one step; 0 of what is not stated."""
    if not region.stated or not tried or region.recorded.dtype.kind not in "iu":
        return 0
    made = region.made.astype(np.float64)
    low = np.minimum.reduce([made, *(ends[0] for _, ends in tried)])
    high = np.maximum.reduce([made, *(ends[1] for _, ends in tried)])
    if not np.isfinite(high - low).all():
        return 0
    return int(np.count_nonzero(_measure_outside(region, (low, high)) > max(1.0, float((high - low).max()))))


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


def _list_alternatives(region: RecomputedRegion) -> Iterator[tuple[str, tuple[Rule, bool]]]:
    """Yields ALTERNATIVES, and of a few inner tensors those in which only some are not rounded. Where the arithmetic is
    stated, rounding down is none."""
    for name, (rule, down) in ALTERNATIVES.items():
        if not down or (region.inner and not region.stated):  # a single rounding down is no chip's habit
            yield name, (rule, down)
    groups = _group_moved(region)
    for some in range(1, len(groups) if len(groups) <= MOST_COMBINED else 0):
        for kept in combinations(groups, some):
            names = [name for root in kept for name in groups[root]]
            yield f"{', '.join(kept)} not rounded, other inner tensors as in the model", (keep_some(names), False)


def _group_moved(region: RecomputedRegion) -> dict[str, list[str]]:
    """Returns the inner tensors that are rounded by themselves, each with those into which it is only moved."""
    groups, roots = dict[str, list[str]](), dict[str, str]()
    makers = {output: node for node in region.unit.nodes for output in node.outputs}
    for name in region.inner:
        node = makers[name]
        root = roots.get(node.inputs[0] or "", name) if node.op in MOVING else name
        roots[name] = root
        groups.setdefault(root, []).append(name)
    return groups


def _describe_choice(region: RecomputedRegion, ends: Ends) -> str:
    """Returns the extent to which the alternative leaves elements open: the number of those at ties, or the error of
    floats; "" if it does not."""
    if region.recorded.dtype.kind == "f":
        return f", within {float(_measure_widths(ends).max(initial=0.0)) / 2:.2g}"
    tied = int(np.count_nonzero(_measure_widths(ends)))
    return f", up to ties at {count(tied, 'element')}" if tied else ""


def _try_alternatives(region: RecomputedRegion) -> Iterator[tuple[str, Ends]]:
    """Yields each alternative that can be evaluated, and what it allows; none after one that gives every element."""
    for name, (rule, down) in _list_alternatives(region):
        try:
            ends = region.allowed(rule, down)
        except (NoBound, ValueError, IndexError, MemoryError):
            continue
        yield name, ends
        if _is_given(region, ends):
            return


def _is_given(region: RecomputedRegion, ends: Ends) -> bool:
    """Returns whether an alternative gives every element, within a bound that is not too wide."""
    return _holds(region.recorded, ends) and not _describe_width(region, ends)


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
