"""Terms of a node's output before it is rounded, each of which a wrong scale multiplies by a factor."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from qverify import ops
from qverify.triage.case import Array, Case, limits
from qverify.triage.linear_sums import linear
from qverify.triage.pre_rounding import add_ratios, pre_rounding

OFF = 1.0  # LSB by which the terms of a healthy node may be off, where it rounds more than once
LEAST_SLOPED = 8  # entries of a table by which a slope is known


@dataclass(frozen=True, slots=True)
class ScaledTerm:
    """The output before rounding, in LSB, flat: fixed + factor * scaled, where the factor of a healthy node is 1.

    Attributes:
        text: the fault in words, with {} for the wrong value.
        value: the right value, by which the wrong one is named: 1 for a factor.
        offset: what is taken from the value that is named: 1 if a right node has none of the term, else 0.
        low, high: limits of the activation.
        healthy: the healthy output where the term is 0.
    """

    text: str
    fixed: Array
    scaled: Array
    zero_point: int
    low: int
    high: int
    healthy: Array
    value: float = 1.0
    offset: float = 0.0

    def describe(self, number: str) -> str:
        """Returns the fault in words."""
        return self.text.format(number)

    def output(self, factor: float) -> Array:
        """Returns the output with a factor."""
        steps = np.rint(self.fixed + factor * self.scaled) + self.zero_point
        flat = np.where(self.scaled != 0, np.clip(steps, self.low, self.high), self.healthy.reshape(-1))
        return flat.reshape(self.healthy.shape).astype(self.healthy.dtype)


def scaled_terms(case: Case, channel: int | None) -> list[ScaledTerm]:
    """Returns the terms of the case's last node, of which is_healthy() tells whether they give its healthy output.
    channel: the channel of which terms of its own are wanted, too."""
    return case.compute_once(f"scaled terms {channel}", lambda: list(_terms(case, channel)))


def find_one_channel(case: Case) -> int | None:
    """Returns the channel in which all elements that differ lie, or None if there are several, or no channels."""
    sums = linear(case)
    axis = min(1, len(case.spec.shape) - 1) if sums is None else sums.axis
    if not case.spec.shape or case.spec.shape[axis] < 2 or not case.differing.size:
        return None
    channels = np.unique(np.unravel_index(case.differing, case.spec.shape)[axis])
    return int(channels[0]) if len(channels) == 1 else None


def is_healthy(case: Case, term: ScaledTerm) -> bool:
    """Returns whether the term gives the healthy output."""
    apart = np.abs(term.output(1.0).astype(np.float64) - case.healthy)
    return bool(apart.max(initial=0.0) <= OFF)


def _terms(case: Case, channel: int | None) -> Iterator[ScaledTerm]:
    spec = case.spec
    if not spec.quantized or len(spec.scale) != 1 or spec.numpy_dtype.kind not in "iu" or len(case.unit.nodes) > 1:
        return
    op = case.last.op
    if op == "add":
        yield from _terms_of_add(case, channel)
    elif op == "lookup":
        yield from _terms_of_table(case)
    elif op == "concat":
        yield from _terms_of_concat(case)
    elif linear(case) is not None:
        yield from _terms_of_sum(case, channel)
    elif (before := pre_rounding(case)) is not None:
        text = "the result is scaled by {} times the right factor"
        yield _make(case, text, np.zeros(spec.elements), before.steps.reshape(-1), before.low, before.high)


def _mask(case: Case, channel: int, axis: int) -> Array:
    """Returns 1 for the elements of a channel and 0 for others, flat."""
    return (np.indices(case.spec.shape)[axis].reshape(-1) == channel).astype(np.float64)


def _added(case: Case, steps: Array, clip: tuple[int, int], axis: int, channel: int | None) -> ScaledTerm:
    """Returns the constant that is added before rounding, everywhere or in a channel. steps: the output before rounding,
    flat."""
    mask = np.ones(case.spec.elements) if channel is None else _mask(case, channel, axis)
    where = "" if channel is None else f" in channel {channel} (its bias)"
    term = _make(case, f"{{}} LSB are added before rounding{where}", steps - mask, mask, *clip)
    return replace(term, offset=1.0)


def _make(
    case: Case,
    text: str,
    fixed: Array,
    scaled: Array,
    low: int | None = None,
    high: int | None = None,
    value: float = 1.0,
) -> ScaledTerm:
    least, most = limits(case.spec)
    low, high = least if low is None else max(low, least), most if high is None else min(high, most)
    return ScaledTerm(text, fixed, scaled, case.spec.zero_point[0], low, high, case.healthy, value)


def _terms_of_add(case: Case, channel: int | None) -> Iterator[ScaledTerm]:
    names, words = [n or "" for n in case.last.inputs[:2]], ops.words(case.last)
    values = [case.inputs[n] if n in case.inputs else case.graph.constants[n] for n in names]
    parts = [
        np.broadcast_to((v.astype(np.float64) - case.graph.spec(n).zero_point[0]) * ratio, case.spec.shape).reshape(-1)
        for v, n, ratio in zip(values, names, add_ratios(case), strict=True)
    ]
    whole = parts[0] + parts[1]
    clip = words["act_min"], words["act_max"]
    yield _added(case, whole, clip, min(1, len(case.spec.shape) - 1), channel)
    for name, own, other in zip(names, parts, parts[::-1], strict=True):
        text = f"the scale of the operand {name} is {{}} times the right one"
        yield _make(case, text, other, own, words["act_min"], words["act_max"])
    text = "the scale of the result: the sum is {} times the right one"
    yield _make(case, text, np.zeros(case.spec.elements), whole, words["act_min"], words["act_max"])


def _terms_of_sum(case: Case, channel: int | None) -> Iterator[ScaledTerm]:
    sums = linear(case)
    assert sums is not None
    steps = (sums.acc * sums.along(sums.real)).astype(np.float64).reshape(-1)
    nothing = np.zeros_like(steps)
    yield _added(case, steps, (sums.low, sums.high), sums.axis, channel)
    what = "the product of both operands" if case.last.op == "mul" else "the sum"
    yield _make(case, f"{what} is scaled by {{}} times the right factor (a scale)", nothing, steps, sums.low, sums.high)
    if channel is not None:
        text = f"the scale of channel {channel} is {{}} times the right one"
        yield _make(case, text, nothing, steps * _mask(case, channel, sums.axis), sums.low, sums.high)
    if case.last.op in ("conv", "conv_transpose", "fully_connected") and (bias := case.last.inputs[2]) is not None:
        added = np.broadcast_to(sums.along(case.graph.constants[bias].reshape(-1) * sums.real), case.spec.shape)
        fixed = added.astype(np.float64).reshape(-1)
        text = "the products are scaled by {} times the right factor (a scale), the bias is not"
        yield _make(case, text, fixed, steps - fixed, sums.low, sums.high)


def _terms_of_concat(case: Case) -> Iterator[ScaledTerm]:
    axis, start = case.last.words[0], 0
    for name in (n for n in case.last.inputs if n is not None):
        spec = case.graph.spec(name)
        where = [slice(None)] * len(case.spec.shape)
        where[axis] = slice(start, start + spec.shape[axis])
        start += spec.shape[axis]
        values = case.inputs.get(name, case.graph.constants.get(name))
        if values is None or not spec.quantized or len(spec.scale) != 1:
            continue
        scaled = np.zeros(case.spec.shape)
        ratio = np.float64(spec.scale[0]) / np.float64(case.spec.scale[0])
        scaled[tuple(where)] = (values.astype(np.float64) - spec.zero_point[0]) * ratio
        yield _make(
            case,
            f"the scale of the operand {name} is {{}} times the right one",
            np.zeros(scaled.size),
            scaled.reshape(-1),
        )


def _terms_of_table(case: Case) -> Iterator[ScaledTerm]:
    """Yields the slope of negative values, if the table has one (LeakyRelu)."""
    name = case.last.inputs[0] or ""
    spec, x = case.graph.spec(name), case.inputs.get(name)
    if x is None or not spec.quantized or len(spec.scale) != 1:
        return
    steps = (x.astype(np.float64) - spec.zero_point[0]).reshape(-1) * spec.scale[0] / np.float64(case.spec.scale[0])
    real = case.healthy.reshape(-1).astype(np.float64) - case.spec.zero_point[0]
    low, high = limits(case.spec)
    negative = (steps < 0) & (case.healthy.reshape(-1) > low) & (case.healthy.reshape(-1) < high)
    positive = np.abs(np.rint(steps) - real) <= OFF
    if (
        len(np.unique(steps[negative])) < LEAST_SLOPED
        or not positive[(steps > 0) & (case.healthy.reshape(-1) < high)].all()
    ):
        return
    ends = np.stack([(real - 0.5)[negative], (real + 0.5)[negative]]) / steps[negative]
    slope = (ends.min(0).max() + ends.max(0).min()) / 2
    text = f"the slope of negative values is {{}} instead of {slope:.3g}"
    yield _make(case, text, np.zeros(steps.size), np.where(steps < 0, steps * slope, 0.0), value=float(slope))
