"""Evaluates the values that a runtime other than qvrt may compute. The kernels of LiteRT and onnxruntime round in ways
that are known (NUMERICS.md section 4) but different, so that the results of two of them differ only near a tie. A
runtime that is not known has the distance from a tie that every one of them keeps to with a single rounding.

Each evaluation takes a unit, the inputs that one side recorded, and flat positions in an output. It yields the values
at these positions with the largest error of any of these kernels, of which "" are those that are not known."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import reduce

import numpy as np

from qverify.arithmetic import functions64
from qverify.arithmetic.multipliers import add_parameters
from qverify.arithmetic.requantize import half_up, stated_scale, subtracts
from qverify.compare.accumulators import CHANNEL_AXIS, NodeSums, accumulate_sizes
from qverify.compare.error_bounds import chain, integer_sums, rows
from qverify.compare.error_bounds.bounded_values import (
    TINY,
    Array,
    BoundedValue,
    NoBound,
    Real,
    Reals,
    Whole,
    bound_exactly,
    gamma,
    read_inputs,
    require_real,
    round_interval,
)
from qverify.compare.error_bounds.probable import is_probable
from qverify.model_bin.changes_of_quantization import is_change_of_quantization
from qverify.model_bin.graph import Graph, Node
from qverify.model_bin.units import Unit

MAX_TERMS = 1 << 28  # of one tensor, which takes some ten seconds
# Errors, in LSB of the output unless the comment states otherwise:
ZERO_POINT_SUM = 2.0**-16  # of adding the zero point in float32 before the rounding
MULTIPLIER = 2.0**-29  # of an integer multiplier with 30 bits or more; relative
ADD_MULTIPLIERS = 510 * 2.0**-21 + 2.0**-17  # of 21-bit multipliers and operands rounded to 2^-19; per larger ratio
CONVERT_STEP = (
    2.0**-9
)  # of XNNPACK's change of quantization, by a multiplier with 8 fraction bits; per step of the input
RESIZE = 255 * 2.0**-11  # of XNNPACK's weights of rows and columns, which have 11 bits
RESIZE_PLACES = 255 * 2.0**-21  # of places computed in float32; per element of the longest axis
SOFTMAX = 2.0**-20  # of LiteRT's sums of exponentials with 19 fraction bits; relative, per term
TABLE = 2.0**-18  # of a function in float32, whose real values onnxruntime computed; relative to 1 + the value
BATCH_NORM = 2.0**-18  # of the factor and the summand that the compiler rounded; relative to both terms
IN_CACHE = 1 << 15  # elements that are evaluated at once, so that they stay in a second-level cache
SHARE_AT_ONCE = 0.1  # of a tensor's elements, from which its whole accumulator is faster than sums one by one
SUMMED_AT_ONCE = ("conv", "conv_transpose", "fully_connected", "matmul")
SCALED_AFTER_SUM = frozenset({"conv", "conv_transpose", "fully_connected", "matmul", "mul"})


def evaluate_documented(
    unit: Unit,
    output: str,
    graph: Graph,
    given: Mapping[str, Array],
    at: Array,
    kernels: str,
    made: Mapping[str, Array] | None = None,
    acc: NodeSums | None = None,
) -> Iterator[chain.Part]:
    """Yields the bounded values at these flat positions of one output, in parts. kernels: the kernels of the recorded
    side, as in Recording.kernels. made: as in chain.evaluate_unit(). acc: the accumulator of the first node, if somebody shares
    it. Raises NoBound if the unit has no evaluation, TooMany for too many positions, and ValueError or IndexError for
    inputs that do not fit."""
    with np.errstate(all="ignore"):
        first, *others = unit.nodes
        if chain.sums_integers(first, graph):
            if any(n.op != "lookup" for n in others):
                raise NoBound(next(n.op for n in others if n.op != "lookup"))
            acc = acc or NodeSums(first, graph, given)
            for part, whole in _evaluate_sums(StatedOperands(first, graph, dict(given)), at, kernels, acc):
                for node in others:
                    assert isinstance(whole, Whole)
                    whole = chain.look_up(
                        whole, graph.constants[node.inputs[1] or ""], graph.spec(node.inputs[0] or "").dtype
                    )
                yield part, whole
            return
        of_integers = graph.spec(output).numpy_dtype.kind in "iu"
        page = _OWN_PAGES.get(first.op) if of_integers and not others else None
        if page is not None:
            yield page(unit, graph, given, at, kernels)
            return
        if why := chain.explain_missing_evaluation(unit, graph, PAGES):
            raise NoBound(why.removeprefix("no float64 evaluation of "))
        for part, value in chain.evaluate_unit(unit, output, graph, given, at, made, PAGES):
            yield part, replace(value, ours=None)


class TooMany(Exception):
    """Raised if more elements differ than are evaluated. The text states their number."""


SINGLE = 2.0**-21  # relative error of a scale that was computed in float32


class StatedOperands(integer_sums.SumOperands):
    """Operands with the scales that the tensors state, whatever the multipliers in model.bin are."""

    @property
    def rq(self) -> Reals:
        stored = self.graph.constants[next(n for n in reversed(self.node.inputs) if n is not None)]
        scale = {n: np.asarray(self.graph.spec(n).scale, np.float64) for n in self.node.inputs if n is not None}
        x = scale[self.node.inputs[0] or ""]
        y = np.asarray(self.graph.spec(self.node.outputs[0]).scale or (1.0,), np.float64)  # real values: not divided
        if self.node.op in SCALED_AFTER_SUM:
            real = x * scale[self.node.inputs[1] or ""] / y
            if self.node.op == "fully_connected" and stored.dtype.kind == "f":  # its scales may include alpha
                used = stated_scale(np.asarray(stored), "", False)
                return real if np.allclose(used, real, rtol=SINGLE, atol=0.0) else used
            return real
        if self.node.op == "add":
            sign = -1.0 if subtracts(np.asarray(stored)) else 1.0
            return np.array([x[0] / y[0], sign * scale[self.node.inputs[1] or ""][0] / y[0]])
        part = self.graph.spec(self.node.inputs[0] or "").elements / self.graph.spec(self.node.outputs[0]).elements
        return x / y / (1.0 if self.node.op == "average_pool" else part)


def _evaluate_sums(o: StatedOperands, at: Array, kernels: str, acc: NodeSums) -> Iterator[tuple[Array, BoundedValue]]:
    """Yields the bounded values of an op that sums integers, in parts. acc: its accumulator."""
    terms, y = integer_sums.terms_of(o), o.graph.spec(o.node.outputs[0])
    if o.has_float_output:
        yield from ((part, replace(value, ours=None)) for part, value in _evaluate_float_sums(o, at, terms))
        return
    low, high = o.node.words[-2:]
    many = terms * len(at) > integer_sums.TERMS_AT_ONCE or len(at) > y.elements * SHARE_AT_ONCE
    at_once = o.node.op in SUMMED_AT_ONCE and many and (o.node.integer_reference or not is_probable())
    whole = _WholeSums.of(o, kernels, acc) if at_once else None
    if whole is not None:
        for part in (at[start : start + IN_CACHE] for start in range(0, len(at), IN_CACHE)):
            sums = whole.take(part)
            yield part, round_interval(sums.value, _error(o, sums, kernels), y.zero_point[0], (low, high))
        return
    if terms * len(at) > MAX_TERMS:
        raise TooMany(f"{len(at)} elements differ, more than are evaluated")
    step = -(-integer_sums.TERMS_AT_ONCE // terms)  # rounded up, so that it is at least 1
    step = min(step, IN_CACHE) if o.node.op in ("add", "mul") else step
    for part in (at[start : start + step] for start in range(0, len(at), step)):
        sums = integer_sums.SUMS[o.node.op](o, part)
        yield part, round_interval(sums.value, _error(o, sums, kernels), y.zero_point[0], (low, high))


def _evaluate_float_sums(o: StatedOperands, at: Array, terms: int) -> Iterator[tuple[Array, BoundedValue]]:
    """Yields the bounded values of a sum that is scaled to float32."""
    step = -(-integer_sums.TERMS_AT_ONCE // terms)
    for part in (at[start : start + step] for start in range(0, len(at), step)):
        yield part, integer_sums.bound_elements(o, part)


@dataclass(frozen=True, slots=True)
class _WholeSums:
    """The sums of all elements. sizes: those of the magnitudes of the products; None for known kernels, which compute the
    sums exactly, so that no error depends on the terms."""

    operands: StatedOperands
    acc: Array
    sizes: Array | None

    @staticmethod
    def of(o: StatedOperands, kernels: str, acc: NodeSums) -> _WholeSums | None:
        """Returns the sums of a node, or None if it has none."""
        is_exact = o.node.integer_reference and bool(kernels)
        sizes = None if is_exact else accumulate_sizes(o.node, o.graph, o.given)
        if acc.whole is None or (sizes is None and not is_exact):
            return None
        return _WholeSums(o, acc.whole, sizes)

    def take(self, at: Array) -> integer_sums.IntegerSums:
        """Returns the sums at these positions."""
        o, axis = self.operands, CHANNEL_AXIS[self.operands.node.op]
        inner = int(np.prod(self.acc.shape[axis:][1:])) if axis >= 0 else 1
        channel = at // inner % self.acc.shape[axis]
        scale = o.scale(channel if np.atleast_1d(o.rq).size > 1 else np.zeros_like(channel))
        value = self.acc.reshape(-1)[at] * scale
        if self.sizes is None:
            return integer_sums.IntegerSums(value, np.abs(value), 1, 0.0, scale)
        bias = o.bias(channel) if len(o.node.inputs) > 3 else None
        size = self.sizes.reshape(-1)[at] + (0.0 if bias is None else np.abs(bias))
        terms = integer_sums.terms_of(o) // (o.node.words[10] if o.node.op == "conv_transpose" else 1)
        return integer_sums.IntegerSums(value, size * scale, terms, 0.0 if bias is None else 0.5 * scale, scale)


def _error(o: StatedOperands, sums: integer_sums.IntegerSums, kernels: str) -> Reals:
    """Returns the largest error of the sums before their last rounding, in LSB."""
    size = np.abs(sums.value)
    if o.node.op == "add":
        return gamma(10) * sums.size + float(np.abs(o.rq).max()) * ADD_MULTIPLIERS + ZERO_POINT_SUM
    if o.node.op in SCALED_AFTER_SUM:
        inexact = sums.bound() + sums.doubt
        if not o.node.integer_reference:
            own_error = inexact
        else:  # of a runtime that is not known, which may have added the products in float32
            own_error = gamma(integer_sums.EXTRA) * size
            own_error = own_error if kernels else np.maximum(own_error, gamma(sums.terms**0.5) * sums.size)
        short = _short_multiplier(size, sums.step) if kernels == "litert-xnnpack" and _is_unsigned(o) else 0.0
        twice = rounded_twice(sums.step) if kernels else 0.0
        return own_error + MULTIPLIER * size + np.maximum(twice, short) + ZERO_POINT_SUM
    mean = sums.bound() + ZERO_POINT_SUM
    mean = mean + (2 * rounded_twice(sums.step) if kernels else 0.0)
    return mean + (_cut_zero_point(o) if kernels in ("litert-optimized", "litert-xnnpack") else 0.0)


def is_fixed_point_add(unit: Unit, graph: Graph, given: Mapping[str, Array], recorded: Array) -> bool:
    """Returns whether the output is equal, bit for bit, to that of onnxruntime's add on aarch64, which uses fixed point
    with 22 bits."""
    node = unit.nodes[-1]
    if len(unit.nodes) > 1 or node.op != "add" or recorded.dtype.itemsize > 1:
        return False
    o = StatedOperands(node, graph, dict(given))
    try:
        first, second, shift = add_parameters("mul22", *(float(r) for r in o.rq)).tolist()
    except ValueError:
        return False
    total = o.centred(0).astype(np.int64) * first + o.centred(1).astype(np.int64) * second
    zero, (low, high) = graph.spec(node.outputs[0]).zero_point[0], node.words[-2:]
    return bool((np.clip(half_up(total, shift) + zero, low, high) == recorded).all())


def rounded_twice(step: Reals | float) -> Reals:
    """Returns the error of gemmlowp's first rounding, which is to 2^e of an output's step, or 0 if it does not round.
    step: the multiplier."""
    exponent = np.frexp(np.asarray(step, np.float64))[1]
    return np.where(exponent < 0, functions64.exp2(exponent - 1.0), 0.0)


def _is_unsigned(o: StatedOperands) -> bool:
    return o.node.op != "mul" and o.graph.spec(o.node.inputs[1] or "").dtype == "uint8"


def _short_multiplier(size: Reals, step: Reals | float) -> Reals:
    """Returns the error of XNNPACK's kernels for uint8 on ARM. With the scale S = q * 2^k, they round the sum to a
    multiple of 2^-k and then multiply it by q in 16 bits."""
    return np.asarray(np.frexp(np.asarray(step, np.float64))[0] / 2 + 2.0**-15 * size)


def _cut_zero_point(o: StatedOperands) -> float:
    """Returns the error of LiteRT's optimised MEAN, which subtracts the input's zero point, in steps of the output, as
    a whole number."""
    x, y = o.graph.spec(o.node.inputs[0] or ""), o.graph.spec(o.node.outputs[0])
    steps = x.zero_point[0] * x.scale[0] / y.scale[0]
    return 0.0 if o.node.op == "average_pool" else float(abs(steps - np.trunc(steps)))


def _look_up(unit: Unit, graph: Graph, given: Mapping[str, Array], at: Array, kernels: str) -> chain.Part:
    """Evaluates a lookup: a change of the quantization, or a function whose real values are known. Raises NoBound for
    the table of any other function."""
    node = unit.nodes[0]
    x, y = graph.spec(unit.inputs[0]), graph.spec(node.outputs[0])
    limits = int(np.iinfo(y.dtype).min), int(np.iinfo(y.dtype).max)
    stored = given[unit.inputs[0]].reshape(-1)[at]
    lowest = int(np.iinfo(x.dtype).min)
    codes = np.arange(lowest, int(np.iinfo(x.dtype).max) + 1)  # all that the input may have
    if (real := graph.real_tables.get(node.outputs[0])) is not None:
        value = real()[codes - lowest]
        error = TABLE * (np.abs(value) + 1) + ZERO_POINT_SUM
    elif is_change_of_quantization(node, graph):
        value = np.asarray((codes - x.zero_point[0]) * (x.scale[0] / y.scale[0]), np.float64)
        error = gamma(integer_sums.EXTRA) * np.abs(value) + ZERO_POINT_SUM
    else:
        raise NoBound("the table of a function")
    if kernels:  # a Relu, too, may be a change of the quantization
        error = error + rounded_twice(x.scale[0] / y.scale[0])
    if kernels == "litert-xnnpack":
        error = error + CONVERT_STEP * np.abs(codes - x.zero_point[0]).astype(np.float64)
    every, index = round_interval(value, error, y.zero_point[0], limits), stored.astype(np.int64) - lowest
    return at, Whole(every.low[index], every.high[index], error[index])


def _softmax(unit: Unit, graph: Graph, given: Mapping[str, Array], at: Array, kernels: str) -> chain.Part:
    """Evaluates a softmax of 8 bits. A kernel may scale by the whole part of 1/scale, as onnxruntime's integer kernel
    does, or by 1/scale itself."""
    node = unit.nodes[0]
    more = 0.0 if kernels == "onnxruntime" else SOFTMAX * (node.words[1] + 8)
    inputs = read_inputs(node, graph, {n: bound_exactly(given[n]) for n in unit.inputs})
    stated = int(np.float32(1.0 / graph.spec(node.outputs[0]).scale[0]).view(np.int32))
    found = []
    for factor in {node.words[3], stated}:
        words = (*node.words[:3], factor)
        whole = chain.take(rows.softmax(replace(node, words=words), inputs, graph, more)[0], at)
        assert isinstance(whole, Whole)
        found.append(whole)
    low, high = (reduce(f, (getattr(w, n) for w in found)) for f, n in ((np.minimum, "low"), (np.maximum, "high")))
    error = reduce(np.maximum, (w.error for w in found if w.error is not None))
    return at, replace(found[0], low=low, high=high, error=error)


def _resize(unit: Unit, graph: Graph, given: Mapping[str, Array], at: Array, kernels: str) -> chain.Part:
    """Evaluates a linear resize of integers, which some kernels truncate and others round. Raises NoBound for LiteRT's
    resize of int8, which computes places in fixed point."""
    nearest, cut = evaluate_resize_forms(unit, graph, given, at, kernels)
    low, high = np.minimum(nearest.low, cut.low), np.maximum(nearest.high, cut.high)
    return at, Whole(low, high, nearest.error)


def evaluate_resize_forms(
    unit: Unit, graph: Graph, given: Mapping[str, Array], at: Array, kernels: str
) -> tuple[Whole, Whole]:
    """Returns the integers of a linear resize that rounds to the nearest, and of one that cuts off. Raises NoBound as
    _resize()."""
    node = unit.nodes[0]
    x, y = graph.spec(unit.inputs[0]), graph.spec(node.outputs[0])
    index, weight = (graph.constants[n or ""] for n in node.inputs[1:])
    if weight.dtype.kind != "f" or x.dtype != y.dtype or (x.dtype == "int8" and kernels.startswith("litert")):
        raise NoBound("resize_linear in fixed point")
    exact = replace(node, words=(0,))
    inputs: list[BoundedValue | None] = [
        bound_exactly(given[unit.inputs[0]].astype(np.float64)),
        bound_exactly(index),
        bound_exactly(weight),
    ]
    resized = require_real(chain.take(rows.resize_linear(exact, inputs, graph)[0], at))
    places = RESIZE_PLACES * max(*x.shape[-2:], *y.shape[-2:])
    more = {"litert-xnnpack": RESIZE, "": places}.get(kernels, 0.0)
    value, error = resized.value, resized.error + more
    limits = int(np.iinfo(y.dtype).min), int(np.iinfo(y.dtype).max)
    low, high = (np.clip(np.trunc(end), *limits).astype(np.int64) for end in (value - error, value + error))
    return round_interval(value, error, 0, limits), Whole(low, high, error)


_OWN_PAGES: dict[str, Callable[[Unit, Graph, Mapping[str, Array], Array, str], chain.Part]] = {
    "lookup": _look_up,
    "softmax": _softmax,
    "resize_linear": _resize,
}


def _batch_norm(node: Node, inputs: list[BoundedValue | None], graph: Graph) -> list[BoundedValue]:
    x, k, b = (require_real(v) for v in inputs)
    along = [1, -1] + [1] * (x.value.ndim - 2)
    factor, summand = k.value.reshape(along), b.value.reshape(along)
    size = np.abs(x.value * factor) + np.abs(summand)
    return [Real(x.value * factor + summand, np.abs(factor) * x.error + BATCH_NORM * size + TINY)]


PAGES = {**chain.PAGES, "batch_norm": _batch_norm}
