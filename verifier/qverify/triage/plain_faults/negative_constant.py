"""A constant is added to negative values of a sloped function (PRelu, LeakyRelu): a zero point is not handled there."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np

from qverify.arithmetic.functions64 import log2_of
from qverify.model_bin.float_functions import NAMES
from qverify.ops import float_word
from qverify.triage.altered_kernels.replaced_kernels import nodes_of, operands
from qverify.triage.case import Array, Case, limits
from qverify.triage.hypotheses import FaultVariant
from qverify.triage.one_row import is_beyond
from qverify.triage.plain_faults.scale_factor import SLACKS, choose_number
from qverify.triage.pre_rounding import pre_rounding

NAME = "negative-constant"
OPS = ("elementwise_float", "lookup")
WIDEST, FINEST = 3.0, 2.0**-30  # of the interval of constants: a wider one shows nothing
NEAR = 2.0**-7  # of such an interval, where a known constant fits: `steps` has a resolution of 2^-12
LEAST_SLOPED = 8  # entries of a table by which a slope is known
SLOPE_SPREAD = 1e-3  # of the slopes of a table's entries, where nothing is rounded
MOST_NAMED = 4  # channels


@dataclass(frozen=True, slots=True)
class _Sloped:
    """A sloped function of one tensor. steps: the output before rounding, in LSB, flat. negative: mask of the negative
    inputs, flat. slope: of each channel, or one. channel: of each element, flat. ratio: scale of the input divided by
    that of the output."""

    steps: Array
    negative: Array
    slope: Array
    channel: Array
    zero_x: int
    zero_y: int
    ratio: float


KNOWN: dict[str, Callable[[_Sloped], Array]] = {
    "(1 - slope) * (zero point of the input - that of the output)": lambda p: (1 - p.slope) * (p.zero_x - p.zero_y),
    "(1 - slope) * the zero point of the input": lambda p: (1 - p.slope) * p.zero_x,
    "(1 - slope) * the zero point of the output": lambda p: (1 - p.slope) * p.zero_y,
    "slope * the zero point of the input, which is not subtracted,": lambda p: p.slope * p.zero_x * p.ratio,
    "slope * the zero point of the input": lambda p: p.slope * p.zero_x,
    "slope * the zero point of the output": lambda p: p.slope * p.zero_y,
    "the zero point of the input": lambda p: p.zero_x + 0 * p.slope,
    "minus the zero point of the output, which is left out,": lambda p: -p.zero_y + 0 * p.slope,
}


def variants(case: Case) -> Iterator[FaultVariant]:
    of = _sloped(case)
    if of is None or not of.negative.any() or is_beyond(case.healthy, case.recorded, 1).reshape(-1)[~of.negative].any():
        return
    ends = next((e for slack in SLACKS if (e := _find_constants(case, of, slack)) is not None), None)
    if ends is None:
        return
    known = [text for text, formula in KNOWN.items() if _is_within(formula(of), ends)]
    for text in known:
        yield FaultVariant(f"{text} is added to negative values", partial(_moved, formula=text), 5.0)
    if not known:
        yield from _measured(ends)


def _is_within(value: Array, ends: Array) -> bool:
    """Returns whether a constant, or one of each channel, is within its limits, and not 0 everywhere."""
    shown = ~np.isnan(ends[:, 0])
    inside = (value >= ends[:, 0] - NEAR) & (value <= ends[:, 1] + NEAR)
    return bool(value.any() and inside[shown].all())


def _measured(ends: Array) -> Iterator[FaultVariant]:
    """Yields the constants that these intervals leave: one for all channels, or one for each."""
    low, high = float(np.nanmax(ends[:, 0])), float(np.nanmin(ends[:, 1]))
    if low <= high:
        number = choose_number(low, high)
        yield FaultVariant(
            f"a constant is added to negative values: {number:+g} steps of the output (a zero point is not handled there)",
            partial(_moved, constants=np.array([number])),
            3.0 + log2_of(8 * WIDEST / max(high - low, FINEST)),
        )
        return
    numbers = np.array([0.0 if np.isnan(a) else choose_number(float(a), float(b)) for a, b in ends])
    named = ", ".join(f"{n:+g}" for n in numbers[:MOST_NAMED]) + (" ..." if len(numbers) > MOST_NAMED else "")
    widths = [max(b - a, FINEST) for a, b in ends.tolist() if a == a]
    bits = 3.0 + sum(log2_of(512 / width) for width in widths)
    text = f"a constant of each channel is added to negative values (a zero point is not handled there): {named} steps"
    yield FaultVariant(text, partial(_moved, constants=numbers), bits)


def _moved(case: Case, constants: Array | None = None, formula: str = "") -> Array:
    """Returns the output with a constant, or what a formula of KNOWN gives, added to negative values."""
    of = _sloped(case)
    if of is None:
        raise ValueError("the unit has no slope on these inputs")
    added = KNOWN[formula](of) if constants is None else constants
    added = np.broadcast_to(added, (len(added),))[of.channel % len(added)]
    moved = np.clip(np.rint(of.steps + added) + of.zero_y, *limits(case.spec))
    return np.where(of.negative, moved, case.healthy.reshape(-1)).reshape(case.spec.shape).astype(case.spec.numpy_dtype)


def _find_constants(case: Case, of: _Sloped, slack: float) -> Array | None:
    """Returns the limits of the constant in each channel, [C, 2], NaN where no element shows it; None if there are none,
    or if they show nothing."""
    low, high = limits(case.spec)
    recorded = case.recorded.reshape(-1)
    seen = of.negative & (recorded > low) & (recorded < high)
    apart = recorded.astype(np.float64) - of.zero_y - of.steps
    ends = np.full((int(of.channel.max()) + 1, 2), np.nan)
    for channel in range(len(ends)):
        own = apart[seen & (of.channel == channel)]
        if len(own):
            ends[channel] = own.max() - 0.5 - slack, own.min() + 0.5 + slack
    shown = ends[~np.isnan(ends[:, 0])]
    is_one = len(shown) and (shown[:, 0] <= shown[:, 1]).all() and (shown[:, 1] - shown[:, 0] < WIDEST).all()
    return ends if is_one and not ((shown[:, 0] <= 0) & (shown[:, 1] >= 0)).all() else None


def _sloped(case: Case) -> _Sloped | None:
    """Returns the unit's sloped function, or None if it has none."""
    return case.compute_once("sloped function", lambda: _find_sloped(case))


