"""An average pool divides by the count of another window or of other taps, multiplies by a short reciprocal of the
count, or scales a mean that was rounded to a whole number."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import numpy as np

from qverify.arithmetic import functions64
from qverify.triage.altered_kernels.narrow_floats import FORMATS, Narrow, fixed, significant
from qverify.triage.altered_kernels.rounding_rules import EVEN, RULES, Rule, half_up
from qverify.triage.altered_kernels.summed_elements import (
    PooledElements,
    SummedElements,
    as_pooled,
    elements,
    fitting,
    words_of,
)
from qverify.triage.altered_kernels.text_priors import prior
from qverify.triage.case import Array, Case
from qverify.triage.hypotheses import FaultVariant

NAME = "pool-counts"
OPS = ("average_pool",)
LATE = -1
CUTS: dict[str, Rule] = {"rounded": half_up, "cut off": np.floor, "rounded up": np.ceil}
LAST = (EVEN, "half up", "half away from zero", "down (floor)", "toward zero (truncated)")
MOST_TEXTS = 6
NEARLY = 2.0**-10  # largest relative error of a reciprocal that is nearly right
NEARLY_RIGHT = 3.0  # additional bits of such a reciprocal
NEAR = "(nearly right)"  # marks its text
Ways = Iterator[tuple[str, Callable[[SummedElements], Array]]]


def variants(case: Case) -> Iterator[FaultVariant]:
    if case.last.op == "average_pool":
        yield from fitting(case, _ways(case), in_parts=True, bits=_likely)


def _likely(text: str) -> float:
    return 0.7 if "before it" in text else prior(text) + (NEARLY_RIGHT if NEAR in text else 0.0)


def _ways(case: Case) -> Ways:
    if not words_of(case)["count_include_pad"]:
        for text, way in _SIDES.items():
            yield f"the sum is divided by a count in which {text}", partial(_by_sides, way=way)
        yield from _yield_other_counts(case)
    for text, change in _POWERS.items():
        yield f"the sum is divided by {text} the count (a shift)", partial(_changed, change=change)
    for text, over in _CARRIED.items():
        yield f"the sum is not cleared: {text}", partial(_carried, over=over, counted=False)
        yield f"neither the sum nor its count is cleared: {text}", partial(_carried, over=over, counted=True)
    yield from _yield_reciprocals(case)


_CARRIED: dict[str, Callable[[Array], Array]] = {
    "it goes on along an output row": lambda v: np.cumsum(v, -1),
    "it goes on over an output plane": lambda v: np.cumsum(v.reshape(*v.shape[:2], -1), -1).reshape(v.shape),
    "the sum of the output before it in its row is added": lambda v: (
        v + np.roll(v, 1, -1) * (np.arange(v.shape[-1]) > 0)
    ),
}


def _carried(e: SummedElements, over: Callable[[Array], Array], counted: bool) -> Array:
    case = e.case
    every = case.compute_once("pooled elements", lambda: _sums_and_counts(case))
    changed = PooledElements(case, e.places)
    if counted:
        changed.__dict__["divisor"] = over(every[1]).reshape(-1)[e.places]
    return changed.requantized(over(every[0]).reshape(-1)[e.places])


def _sums_and_counts(case: Case) -> tuple[Array, Array]:
    """Returns the sums and their divisors in the output's shape."""
    every = as_pooled(elements(case, np.arange(case.recorded.size)))
    return every.acc.reshape(case.spec.shape), every.divisor.reshape(case.spec.shape)


_POWERS: dict[str, Callable[[Array], Array]] = {
    "the power of two not above": lambda n: np.int64(1) << np.floor(functions64.log2(n)).astype(np.int64),
    "the power of two not below": lambda n: np.int64(1) << np.ceil(functions64.log2(n)).astype(np.int64),
    "the power of two nearest to": lambda n: np.int64(1) << np.rint(functions64.log2(n)).astype(np.int64),
    "one less than": lambda n: n - 1,
    "twice": lambda n: 2 * n,
}


def _changed(e: SummedElements, change: Callable[[Array], Array]) -> Array:
    return _divided(e, change(as_pooled(e).divisor))


def _yield_reciprocals(case: Case) -> Ways:
    """Yields faults of short reciprocals. Those that are the same for all counts of this node have one text."""
    counts = np.unique(as_pooled(elements(case, np.arange(int(np.prod(case.spec.shape))))).divisor)
    exact = 1.0 / counts.astype(np.float64)
    texts: dict[bytes, list[str]] = {}
    ways: dict[bytes, Narrow] = {}
    for text, narrow in _reciprocals():
        values = narrow(exact)
        if (np.abs(values - exact) > 2.0**-30 * exact).any():
            texts.setdefault(values.tobytes(), []).append(text)
            ways.setdefault(values.tobytes(), narrow)
    for key, ones in texts.items():
        near = f" {NEAR}" if (np.abs(ways[key](exact) - exact) < NEARLY * exact).all() else ""
        one = (
            ones[0] + near
            if len(ones) < 2
            else f"in too few bits, any of these here: {'; '.join(ones[:MOST_TEXTS])}{near},"
        )
        for last in LAST:
            end = f", the result rounded {last}" if last != EVEN else ""
            divided = f"the sum is multiplied by the reciprocal of the count {one} instead of divided{end}"
            yield divided, partial(_reciprocal, narrow=ways[key], rule=RULES[last], whole=None)
            yield (
                f"the sum is multiplied by the reciprocal of the count {one} and rounded {last} to an integer, then scaled",
                partial(_reciprocal, narrow=ways[key], rule=np.rint, whole=RULES[last]),
            )


