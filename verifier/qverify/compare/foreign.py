"""Judges a recomputed node of a side that is not qvrt: a runner, a dump, another runtime, or LiteRT as the reference.

Such a side rounds in its own way. A node of it is right if each element that differs lies at a tie of the rounding, or
if one arithmetic of the catalogue gives every element (compare/one_arithmetic.py). Everything else is a finding."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from qverify.compare.arithmetics import Rounded
from qverify.compare.catalogue import choose_name, describe
from qverify.compare.channels import describe_channels, describe_marked_channels
from qverify.compare.documented_rounding import HALF, RoundingExplanation, explain, explain_places
from qverify.compare.error_bounds.own_places import has_own_places
from qverify.compare.find_arithmetics import (
    EVIDENCE_BITS,
    find_arithmetics,
    find_nearest,
    measure_evidence,
    needs_evidence,
)
from qverify.compare.improbable import (
    Improbable,
    Question,
    find_beyond_two_passes,
    find_improbable,
    is_shifted_in_all_rows,
)
from qverify.compare.multiples import describe_multiple
from qverify.compare.paired_values import bits_equal
from qverify.model_bin.graph import Graph
from qverify.model_bin.units import Unit
from qverify.plural import count
from qverify.report.document import Forced, Verdict
from qverify.report.side_names import named
from qverify.tensors.recording import Array


@dataclass(frozen=True)
class ForeignUnit:
    """A recomputed unit.

    Attributes:
        unit, output, graph: the unit, the output that is judged, and the graph.
        given: the inputs that the recorded side has.
        made: what the other side computes from them.
        recorded: the recorded output.
        kernels: the kernels of the side that is not qvrt, as in Recording.kernels, or "" if they are not known.
        inputs_same: whether both sides had the same inputs in their own runs.
        outputs: all recorded outputs of a recurrence.
        half, check_made: as in documented_rounding.explain().
    """

    unit: Unit
    output: str
    graph: Graph
    given: Mapping[str, Array]
    made: Array
    recorded: Array
    kernels: str
    inputs_same: bool
    outputs: Mapping[str, Array] = field(default_factory=dict)
    half: float = HALF
    check_made: bool = True

    @cached_property
    def rounded(self) -> Rounded:
        """The arithmetics of the catalogue for the unit."""
        return Rounded(self.unit, self.output, self.graph, self.given)

    def find_arithmetics(self) -> list[str]:
        """Returns the names of those that give every recorded element."""
        return find_arithmetics(self.rounded, self.made, self.recorded)


def is_same_question(a: ForeignUnit, b: ForeignUnit) -> bool:
    """Returns whether two units have the same verdict, apart from the names of the sides."""
    alike = (a.unit is b.unit, a.output == b.output, a.graph is b.graph, a.kernels == b.kernels, a.half == b.half)
    flags = a.inputs_same == b.inputs_same and a.check_made == b.check_made
    arrays = (a.given, b.given), (a.outputs, b.outputs)
    identical = all(x.keys() == y.keys() and all(x[n] is y[n] for n in x) for x, y in arrays)
    return all(alike) and flags and identical and a.recorded is b.recorded and bits_equal(a.made, b.made)


def judge_foreign(foreign: ForeignUnit, measured: Forced) -> Forced:
    """Returns the forced verdict. measured: the distances and the verdict by the plain limit."""
    by_places = _judge_places(foreign, measured)
    if by_places is not None:
        return by_places
    f = foreign
    found = explain(
        f.unit,
        f.output,
        f.graph,
        f.given,
        f.made,
        f.recorded,
        f.kernels,
        measured.limit,
        f.outputs,
        f.half,
        f.check_made,
        f.rounded.sums,
    )
    if not found.evaluated:
        by_passes = _judge_two_passes(foreign, measured) if found.endless else None
        return by_passes or _judge_without_evaluation(foreign, measured, found)
    far = f.recorded.dtype.itemsize == 1 and (measured.max_lsb or 0) > 1
    if not found.unexplained and not far and (improbable := _find_improbable(foreign)) is not None:
        return _judge_improbable(foreign, measured, improbable)
    if not found.unexplained and not far:
        names = [] if f.kernels else f.find_arithmetics()
        verdict = replace(measured, verdict="PASSED", limit=found.limit, why=found.why)
        return replace(verdict, arithmetics=names)
    names = f.find_arithmetics()
    why = _describe_finding(foreign, measured, found, names)
    by_made = found.recorded_fits and found.unexplained and (found.far_are_made or not far)
    at_fault = measured.by if by_made else measured.on
    return replace(
        measured,
        verdict="FAILED",
        limit=found.limit,
        why=why,
        unexplained=found.unexplained or measured.mismatched or 0,
        arithmetics=names,
        at_fault=at_fault,
    )


def _find_improbable(f: ForeignUnit) -> Improbable | None:
    return find_improbable(_ask(f))


def _ask(f: ForeignUnit) -> Question:
    return Question(
        f.unit, f.output, f.graph, f.given, f.made, f.recorded, f.kernels, f.outputs, f.half, f.rounded.sums
    )


def _judge_two_passes(foreign: ForeignUnit, measured: Forced) -> Forced | None:
    """Returns the verdict on a norm whose variance may cancel in a single pass, so that its worst case has no limit: PASSED
    within what two passes err, FAILED beyond what a single one probably errs, else INCONCLUSIVE; None for another unit."""
    found = find_beyond_two_passes(_ask(foreign))
    if found is None:
        return None
    beyond, largest, beyond_both = found
    limit = f"the probable error of a mean and a variance in two passes, up to {largest:.2g}"
    if not beyond.size and is_shifted_in_all_rows(_ask(foreign)):
        about = describe_direction(foreign.made, foreign.recorded)
        why = f"all that differs lies on one side of the exact value, in every row; {about}"
        return replace(measured, verdict="INCONCLUSIVE", limit=limit, why=why, unexplained=measured.mismatched or 0)
    if not beyond.size:
        return replace(measured, verdict="PASSED", limit=limit)
    some = count(len(beyond), "element", "differs", "differ")
    text = f"{some} by more than two passes err (up to {largest:.2g})"
    about = describe_direction(foreign.made, foreign.recorded)
    if beyond_both:
        why = "; ".join(t for t in (f"{text}, and by more than a single pass errs", about) if t)
        return replace(measured, verdict="FAILED", limit=limit, why=why, unexplained=len(beyond), at_fault=measured.on)
    why = "; ".join(t for t in (f"{text}, and the variance of a single pass may cancel here", about) if t)
    return replace(measured, verdict="INCONCLUSIVE", limit=limit, why=why, unexplained=len(beyond))


def _judge_improbable(foreign: ForeignUnit, measured: Forced, improbable: Improbable) -> Forced:
    """Returns the verdict on a unit that only the worst case of a float32 sum allows: FAILED if the elements beyond the
    probable error lie on one side, or if an arithmetic of the catalogue gives all; else INCONCLUSIVE, because another
    precision or an order that is not known may differ to both sides."""
    names = foreign.find_arithmetics()
    beyond = len(improbable.positions)
    limit = f"the probable error of float32 sums, {improbable.limit}"
    sides = (side.reshape(-1)[improbable.positions] for side in (foreign.made, foreign.recorded))
    direction = describe_direction(*sides)
    text = ", ".join(t for t in (improbable.describe(foreign.recorded.shape), direction) if t)
    if improbable.truncated or improbable.below or not (improbable.one_sided or names):
        of_all = describe_direction(foreign.made, foreign.recorded)
        parts = [text, of_all if of_all != direction else ""]
        why = "; ".join(part for part in parts if part)
        return replace(measured, verdict="INCONCLUSIVE", limit=limit, why=why, unexplained=beyond, arithmetics=names)
    found = RoundingExplanation(beyond, limit, text, True, False, positions=improbable.positions)
    why = _describe_finding(foreign, measured, found, names)
    return replace(
        measured,
        verdict="FAILED",
        limit=limit,
        why=why,
        unexplained=beyond,
        arithmetics=names,
        at_fault=measured.on,
    )


def describe_stated(foreign: ForeignUnit, measured: Forced) -> Forced:
    """Returns a failing verdict on a unit whose arithmetic is stated, with what is known of the elements that differ: their
    direction, their channels, and the arithmetic of the catalogue that gives all of them, if that is no chance."""
    names = foreign.find_arithmetics()
    parts = [describe_direction(foreign.made, foreign.recorded), describe_channels(foreign.made, foreign.recorded)]
    parts.append("the inputs of both sides are equal" if foreign.inputs_same else "the inputs differ")
    if names and measure_evidence(measured) >= EVIDENCE_BITS:
        parts.append(f"{describe(choose_name(names))} gives every element")
    why = "; ".join(part for part in parts if part)
    return replace(measured, why=why, arithmetics=names, unexplained=measured.mismatched or 0, at_fault=measured.on)


def _judge_without_evaluation(foreign: ForeignUnit, measured: Forced, found: RoundingExplanation) -> Forced:
    """Returns the verdict on a unit that has no evaluation: FAILED beyond the plain limit, else INCONCLUSIVE, because
    nothing shows that the elements that differ may differ."""
    names = foreign.find_arithmetics()
    if measured.verdict == "FAILED":
        return replace(measured, arithmetics=names, at_fault=measured.on)
    differ = count(measured.mismatched or 0, "element", "differs", "differ")
    why = f"{differ} and cannot be judged: {found.why}"
    return replace(measured, verdict="INCONCLUSIVE", why=why, unexplained=measured.mismatched or 0, arithmetics=names)


def _judge_places(foreign: ForeignUnit, measured: Forced) -> Forced | None:
    """Returns the verdict of a resize for which the board's own kernel takes its samples at places of its own, or None
    for any other unit."""
    f = foreign
    if not f.kernels or not has_own_places(f.unit, f.graph, f.kernels):
        return None
    found = explain_places(f.unit, f.graph, f.given, f.made, f.recorded, f.kernels)
    if found is None:
        return None
    verdict: Verdict = "FAILED" if found.unexplained else "PASSED"
    return replace(measured, verdict=verdict, limit=found.limit, why=found.why)


def _describe_finding(foreign: ForeignUnit, measured: Forced, found: RoundingExplanation, names: list[str]) -> str:
    """Returns which elements differ, in which direction, whether the inputs are equal, and the arithmetic that gives
    all of them, if that is no chance."""
    parts = [found.why] if found.why and not found.recorded_fits else []
    if found.recorded_fits and found.unexplained:
        parts.append(f"the exact value is that of {named(measured.on)} where {found.why}")
    parts += [describe_direction(foreign.made, foreign.recorded) + _describe_zero_point(foreign)]
    parts += [_describe_channels(foreign, found)]
    shown = measure_evidence(measured) >= EVIDENCE_BITS
    names = [n for n in names if shown or not needs_evidence(foreign.unit, foreign.graph, n)]
    parts += [] if names else [_describe_beside_rounding(foreign)]
    near_ties = (measured.mismatched or 0) - found.unexplained
    if foreign.recorded.dtype.kind in "iu":
        parts.append(f"{near_ties or 'none'} of them near a tie")
    parts.append("the inputs of both sides are equal" if foreign.inputs_same else "the inputs differ")
    if names:
        parts.append(f"{describe(choose_name(names))} gives every element")
    else:
        parts.append(
            describe_multiple(foreign.made, foreign.recorded, foreign.graph.spec(foreign.output), foreign.unit)
        )
    return "; ".join(part for part in parts if part)


def _describe_zero_point(foreign: ForeignUnit) -> str:
    """Returns that all elements that differ do so by the zero point of the tensor, or ""."""
    zero, made, recorded = foreign.graph.spec(foreign.output).zero_point, foreign.made, foreign.recorded
    if len(zero) != 1 or not zero[0] or recorded.dtype.kind not in "iu":
        return ""
    apart = np.unique(recorded[recorded != made].astype(np.int64) - made[recorded != made].astype(np.int64))
    return f", which is its zero point ({zero[0]})" if apart.size == 1 and abs(int(apart[0])) == abs(zero[0]) else ""


def _describe_channels(foreign: ForeignUnit, found: RoundingExplanation) -> str:
    """Returns describe_channels(), without the elements that a rounding near a tie explains, if it does not explain
    all."""
    every = int(np.count_nonzero(foreign.made != foreign.recorded))
    if found.positions is None or not 0 < found.positions.size < every:
        return describe_channels(foreign.made, foreign.recorded)
    wrong = np.zeros(foreign.recorded.size, bool)
    wrong[found.positions] = True
    text = describe_marked_channels(wrong.reshape(foreign.recorded.shape))
    return f"{text}, but for those near a tie" if text else ""


def _describe_beside_rounding(foreign: ForeignUnit) -> str:
    """Returns which elements are left if the side rounds by the legal arithmetic that gives most of those that differ, or
    "" if that gives none."""
    nearest = find_nearest(foreign.rounded, foreign.made, foreign.recorded)
    if nearest is None:
        return ""
    name, computed = nearest
    left = int(np.count_nonzero(computed != foreign.recorded))
    about = [describe_direction(computed, foreign.recorded), describe_channels(computed, foreign.recorded)]
    return f"{describe(name)} gives all but {count(left, 'element')}: {', '.join(text for text in about if text)}"


def describe_direction(made: Array, recorded: Array) -> str:
    """Returns whether the recorded elements that differ are larger or smaller than the computed ones, and by how much,
    or "" for values that are not finite."""
    wide = np.int16 if made.dtype.itemsize == recorded.dtype.itemsize == 1 else np.int64
    kind = np.float64 if made.dtype.kind == "f" else wide
    with np.errstate(invalid="ignore", over="ignore"):
        apart = (recorded.astype(kind) - made.astype(kind)).reshape(-1)
    apart = apart[apart != 0]
    if not apart.size or not np.isfinite(apart).all():
        return ""
    low, high = int(np.count_nonzero(apart < 0)), int(np.count_nonzero(apart > 0))
    if low and high:
        return f"{low} too low, {high} too high"
    steps = np.abs(apart)
    most = f"{steps.max():g}" if steps.min() == steps.max() else f"{steps.min():g} to {steps.max():g}"
    unit = "" if kind is np.float64 else " LSB"
    some = f"all {apart.size}" if apart.size > 1 else "1"
    return f"{some} too {'low' if low else 'high'} by {most}{unit}"