def _find_sloped(case: Case) -> _Sloped | None:
    name, y = case.unit.inputs[0] if len(case.unit.inputs) == 1 else "", case.spec
    if not name or not y.quantized or len(y.scale) != 1 or y.numpy_dtype.kind not in "iu":
        return None
    x = case.graph.spec(name)
    if not x.quantized or len(x.scale) != 1 or x.numpy_dtype.kind not in "iu" or x.shape != y.shape:
        return None
    centred = (case.inputs[name].astype(np.float64) - x.zero_point[0]).reshape(-1)
    ratio = float(np.float64(x.scale[0]) / np.float64(y.scale[0]))
    found = _of_table(case, centred * ratio) if case.last.op == "lookup" else _of_floats(case)
    if found is None:
        return None
    steps, slope = found
    along = case.spec.shape[1] if len(case.spec.shape) > 1 else 1
    every = np.arange(centred.size) // max(1, int(np.prod(case.spec.shape[2:]))) % along
    return _Sloped(
        steps, centred < 0, slope, every if along > 1 else 0 * every, x.zero_point[0], y.zero_point[0], ratio
    )


def _of_floats(case: Case) -> tuple[Array, Array] | None:
    """Returns the output before rounding, flat, and the slopes of a PRelu or LeakyRelu between two changes of type."""
    nodes = nodes_of(case, "elementwise_float")
    before = pre_rounding(case) if len(nodes) == 1 and case.last.op == "quantize" else None
    kind = NAMES.get(nodes[0].words[0]) if before is not None else ""
    if before is None or kind not in ("prelu", "leaky_relu"):
        return None
    if kind == "leaky_relu":
        return before.steps.reshape(-1), np.array([float(float_word(nodes[0].words[1]))])
    slope = operands(case, nodes[0])[1].astype(np.float64)
    is_channel = slope.size == 1 or (len(case.spec.shape) > 1 and slope.size == case.spec.shape[1])
    return (before.steps.reshape(-1), slope.reshape(-1)) if is_channel else None


def _of_table(case: Case, centred: Array) -> tuple[Array, Array] | None:
    """Returns the output before rounding, flat, and the slope that the entries of negative inputs show, if the function
    before rounding is known and they have one."""
    real = case.graph.real_tables.get(case.output)
    if real is None or len(case.unit.nodes) > 1:
        return None
    source = case.inputs[case.unit.inputs[0]]
    steps = real()[source.reshape(-1).astype(np.int64) - int(np.iinfo(source.dtype).min)]
    negative = centred < 0
    if len(np.unique(centred[negative])) < LEAST_SLOPED or np.abs(steps - centred)[~negative].max(initial=0.0) > 1.0:
        return None
    slopes = steps[negative] / centred[negative]
    slope = float(np.median(slopes))
    return (steps, np.array([slope])) if np.abs(slopes - slope).max() <= SLOPE_SPREAD else None