def _reciprocals() -> Iterator[tuple[str, Narrow]]:
    for cut, rule in CUTS.items():
        for bits in range(4, 25):
            yield (
                f"as a {bits}-bit fraction (a multiple of 1/{1 << bits}, {cut})",
                partial(fixed, bits=bits, rounded=rule),
            )
        for bits in range(4, 20):
            yield f"with {bits} significant bits ({cut})", partial(significant, bits=bits, rounded=rule)
    for name, narrow in FORMATS.items():
        if not name.startswith("float32"):
            yield f"in {name}", partial(_through_float32, narrow=narrow)


def _through_float32(values: Array, narrow: Narrow) -> Array:
    return narrow(values.astype(np.float32)).astype(np.float64)


def _reciprocal(e: SummedElements, narrow: Narrow, rule: Rule, whole: Rule | None) -> Array:
    mean = e.acc * narrow(1.0 / as_pooled(e).divisor.astype(np.float64))
    if whole is not None:
        mean = whole(mean)
    return e.finished(rule(mean * float(e.sums.real[0])))


def _divided(e: SummedElements, divisor: Array) -> Array:
    changed = PooledElements(e.case, e.places)
    changed.__dict__["divisor"] = np.maximum(divisor, 1)
    return changed.added(e.summands.products)


_SIDES: dict[str, tuple[bool, bool, bool, bool]] = {  # whether padding above, below, left and right is counted
    "padding below and to the right of the input counts (only taps above and to the left are left out)": (
        False,
        True,
        False,
        True,
    ),
    "padding above and to the left of the input counts (only taps below and to the right are left out)": (
        True,
        False,
        True,
        False,
    ),
    "padding above counts": (True, False, False, False),
    "padding below counts": (False, True, False, False),
    "padding to the left counts": (False, False, True, False),
    "padding to the right counts": (False, False, False, True),
    "padding above and below counts": (True, True, False, False),
    "padding to the left and right counts": (False, False, True, True),
}


def _by_sides(e: SummedElements, way: tuple[bool, bool, bool, bool]) -> Array:
    s, shape = e.summands, e.case.graph.spec(e.case.last.inputs[0] or "").shape
    height, width = (1, shape[2]) if len(shape) == 3 else (shape[2], shape[3])
    above, below, left, right = way
    rows = ((s.row >= 0) | above) & ((s.row < height) | below)
    columns = ((s.column >= 0) | left) & ((s.column < width) | right)
    return _divided(e, (rows & columns).reshape(len(e.places), -1).sum(1))


def _yield_other_counts(case: Case) -> Ways:
    shape = case.spec.shape
    names = ("batch item", "channel", "row", "column") if len(shape) == 4 else ("batch item", "channel", "column")
    for axis in range(2, len(shape)):
        for text, step in (("before it", -1), ("after it", 1)):
            yield (
                f"the sum is divided by the count of valid taps of the output {names[axis]} {text} (at the end by its own)",
                partial(_other, axis=axis, step=step),
            )
        yield (
            f"the sum is divided by the count of valid taps of the first output {names[axis]}, for all of them",
            partial(_other, axis=axis, step=0),
        )
        yield (
            f"the sum is divided by the count of valid taps of the last output {names[axis]}, for all of them",
            partial(_other, axis=axis, step=2),
        )
    for text, step in (("before it", -1), ("after it", 1)):
        yield (
            f"the sum is divided by the count of valid taps of the output {text} in memory",
            partial(_other, axis=-1, step=step),
        )
    if len(shape) == 4:
        yield "the sum is divided by the count of the window with rows and columns exchanged", _exchanged


def _other(e: SummedElements, axis: int, step: int) -> Array:
    shape = e.case.spec.shape
    if axis < 0:
        places = np.clip(e.places + step, 0, int(np.prod(shape)) - 1)
    else:
        at = list(np.unravel_index(e.places, shape))
        last = shape[axis] - 1
        at[axis] = 0 * at[axis] + (0 if step == 0 else last) if step in (0, 2) else np.clip(at[axis] + step, 0, last)
        places = np.ravel_multi_index(at, shape)
    return _divided(e, as_pooled(elements(e.case, places)).divisor)


def _exchanged(e: SummedElements) -> Array:
    shape = e.case.spec.shape
    b, c, i, j = np.unravel_index(e.places, shape)
    places = np.ravel_multi_index((b, c, np.minimum(j, shape[2] - 1), np.minimum(i, shape[3] - 1)), shape)
    return _divided(e, as_pooled(elements(e.case, places)).divisor)
