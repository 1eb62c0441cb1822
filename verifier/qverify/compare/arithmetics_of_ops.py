"""The arithmetics of the catalogue for single elements of each op that it knows, and the exact value."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import TypeVar

import numpy as np

from qverify.arithmetic.linear import apply_to_rows, is_wide
from qverify.arithmetic.multipliers import add_parameters, parameters
from qverify.arithmetic.requantize import half_up, requantize, shifted
from qverify.arithmetic.windows import plane_shape, taps_counted, window_of
from qverify.compare.accumulators import CHANNEL_AXIS, NodeSums, accumulate_taps, has_sums
from qverify.compare.catalogue import CONVERT, LITERT_ADD, MODES, SINGLE, TWICE_HALF_UP
from qverify.compare.error_bounds.bounded_values import Array, Reals
from qverify.compare.error_bounds.documented_kernels import StatedOperands
from qverify.model_bin.graph import Graph, Node
from qverify.ops import add, mul
from qverify.tensors.spec import TensorSpec

Compute = Callable[[Array], Array]  # from flat positions to the integers there
SINGLE_STEP = 2.0**-12  # LSB of 8 bits by which float32 may miss a value, beside the errors of operands

T = TypeVar("T")


@dataclass(frozen=True)
class Exact:
    """The exact value of a node, in LSB before the zero point.

    Attributes:
        steps: function that returns it at flat positions.
        zero: zero point of the output.
        limits: those of the integers.
        dtype: type of the integers.
        scales: those by which integers are multiplied.
        row: number of neighbouring elements that have one scale; runs that are longer consist of whole rows.
        quick: function that returns it in float32 for a run of elements, where it is not far beyond 8 bits; None if
            there is none.
        doubt: largest error of `quick`.
        prepare: function that computes once what `quick` reads.
    """

    steps: Callable[[Array], Reals]
    zero: int
    limits: tuple[int, int]
    dtype: str
    scales: Reals
    row: int = 1
    quick: Callable[[slice], Array] | None = None
    doubt: float = SINGLE_STEP
    prepare: Callable[[], object] = lambda: None

    def approximate(self, run: slice) -> Array:
        """Returns the value for a run of elements within `doubt`, as an array that may be overwritten."""
        return self.quick(run) if self.quick else self.steps(np.arange(run.start, run.stop)).astype(np.float64)

    def cut(self, elements: int, most: int) -> Iterator[slice]:
        """Yields runs of at most `most` elements, or of one row if that is shorter than a row may be cut."""
        step = most // self.row * self.row
        if step:
            yield from (slice(at, min(at + step, elements)) for at in range(0, elements, step))
            return
        for row in range(0, elements, self.row):
            end = min(row + self.row, elements)
            yield from (slice(at, min(at + most, end)) for at in range(row, end, most))


Known = tuple[dict[str, Compute], Exact | None]


def remember(function: Callable[[Array], T]) -> Callable[[Array], T]:
    """Returns a function that does not compute again what it is asked for the same array object as before."""
    last: list[tuple[Array, T]] = []

    def call(at: Array) -> T:
        kept = last[0] if last else None
        if kept is None or kept[0] is not at:
            kept = at, function(at)
            last[:] = [kept]
        return kept[1]

    return call


class _Modes:
    """The integer modes for sums that are multiplied by one scale each. Modes and scales that have the same multipliers
    are computed once for the same positions.

    Args:
        read: function that returns the sums, int64, and the number of the scale of each, at flat positions.
        y: the output.
        limits: limits of the integers.
        wide: whether the sums are int64.
    """

    def __init__(
        self, read: Callable[[Array], tuple[Array, Array]], y: TensorSpec, limits: tuple[int, int], wide: bool
    ):
        self._read, self._y, self._limits, self._wide = remember(read), y, limits, wide
        self._made = remember(lambda at: dict[tuple[str, bytes], Array]())
        self._parameters: dict[tuple[str, str], tuple[Array, bytes]] = {}

    def compute(self, at: Array, mode: str, suffix: str, scale: Reals) -> Array:
        rq, key = self._find_parameters(mode, suffix, scale)
        made = self._made(at)
        if (mode, key) not in made:
            acc, number = self._read(at)
            multiplier, shift = rq if rq.shape[1] == 1 else rq[:, number]
            made[mode, key] = self._store(shifted(acc, multiplier, shift, mode, self._wide))
        return made[mode, key]

    def compute_in_two_steps(self, at: Array, suffix: str, scale: Reals) -> Array:
        (acc, number), rq = self._read(at), self._find_parameters("gemmlowp", suffix, scale)[0]
        multiplier, exponent = rq if rq.shape[1] == 1 else rq[:, number]
        lifted = np.clip(acc << np.maximum(exponent, 0), -(2**31), 2**31 - 1)
        high, right = (lifted * multiplier + 2**30) >> 31, np.maximum(-exponent, 0)
        return self._store(np.where(right > 0, half_up(high, right), high))

    def list(self, scale: Reals, suffix: str = "") -> dict[str, Compute]:
        """Returns the modes with these scales by name, which ends in the suffix."""
        return {mode + suffix: partial(self.compute, mode=mode, suffix=suffix, scale=scale) for mode in MODES}

    def _store(self, value: Array) -> Array:
        return np.clip(value + self._y.zero_point[0], *self._limits).astype(self._y.dtype)

    def _find_parameters(self, mode: str, suffix: str, scale: Reals) -> tuple[Array, bytes]:
        kind = "pow2" if mode.startswith("pow2") else mode
        if (kind, suffix) not in self._parameters:
            rq = parameters(mode, scale, self._wide).astype(np.int64)
            self._parameters[kind, suffix] = rq, rq.tobytes()
        return self._parameters[kind, suffix]


def list_linear(node: Node, graph: Graph, given: Mapping[str, Array], sums: NodeSums) -> Known:
    """Returns the arithmetics of an op that scales one sum, and its exact value."""
    y, limits = graph.spec(node.outputs[0]), (node.words[-2], node.words[-1])
    real = np.atleast_1d(StatedOperands(node, graph, dict(given)).rq)
    if not has_sums(node, graph) or len(y.zero_point) != 1:
        return {}, None
    axis = CHANNEL_AXIS[node.op]
    inner = int(np.prod(y.shape[axis:][1:])) if axis >= 0 and len(y.shape) > axis else 1
    wide = is_wide(*(graph.spec(n).dtype for n in node.inputs[:2] if n is not None and n in graph.tensors), y.dtype)

    def channel(at: Array) -> Array:
        return at // inner % len(real) if len(real) > 1 else np.zeros_like(at)

    modes = _Modes(lambda at: (sums.take(at), channel(at)), y, limits, wide)
    found: dict[str, Compute] = {}
    for suffix, scale in _list_scales(node, graph, real).items():
        if not wide:
            found[TWICE_HALF_UP + suffix] = partial(modes.compute_in_two_steps, suffix=suffix, scale=scale)
        found |= modes.list(scale, suffix)
    steps = remember(lambda at: np.asarray(sums.take(at) * real[channel(at)], np.float64))
    row = 1 if len(real) == 1 else inner if inner > 1 else len(real)
    single = real.astype(np.float32)

    def quick(run: slice) -> Array:
        assert sums.whole is not None
        value = sums.whole.reshape(-1)[run].astype(np.float32)
        if len(real) == 1:
            value *= single[0]
        elif inner == 1 and len(value) < len(real):
            value *= single[run.start % len(real) :][: len(value)]
        elif inner == 1:
            apply_to_rows(np.multiply, value.reshape(-1, len(real)), single)
        else:
            rows = np.arange(run.start // inner, -(-run.stop // inner)) % len(real)
            apply_to_rows(np.multiply, value.reshape(len(rows), -1), single[rows][:, None])
        return value

    exact = Exact(steps, y.zero_point[0], limits, y.dtype, real, row, quick, prepare=partial(getattr, sums, "whole"))
    return found, exact


def _list_scales(node: Node, graph: Graph, real: Reals) -> dict[str, Reals]:
    """Returns the scales of an op by the suffix of the name: as they are, and for an op of two operands as runtimes
    compute them that multiply the operands' scales, or do everything, in float32 (LiteRT: a FULLY_CONNECTED with one
    scale)."""
    names = node.inputs[:2]
    if node.op not in ("conv", "conv_transpose", "fully_connected", "matmul") or None in names:
        return {"": real}
    product = np.multiply(*(np.asarray(graph.spec(n or "").scale, np.float32) for n in names))
    y = np.float32(graph.spec(node.outputs[0]).scale[0])
    ways = (product.astype(np.float64) / np.float64(y), (product / y).astype(np.float64))
    fitting = {
        s: np.atleast_1d(w) for s, w in zip(SINGLE, ways, strict=True) if np.allclose(w, real, rtol=1e-6, atol=0.0)
    }
    return {"": real, **fitting}


def list_pairs(node: Node, graph: Graph, given: Mapping[str, Array]) -> Known:
    """Returns the arithmetics of an addition or a product of two tensors, and the exact value."""
    operands = StatedOperands(node, graph, dict(given))
    names, y = [n or "" for n in node.inputs[:2]], graph.spec(node.outputs[0])
    stored = [graph.constants[n] if n in graph.constants else given[n] for n in names]
    first, second = (v.reshape(-1) for v in np.broadcast_arrays(*stored))
    real, rq = np.atleast_1d(operands.rq), node.inputs[2] or ""
    plain = replace(node, words=(0, *node.words[1:])) if node.op == "add" else node
    formula, wide = add.formula if node.op == "add" else mul.formula, is_wide(*(graph.spec(n).dtype for n in names))
    take = remember(lambda at: (first[at], second[at]))
    changed: dict[str, Graph] = {}

    def in_form(at: Array, mode: str, make: Callable[[str], Array], name: str) -> Array:
        if name not in changed:
            changed[name] = replace(graph, constants={**graph.constants, rq: make(mode)}, rounding=mode)
        return formula(plain, changed[name], *take(at))

    def make(mode: str) -> Array:
        if node.op == "add":
            return add_parameters(mode, float(real[0]), float(real[1]))
        return parameters(mode, real[:1], wide)

    found: dict[str, Compute] = {mode: partial(in_form, mode=mode, make=make, name=mode) for mode in MODES}
    if node.op == "add":
        found[LITERT_ADD] = partial(in_form, mode="gemmlowp", make=lambda mode: _scale_operands(real), name=LITERT_ADD)
    specs = [graph.spec(n) for n in names]
    if any(len(s.zero_point) > 1 for s in specs):
        raise ValueError("operands with several zero points")
    zeros = [s.zero_point[0] if s.zero_point else 0 for s in specs]

    def steps(at: Array) -> Reals:
        a, b = (v.astype(np.float64) - zero for v, zero in zip(take(at), zeros, strict=True))
        return np.asarray(a * real[0] + b * real[1] if node.op == "add" else a * b * real[0])

    single = real.astype(np.float32)

    def quick(run: slice) -> Array:
        a, b = (
            np.subtract(v[run], np.float32(zero), dtype=np.float32)
            for v, zero in zip((first, second), zeros, strict=True)
        )
        a *= single[0]
        if node.op == "add":
            b *= single[1]
            a += b
        else:
            a *= b
        return a

    low, high = node.words[-2:]
    narrow = all(s.numpy_dtype.itemsize == 1 for s in specs)
    doubt = SINGLE_STEP + (float(np.abs(real[:2]).sum()) * 2.0**-13 if node.op == "add" else 0.0)
    return found, Exact(
        remember(steps), y.zero_point[0], (low, high), y.dtype, real, 1, quick if narrow else None, doubt
    )


def _scale_operands(real: Reals) -> Array:
    """Returns the multipliers of both operands of a sum and of the sum itself, int32 [2, 3] (NUMERICS.md, add): LiteRT
    scales the operands one by one. real: their scales in LSB of the output, the second negative for a difference."""
    twice = 2 * float(np.abs(real).max())
    rq = parameters("gemmlowp", [abs(real[0]) / twice, abs(real[1]) / twice, twice / (1 << add.LEFT_SHIFT)])
    return rq * np.sign([[real[0], real[1], 1.0], [1.0, 1.0, 1.0]]).astype(np.int32)


def list_pools(node: Node, graph: Graph, given: Mapping[str, Array]) -> Known:
    """Returns the rounding modes of an average pool, and the exact value."""
    x, y, window = graph.spec(node.inputs[0] or ""), graph.spec(node.outputs[0]), window_of(node.words, dilated=False)
    taps = node.words[0] * node.words[1]
    count = taps_counted(window, plane_shape(x.shape), plane_shape(y.shape), False)
    if not count.all():
        return {}, None
    real = np.float64(x.scale[0]) / np.float64(y.scale[0]) / (np.arange(taps, dtype=np.float64) + 1)
    divisor = np.broadcast_to(taps if node.words[8] else count, (*y.shape[:2], *plane_shape(y.shape))).reshape(-1)
    flat = accumulate_taps(node, graph, given).reshape(-1)
    wide, limits = is_wide(x.dtype, y.dtype), (node.words[-2], node.words[-1])
    modes = _Modes(lambda at: (flat[at], divisor[at] - 1), y, limits, wide)
    steps = remember(lambda at: np.asarray(flat[at] * real[divisor[at] - 1], np.float64))
    return modes.list(real), Exact(steps, y.zero_point[0], limits, y.dtype, real)


def list_changes(node: Node, graph: Graph, given: Mapping[str, Array]) -> Known:
    """Returns the arithmetics of a change of the quantization, and the exact value."""
    x, y = graph.spec(node.inputs[0] or ""), graph.spec(node.outputs[0])
    ratio, zero, limits = float(x.scale[0]) / float(y.scale[0]), y.zero_point[0], np.iinfo(y.dtype)
    ends: tuple[int, int] = int(limits.min), int(limits.max)
    stored = given[node.inputs[0] or ""].reshape(-1)
    centred = remember(lambda at: stored[at].astype(np.int64) - x.zero_point[0])

    def in_mode(at: Array, mode: str) -> Array:
        return requantize(centred(at), parameters(mode, ratio), zero, *ends, y.dtype, mode, False, 0)

    def convert(at: Array) -> Array:
        scaled = centred(at) * int(np.rint(256 * ratio)) + 128 >> 8
        return np.clip(scaled + zero, *ends).astype(y.dtype)

    found: dict[str, Compute] = {mode: partial(in_mode, mode=mode) for mode in MODES}
    steps = remember(lambda at: np.asarray(centred(at) * ratio, np.float64))
    return {**found, CONVERT: convert}, Exact(steps, zero, ends, y.dtype, np.atleast_1d(ratio))


def list_concats(node: Node, graph: Graph, given: Mapping[str, Array]) -> Known:
    """Returns the arithmetics of a concatenation that changes the quantization of its operands, and the exact value."""
    y, ends = graph.spec(node.outputs[0]), np.iinfo(graph.spec(node.outputs[0]).dtype)
    specs = [graph.spec(n or "") for n in node.inputs]
    if any(len(s.scale) != 1 for s in (*specs, y)):
        return {}, None
    real = np.array([s.scale[0] for s in specs]) / y.scale[0]
    stored = [graph.constants[s.name] if s.name in graph.constants else given[s.name] for s in specs]
    flat = np.concatenate(stored, node.words[0]).reshape(-1)  # int8 and uint8 make int16
    numbers = [np.full(v.shape, k, np.uint8 if len(stored) <= 256 else np.int64) for k, v in enumerate(stored)]
    operand = np.concatenate(numbers, node.words[0]).reshape(-1)
    zeros = np.array([s.zero_point[0] for s in specs])
    limits = int(ends.min), int(ends.max)
    read = remember(lambda at: (flat[at].astype(np.int64) - zeros[operand[at]], operand[at]))
    modes = _Modes(read, y, limits, False)

    def convert(at: Array) -> Array:
        centred, number = read(at)
        scaled = centred * np.rint(256 * real).astype(np.int64)[number] + 128 >> 8
        return np.clip(scaled + y.zero_point[0], *limits).astype(y.dtype)

    def steps(at: Array) -> Reals:
        centred, number = read(at)
        return np.asarray(centred * real[number], np.float64)

    single, subtracted = real.astype(np.float32), zeros.astype(np.float32)

    def quick(run: slice) -> Array:
        value = flat[run].astype(np.float32)
        value -= subtracted[operand[run]]
        value *= single[operand[run]]
        return value

    narrow = all(s.numpy_dtype.itemsize == 1 for s in specs)
    exact = Exact(remember(steps), y.zero_point[0], limits, y.dtype, real, 1, quick if narrow else None)
    return {**modes.list(real), CONVERT: convert}, exact
