"""Finds differences that the worst case of a float32 sum allows, and that no sum has: those beyond its probable error
(NUMERICS.md section 4)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from qverify.compare.accumulators import NodeSums
from qverify.compare.channels import CHANNEL_AXIS
from qverify.compare.documented_rounding import SHARE, Checked, check_floats, check_integers, find_differing
from qverify.compare.error_bounds import chain, integer_sums
from qverify.compare.error_bounds.bounded_values import Array, NoBound, Real, Whole
from qverify.compare.error_bounds.documented_kernels import TooMany, evaluate_documented
from qverify.compare.error_bounds.probable import probable_errors
from qverify.model_bin.graph import Graph
from qverify.model_bin.units import Unit
from qverify.plural import count

FEW = 8  # elements that may lie on one side by chance
LEAST_ROWS = 4  # whose means are hardly all rounded to one side
LARGE_SHARE = (
    0.75  # of a channel's elements, from which they are the channel's; of elements, from which they have a direction
)
MOST_TERMS = 1 << 24  # that are multiplied one by one, in a second or two
FACTORS = (
    "layer_norm",
    "group_norm",
    "rms_norm",
    "lp_norm",
    "softmax_float",
    "log_softmax",
)  # divide by what they add up
CUTS_OFF = "as accumulators that cut off instead of rounding may err, which no float32 arithmetic of a processor does"


@dataclass(frozen=True, slots=True)
class Improbable:
    """Elements beyond the probable error.

    Attributes:
        positions: their flat positions.
        limit: the largest probable error, in words.
        one_sided: whether all of them, or those of a channel that they fill, lie on one side, and are too many for chance.
        truncated: whether an accumulator that cuts off gives differences of that size and direction.
        below: in words, the last decimal of the gate that all of them are below; "" if they are not.
    """

    positions: Array
    limit: str
    one_sided: bool
    truncated: bool
    below: str = ""

    def describe(self, shape: tuple[int, ...]) -> str:
        """Returns what is improbable, in words."""
        where = [int(i) for i in np.unravel_index(int(self.positions[0]), shape)]
        some = count(len(self.positions), "element", "differs", "differ")
        text = f"{some} by more than float32 sums err, in any of the usual orders ({self.limit}), first {where}"
        parts = [text, CUTS_OFF if self.truncated else "", self.below]
        return "; ".join(part for part in parts if part)


@dataclass(frozen=True, slots=True)
class Question:
    """A unit whose differences the worst case allows. The attributes are the arguments of documented_rounding.explain()."""

    unit: Unit
    output: str
    graph: Graph
    given: Mapping[str, Array]
    made: Array
    recorded: Array
    kernels: str
    outputs: Mapping[str, Array]
    half: float
    sums: NodeSums | None


def find_improbable(q: Question) -> Improbable | None:
    """Returns the elements that differ by more than the probable error, or None if there are none or no float32 sum is
    known to be in the unit."""
    made, recorded = q.made.reshape(-1), q.recorded.reshape(-1)
    at = _choose_positions(q, find_differing(made, recorded), made, recorded)
    found = _evaluate(q, at)
    if found is None:
        return None
    if not found[0].size:
        return _find_below_decimals(q, at)
    beyond, largest = found
    floats = made.dtype.kind == "f"
    if np.isinf(largest):
        return Improbable(beyond, "their probable error could not be computed", one_sided=False, truncated=False)
    limit = f"up to {largest:.2g}" if floats else f"up to {largest:.2g} LSB"
    apart = _measure_apart(made, recorded, beyond)
    one_sided = _lies_on_one_side(q, beyond, apart)
    zero = (q.graph.spec(q.output).zero_point or (0,))[0]
    toward_zero = np.count_nonzero(np.sign(apart) == -np.sign(made[beyond].astype(np.float64) - zero))
    cuts = bool((apart < 0).all()) or toward_zero >= LARGE_SHARE * len(beyond)  # partial sums may have the other sign
    truncated = (cuts or not _is_plain_sum(q.unit)) and _is_all_truncated(q, beyond)
    return Improbable(beyond, limit, one_sided, truncated)


def _find_below_decimals(q: Question, at: Array) -> Improbable | None:
    """Returns the elements that only half a unit of the gate's last decimal excuses, if all lie on one side, which no rounding
    does; else None."""
    if q.made.dtype.kind != "f" or not q.half:
        return None
    found = _evaluate(replace(q, half=0.0), at)
    if found is None or not found[0].size >= FEW or np.isinf(found[1]):
        return None
    beyond, largest = found
    apart = _measure_apart(q.made.reshape(-1), q.recorded.reshape(-1), beyond)
    if not _lies_on_one_side(q, beyond, apart, channels=False):
        return None
    outward = int(np.count_nonzero(apart * q.made.reshape(-1)[beyond] > 0))
    side = {0: "all nearer to zero", len(beyond): "all farther from zero"}.get(outward, "all on one side")
    below = f"{side}, each by less than half a unit of the last decimal ({q.half:g})"
    return Improbable(beyond, f"up to {largest:.2g}", one_sided=True, truncated=False, below=below)


def is_shifted_in_all_rows(q: Question) -> bool:
    """Returns whether all elements of a norm that are not the exact value lie on one side of it, in so many rows that the
    roundings of their means do not explain it; also where the exact values cannot be computed, which proves nothing."""
    norm = next((n for n in q.unit.nodes if n.op in ("layer_norm", "group_norm")), None)
    if norm is None or q.made.dtype.kind != "f":
        return False
    recorded = q.recorded.reshape(-1)
    rows = recorded.size // norm.words[0] if norm.op == "layer_norm" else len(q.recorded) * norm.words[0]
    if rows < LEAST_ROWS:
        return False
    at, apart = np.arange(recorded.size), list[Array]()
    try:
        parts = list(evaluate_documented(q.unit, q.output, q.graph, q.given, at, q.kernels, q.outputs, q.sums))
    except (NoBound, TooMany, ValueError, IndexError, MemoryError):
        return True
    for where, value in parts:
        assert isinstance(value, Real)
        off = recorded[where].astype(np.float64) - value.value
        apart.append(off[np.abs(off) > SHARE * np.abs(value.value) + q.half])
    every = np.concatenate(apart)
    return len(every) >= FEW and bool((every > 0).all() or (every < 0).all())


def find_beyond_two_passes(q: Question) -> tuple[Array, float, bool] | None:
    """Returns the differing elements that float32 sums do not give in two passes, mean and variance, the largest probable error,
    and whether a single pass gives none of them either; None if the unit has no such sum."""
    made, recorded = q.made.reshape(-1), q.recorded.reshape(-1)
    found = _evaluate(q, find_differing(made, recorded), two_passes=True)
    if found is None or np.isinf(found[1]):
        return None
    once = _evaluate(q, found[0])
    return *found, bool(found[0].size and once is not None and once[0].size and np.isfinite(once[1]))


def _measure_apart(made: Array, recorded: Array, at: Array) -> Array:
    with np.errstate(invalid="ignore", over="ignore"):
        return np.asarray(recorded[at].astype(np.float64) - made[at].astype(np.float64))


def _lies_on_one_side(q: Question, beyond: Array, apart: Array, channels: bool = True) -> bool:
    """Returns whether the differences have one direction; away from zero and toward it are two where an op divides by what it
    adds up. channels: whether those of a channel suffice."""
    if lies_on_one_side(beyond, apart, q.recorded.shape if channels else ()):
        return True
    if not {n.op for n in q.unit.nodes} & {*FACTORS} or q.made.dtype.kind != "f":
        return False
    return lies_on_one_side(beyond, apart * np.sign(q.made.reshape(-1)[beyond]), ())


def _is_all_truncated(q: Question, beyond: Array) -> bool:
    found = _evaluate(q, beyond, truncates=True)
    return found is not None and not found[0].size


def _is_plain_sum(unit: Unit) -> bool:
    """Returns whether an error of the sum is one of the output, in the same direction."""
    return not {n.op for n in unit.nodes} & {*FACTORS}


def _choose_positions(q: Question, differing: Array, made: Array, recorded: Array) -> Array:
    """Returns the positions to evaluate: all, or of sums whose terms are multiplied one by one those that differ most, and
    evenly spaced ones."""
    if not chain.sums_integers(q.unit.nodes[0], q.graph):
        return differing
    terms = integer_sums.terms_of(integer_sums.SumOperands(q.unit.nodes[0], q.graph, dict(q.given)))
    most = max(4 * FEW, MOST_TERMS // terms)
    if len(differing) <= most:
        return differing
    with np.errstate(invalid="ignore", over="ignore"):
        apart = np.abs(recorded[differing].astype(np.float64) - made[differing].astype(np.float64))
    far = np.argsort(-apart, kind="stable")[: most // 2]
    spaced = np.arange(0, len(differing), -(-2 * len(differing) // most))
    return differing[np.unique(np.concatenate([far, spaced]))]


def _evaluate(q: Question, at: Array, truncates: bool = False, two_passes: bool = False) -> tuple[Array, float] | None:
    """Returns the positions beyond the probable error, and the largest such error; None if no sum was bounded by it. What cannot
    be evaluated so, although the worst case could, is beyond an error without a limit."""
    made, recorded = q.made.reshape(-1), q.recorded.reshape(-1)
    beyond, largest = list[Array](), 0.0
    with probable_errors(truncates, two_passes) as allowed:
        try:
            parts = list(evaluate_documented(q.unit, q.output, q.graph, q.given, at, q.kernels, q.outputs, q.sums))
        except (NoBound, TooMany, ValueError, IndexError, MemoryError):
            return at, np.inf
    if not allowed.used:
        return None
    for where, value in parts:
        checked: Checked
        if isinstance(value, Whole):
            checked = check_integers(value, made[where], recorded[where])
        else:
            checked = check_floats(value, made[where], recorded[where], q.half)
        beyond.append(where[~checked.recorded])
        largest = max(largest, checked.largest)
    return (np.sort(np.concatenate(beyond)) if beyond else np.zeros(0, np.int64)), largest


def lies_on_one_side(beyond: Array, apart: Array, shape: tuple[int, ...]) -> bool:
    """Returns whether the elements beyond the error lie on one side, all of them or all of a channel that they fill."""
    if len(beyond) >= FEW and ((apart > 0).all() or (apart < 0).all()):
        return True
    if len(shape) <= CHANNEL_AXIS:
        return False
    channel = np.unravel_index(beyond, shape)[CHANNEL_AXIS]
    each = int(np.prod(shape)) // shape[CHANNEL_AXIS]
    for number in np.unique(channel):
        of = apart[channel == number]
        if len(of) >= max(FEW, LARGE_SHARE * each) and ((of > 0).all() or (of < 0).all()):
            return True
    return False
