"""Checks whether the differences of a side that is not qvrt are ones that a correct runtime may have: only near a tie of
the rounding, and for floats within the error of the operations."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from qverify.compare.error_bounds.bounded_values import NoBound, Real, Whole
from qverify.compare.error_bounds.chain import is_stepwise
from qverify.model_bin.graph import Graph
from qverify.model_bin.units import Unit
from qverify.plural import count
from qverify.tensors.real_values import to_float64
from qverify.tensors.recording import Array

if TYPE_CHECKING:
    from qverify.compare.accumulators import NodeSums

NAMES = {
    "litert-reference": "LiteRT's reference kernels",
    "litert-optimized": "LiteRT's optimised kernels",
    "litert-xnnpack": "XNNPACK's kernels",
    "onnxruntime": "onnxruntime's processor kernels",
}
FIXED_POINT = "as onnxruntime adds on aarch64: fixed point with multipliers of 22 bits, bit for bit"
SHARE = 2.0**-18  # of each float element, which another order or precision of single operations may change
HALF = 0.5e-5  # half a unit in the fifth decimal, which the default gate lets pass
Mask = npt.NDArray[np.bool_]
ROUNDED_LIKE_REFERENCE = ("ref-exact", "gemmlowp")  # of a model.bin: as onnxruntime, or as LiteRT for a .tflite alone


@dataclass(frozen=True, slots=True)
class RoundingExplanation:
    """The extent to which a correct runtime explains the differences of one tensor.

    Attributes:
        unexplained: number of elements that differ by more than such a runtime may.
        limit: the limit that was applied, in words.
        why: if there are unexplained elements, which ones; if nothing was evaluated, the reason; else the kernel that
            computes exactly the recorded elements, or "" if none is known.
        evaluated: whether the unit could be evaluated. If not, every differing element is unexplained.
        recorded_fits: whether every recorded element is one that a correct runtime may give, so that it is the other
            side that is wrong where elements are unexplained.
        far_are_made: whether every element that is more than 1 LSB apart is one that only the other side has from the
            exact value, so that no limit, however wide, excuses the recorded one.
        positions: flat positions of the unexplained elements; None if nothing was evaluated.
    """

    unexplained: int
    limit: str
    why: str = ""
    evaluated: bool = True
    recorded_fits: bool = True
    far_are_made: bool = False
    positions: Array | None = None
    endless: bool = False


@dataclass(slots=True)
class _Outside:
    """Masks of the elements of which a side has another value than a correct runtime may give, flat, the largest error,
    and the number of elements whose error has no limit."""

    made: Mask
    recorded: Mask
    largest: float = 0.0
    endless: int = 0


@dataclass(frozen=True, slots=True)
class Checked:
    """Some elements beside their exact values. made, recorded: masks of those near enough, each by its own size.
    endless: those whose error has no limit, which every value is within. largest: the largest distance of the others
    that is near enough."""

    made: Mask
    recorded: Mask
    endless: Mask
    largest: float


def explain(
    unit: Unit,
    output: str,
    graph: Graph,
    given: Mapping[str, Array],
    made: Array,
    recorded: Array,
    kernels: str,
    limit: str,
    outputs: Mapping[str, Array] | None = None,
    half: float = HALF,
    check_made: bool = True,
    acc: NodeSums | None = None,
) -> RoundingExplanation:
    """Returns how far the differences between both arrays are explained.

    Args:
        unit: the unit that computes the tensor.
        output: name of the tensor.
        graph: the graph of the unit.
        given: the unit's inputs, recorded by the side that recorded `recorded`.
        made: the output that the other side computes from these inputs. It must be near a tie, too, if the graph rounds
            as the reference does.
        recorded: the recorded output.
        kernels: the kernels of the side that is not qvrt, a key of NAMES, or "" if they are not known.
        limit: the limit in words, which is kept if the unit cannot be evaluated.
        outputs: all recorded outputs of the unit, for a recurrence, whose steps depend on them.
        half: half a unit in the last decimal of floats by which the pair is judged.
        check_made: whether `made` is of qverify's own arithmetic, onnxruntime's, or these kernels, so that it must be
            near the exact value, too. That of a recurrence is never checked: its steps are those of `recorded`.
        acc: the accumulator of the unit's first node, if the caller shares it.
    """
    from qverify.compare.error_bounds.documented_kernels import TooMany, evaluate_documented, is_fixed_point_add

    flat_made, flat_recorded = made.reshape(-1), recorded.reshape(-1)
    differing, check_made = find_differing(flat_made, flat_recorded), check_made and not is_stepwise(unit)
    outside = _Outside(np.zeros(flat_made.shape, bool), np.zeros(flat_made.shape, bool))
    try:
        for at, value in evaluate_documented(unit, output, graph, given, differing, kernels, outputs, acc):
            checked = (
                check_integers(value, flat_made[at], flat_recorded[at])
                if isinstance(value, Whole)
                else check_floats(value, flat_made[at], flat_recorded[at], half)
            )
            if check_made and (graph.rounding in ROUNDED_LIKE_REFERENCE or isinstance(value, Real)):
                outside.made[at[~checked.made]] = True
            outside.recorded[at[~checked.recorded]] = True
            outside.endless += int(np.count_nonzero(checked.endless))
            outside.largest = max(outside.largest, checked.largest)
        if not kernels and unit.nodes[0].op == "resize_linear" and flat_made.dtype.kind != "f":
            outside.recorded |= _find_beyond_one_form(unit, graph, given, flat_recorded) & (flat_made != flat_recorded)
    except NoBound as why:
        return RoundingExplanation(len(differing), limit, f"no float64 evaluation of {why}", False, False)
    except (TooMany, ValueError, IndexError, MemoryError) as error:
        return RoundingExplanation(len(differing), limit, f"{error or type(error).__name__}", False, False)
    floats = flat_made.dtype.kind == "f"
    unexplained = np.flatnonzero(outside.made | outside.recorded)
    near = (
        f"within {outside.largest:.2g} of the exact value" if floats else f"within {outside.largest:.2g} LSB of a tie"
    )
    if outside.endless and not outside.recorded.any():
        text = f"no float64 evaluation of {count(outside.endless, 'element')}, whose error has no limit"
        return RoundingExplanation(len(differing), limit, text, False, False, endless=True)
    limit = near if floats else f"{limit}, {near}"
    if not unexplained.size:
        fixed = kernels == "onnxruntime" and is_fixed_point_add(unit, graph, given, recorded)
        return RoundingExplanation(0, limit, FIXED_POINT if fixed else "")
    where = [int(i) for i in np.unravel_index(int(unexplained[0]), recorded.shape)]
    some = count(len(unexplained), "element", "differs", "differ")
    beyond = "beyond that error" if floats else f"where {_name_kernels(kernels)} no tie"
    fits = not outside.recorded.any()
    text = f"{some} {beyond}, first {where}"
    by_made = fits and bool(outside.made[_find_far(flat_made, flat_recorded)].all())
    return RoundingExplanation(len(unexplained), limit, text, True, fits, by_made, unexplained)


def _find_beyond_one_form(unit: Unit, graph: Graph, given: Mapping[str, Array], recorded: Array) -> Mask:
    """Returns the elements that the form of a linear resize does not give which gives most: rounded to the nearest, or cut
    off. A side has one form, so that the other one excuses nothing."""
    from qverify.compare.error_bounds.documented_kernels import evaluate_resize_forms

    every, integers = np.arange(recorded.size), recorded.astype(np.int64)
    forms = evaluate_resize_forms(unit, graph, given, every, "")
    beyond = [(integers < form.low) | (integers > form.high) for form in forms]
    return min(beyond, key=np.count_nonzero)


def _find_far(made: Array, recorded: Array) -> Array:
    """Returns the flat positions of integers that are more than 1 LSB apart, and of all floats."""
    if made.dtype.kind not in "iu":
        return np.arange(made.size)
    return np.flatnonzero(np.abs(made.astype(np.int64) - recorded.astype(np.int64)) > 1)


def _name_kernels(kernels: str) -> str:
    return f"{NAMES[kernels]} have" if kernels else "the exact value has"


def find_differing(made: Array, recorded: Array) -> Array:
    """Returns the flat positions of elements with different values; a NaN is equal to a NaN."""
    differ = made != recorded
    if made.dtype.kind == "f":
        differ &= ~(np.isnan(made) & np.isnan(recorded))
    return np.flatnonzero(differ)


def check_integers(value: Whole, made: Array, recorded: Array) -> Checked:
    """Returns which integers of both sides are ones to which the exact value may round."""
    lost = np.zeros(made.shape, bool) if value.lost is None else value.lost
    endless = ~lost & ~np.isfinite(value.error) if value.error is not None else np.zeros(made.shape, bool)
    inside = [(value.low <= side) & (side <= value.high) for side in (made.astype(np.int64), recorded.astype(np.int64))]
    error = 0.0 if value.error is None else float(value.error.max(initial=0.0, where=~(lost | endless)))
    if value.error is not None and error > 1:  # of elements that are saturated, whose error decides nothing?
        limits = np.iinfo(made.dtype.name)
        saturated = (value.low == value.high) & ((value.low == limits.min) | (value.low == limits.max))
        error = float(value.error.max(initial=0.0, where=~(lost | endless | saturated)))
    return Checked(inside[0] | lost | endless, inside[1] | endless, endless, error)


def check_floats(value: Real, made: Array, recorded: Array, half: float) -> Checked:
    """Returns which floats of both sides are near enough to the exact value. half: as in explain()."""
    lost = np.zeros(made.shape, bool) if value.lost is None else value.lost
    with np.errstate(invalid="ignore", over="ignore"):
        finite = np.isfinite(value.value)
        endless = finite & ~lost & ~np.isfinite(value.error)
        rounded = SHARE * np.abs(value.value) + half
        allowed = value.error + rounded
        endless &= ~(np.abs(to_float64(recorded) - value.value) <= rounded)  # the exact value needs no limit
        inside = []
        for side in (to_float64(made), to_float64(recorded)):
            near = finite & (np.abs(side - value.value) <= allowed)
            inside.append((side == value.value) | (np.isnan(side) & np.isnan(value.value)) | near)
    largest = float(allowed.max(initial=0.0, where=~lost & finite & ~endless))
    return Checked(inside[0] | lost | endless, inside[1] | endless, endless, largest)


def explain_places(
    unit: Unit, graph: Graph, given: Mapping[str, Array], made: Array, recorded: Array, kernels: str
) -> RoundingExplanation | None:
    """Returns how far the differing elements are what the board's own kernel computes for samples at its own places, or
    None if these places are not known. The arguments are those of explain()."""
    from qverify.compare.error_bounds.own_places import evaluate_own_places

    differing = np.flatnonzero(made.reshape(-1) != recorded.reshape(-1))
    try:
        possible = evaluate_own_places(unit, graph, given, differing, kernels)
    except (ValueError, IndexError, MemoryError):
        return None
    if possible is None or possible.error is None:
        return None
    value = recorded.reshape(-1)[differing].astype(np.int64)
    wrong = differing[(value < possible.low) | (value > possible.high)]
    error = float(possible.error.max(initial=0.0))
    limit = f"what {NAMES[kernels]} give at their own places, within {error:.2g} LSB of a tie"
    if not wrong.size:
        return RoundingExplanation(0, limit)
    where = [int(i) for i in np.unravel_index(int(wrong[0]), recorded.shape)]
    return RoundingExplanation(len(wrong), limit, f"beyond {limit}: {count(len(wrong), 'element')}, first {where}")
