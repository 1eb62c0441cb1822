"""Evaluates a whole region in float64, with the errors of its inner tensors carried through the nodes that follow them
(NUMERICS.md section 4)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np

from qverify.arithmetic.float_convolution import convolve, convolve_transposed
from qverify.arithmetic.linear import along_axis
from qverify.arithmetic.windows import as_planes, plane_shape, window_of
from qverify.compare.error_bounds import bounded_values, chain, integer_sums, rows
from qverify.compare.error_bounds.bounded_values import (
    Array,
    BoundedValue,
    NoBound,
    Real,
    Reals,
    Whole,
    bound_exactly,
    broadcast_parameters,
    float_word,
    gamma,
)
from qverify.compare.error_bounds.documented_kernels import PAGES, StatedOperands
from qverify.compare.error_bounds.inner_tensors import Rule, Steps, allow_any
from qverify.compare.error_bounds.probable import is_probable, take_positions
from qverify.compare.error_bounds.table_ranges import TableRanges
from qverify.model_bin.changes_of_quantization import is_change_of_quantization
from qverify.model_bin.graph import Graph, Node
from qverify.model_bin.units import Unit
from qverify.tensors.spec import TensorSpec

MOVING = {
    "reshape",
    "transpose",
    "slice",
    "split",
    "gather",
    "gather_elements",
    "gather_nd",
    "tile",
    "resize_nearest",
    "pad",
    "depth_to_space",
    "max_pool",
}
JOINING = {"concat": 0, "where": 1}  # number of the first branch among the inputs
MAX_PRODUCTS = 1 << 31  # of one node, which take some seconds
Value = BoundedValue | Steps
ROUNDINGS = 2.5  # steps by which the roundings of an inner tensor move an index, at most


def evaluate_region(unit: Unit, output: str, graph: Graph, given: Mapping[str, Array], rule: Rule) -> Real | Steps:
    """Returns one output of a region: floats, or the steps of a quantized tensor before they are rounded. Raises NoBound
    for a node without an evaluation, and ValueError or IndexError for inputs that do not fit.

    Args:
        unit: the region.
        output: name of the output.
        graph: the graph of the region.
        given: the recorded inputs of the region.
        rule: what becomes of quantized tensors inside of the region.
    """
    with np.errstate(all="ignore"):
        values: dict[str, Value] = {name: _read(given[name], graph.spec(name)) for name in unit.inputs}
        for node in unit.nodes:
            inputs = [None if n is None else values.get(n) or _read_constant(n, graph) for n in node.inputs]
            made = _evaluate_node(node, inputs, graph, rule)
            values |= zip(node.outputs, map(_require_kept, made), strict=True)
        value = values[output]
    if isinstance(value, Whole):
        raise NoBound(f"integers of {output} that are not quantized")
    return value


def _is_steps(spec: TensorSpec) -> bool:
    return spec.quantized and spec.numpy_dtype.kind in "iu"


def _read(value: Array, spec: TensorSpec) -> Value:
    if not _is_steps(spec):
        return bound_exactly(value)
    steps = value.astype(np.float64)
    return Steps(Real(steps, np.zeros_like(steps)), None, spec)


def _read_constant(name: str, graph: Graph) -> Value | None:
    return _read(graph.constants[name], graph.spec(name)) if name in graph.constants else None


def _require_kept(value: Value) -> Value:
    """Returns the value without what is only said of qverify's own sides. Raises NoBound if elements of it mean
    nothing."""
    real = value.real if isinstance(value, Steps) else value
    if real.lost is not None and real.lost.any():
        raise NoBound("float32 intermediates that overflow or underflow")
    if isinstance(value, Steps):
        return replace(value, real=replace(value.real, ours=None, lost=None))
    return replace(value, ours=None, lost=None)


def _evaluate_node(node: Node, inputs: list[Value | None], graph: Graph, rule: Rule) -> list[Value]:
    if node.op in MOVING and isinstance(inputs[0], Steps):
        return _move(node, inputs, graph)
    if node.op in JOINING and any(isinstance(v, Steps) for v in inputs):
        return [_join(node, inputs, graph, rule)]
    if chain.sums_integers(node, graph):
        return [_sum(node, inputs, graph, rule)]
    if node.op in _OWN:
        return [_OWN[node.op](node, inputs, graph, rule)]
    page = PAGES.get(node.op)
    if page is None or any(isinstance(v, Steps) and v.real.error.any() for v in inputs):
        raise NoBound(node.op)
    return list(page(node, [_as_whole(v) if isinstance(v, Steps) else v for v in inputs], graph))


def _as_whole(steps: Steps) -> Whole:
    whole = np.rint(steps.real.value).astype(np.int64)
    if steps.limits is not None or (whole != steps.real.value).any():
        raise NoBound("integers that depend on roundings")
    return Whole(whole, whole)


def _read_steps(value: Value | None, rule: Rule) -> Real:
    if not isinstance(value, Steps):
        raise NoBound("floats where integers are wanted")
    return value.settled(rule)


def _move(node: Node, inputs: list[Value | None], graph: Graph) -> list[Value]:
    """Returns the moved steps. A rounding that is still to come is moved behind the movement."""
    source = inputs[0]
    assert isinstance(source, Steps)
    others = [_as_whole(v) if isinstance(v, Steps) else v for v in inputs[1:]]
    moved = chain.PAGES[node.op](node, [source.real, *others], graph)
    return [
        Steps(real, source.limits, graph.spec(name))
        for name, real in zip(node.outputs, moved, strict=True)
        if isinstance(real, Real)
    ]


def _join(node: Node, inputs: list[Value | None], graph: Graph, rule: Rule) -> Value:
    """Returns a concat or where of quantized tensors, in which a branch of another quantization is requantized."""
    y, first = graph.spec(node.outputs[0]), JOINING[node.op]
    kept = list[Value | None]()
    limits = set[tuple[int, int] | None]()
    for name, value in zip(node.inputs[first:], inputs[first:], strict=True):
        if not isinstance(value, Steps):
            raise NoBound("floats and integers together")
        spec = graph.spec(name or "")
        if (spec.scale, spec.zero_point, spec.dtype) == (y.scale, y.zero_point, y.dtype):
            kept.append(value)
        else:
            kept.append(_quantize(_dequantize(value, spec, rule), y))
    limits = {v.limits for v in kept if isinstance(v, Steps)}
    reals = [v.settled(rule) if isinstance(v, Steps) and len(limits) > 1 else v.real for v in kept]  # type: ignore[union-attr]
    joined = chain.PAGES[node.op](node, [*inputs[:first], *reals], graph)[0]  # type: ignore[list-item]
    assert isinstance(joined, Real)
    return Steps(joined, limits.pop() if len(limits) == 1 else None, y)


def _dequantize(value: Steps, spec: TensorSpec, rule: Rule) -> Real:
    """Returns the real values. Those of certain integers are float32, as every side computes them."""
    steps, (scale, zero) = value.settled(rule), broadcast_parameters(spec)
    if value.limits is None and not steps.error.any():
        whole = steps.value.astype(np.int64)
        exact = bounded_values.dequantize(Whole(whole, whole), spec)
        return exact
    return Real((steps.value - zero) * scale, steps.error * scale).rounded(2)


def _quantize(value: Real, spec: TensorSpec) -> Steps:
    scale, zero = broadcast_parameters(spec)
    limits, stepped = np.iinfo(spec.dtype), Real(value.value / scale, value.error / scale).rounded()
    return Steps(Real(stepped.value + zero, stepped.error), (int(limits.min), int(limits.max)), spec)


def _sum(node: Node, inputs: list[Value | None], graph: Graph, rule: Rule) -> Value:
    """Returns a node that sums integers. Its error is that of the inputs, times the magnitudes of the weights, and that
    of the sum in float32 (NUMERICS.md section 4)."""
    y = graph.spec(node.outputs[0])
    names = [n for n in node.inputs[:2] if n is not None and n in graph.tensors and _is_steps(graph.spec(n))]
    settled = {n: _read_steps(v, rule) for n, v in zip(node.inputs[:2], inputs[:2], strict=False) if n in names}
    floats = y.numpy_dtype.kind == "f"
    kind = integer_sums.SumOperands if floats else StatedOperands
    operands = kind(node, _without_constants(graph, names), {n: v.value for n, v in settled.items()})
    count = y.elements * integer_sums.terms_of(operands)
    if count > MAX_PRODUCTS:
        raise NoBound(f"a {node.op} of {count} products")
    sums = _sum_all(operands)
    moved: Reals | float = 0.0
    if any(v.error.any() for v in settled.values()):
        wider = {n: _widen(v, graph.spec(n)) for n, v in settled.items()}
        plain = {n: _widen(Real(v.value, np.zeros_like(v.value)), graph.spec(n)) for n, v in settled.items()}
        largest, size = (_sum_all(kind(node, _without_constants(graph, names), g)).size for g in (wider, plain))
        moved = np.maximum(largest - size, 0.0)
    if node.integer_reference:  # exact sums on nearly every board
        sums = replace(sums, squares=None)
    error = sums.bound(moved) + sums.doubt + moved
    if floats:
        real = Real(sums.value, error + (sums.terms + 2) * bounded_values.TINY)
        return replace(real, value=real.value.reshape(y.shape), error=real.error.reshape(y.shape))
    steps = Real(
        (sums.value + y.zero_point[0]).reshape(y.shape), np.broadcast_to(error, sums.value.shape).reshape(y.shape)
    )
    low, high = node.words[-2:]
    return Steps(steps, (int(low), int(high)), y)


def _without_constants(graph: Graph, names: list[str]) -> Graph:
    """Returns the graph, in which these operands are not constants, so that other values can be given of them."""
    return replace(graph, constants={n: v for n, v in graph.constants.items() if n not in names})


def _widen(value: Real, spec: TensorSpec) -> Reals:
    """Returns the steps whose distance from the zero point is the largest magnitude within the error."""
    zero = along_axis(spec.zero_point, len(spec.shape), max(spec.channel_axis, 0))
    return np.asarray(np.abs(value.value - zero) + value.error + zero)


def _sum_all(operands: integer_sums.SumOperands) -> integer_sums.IntegerSums:
    """Returns the sums of all elements of the output, flat."""
    if (multiply := _products_of(operands)) is not None:
        a, b = (operands.centred(at) for at in (0, 1))
        value, size = multiply(a, b).reshape(-1), multiply(np.abs(a), np.abs(b)).reshape(-1)
        shape = operands.shape
        axis = 1 if operands.node.op in ("conv", "conv_transpose") else len(shape) - 1
        channel = np.broadcast_to(np.arange(shape[axis]).reshape(-1, *[1] * (len(shape) - axis - 1)), shape).reshape(-1)
        bias = None if operands.node.op == "matmul" else operands.bias(channel)
        sums = operands.scaled(value, size, integer_sums.terms_of(operands), channel, bias)
        if not is_probable():
            return sums
        squares = multiply(a**2, b**2).reshape(-1) * operands.scale(channel) ** 2
        some = integer_sums.SUMS[operands.node.op](operands, take_positions(value.size))
        return replace(sums, squares=squares, rows=some.rows)
    elements = int(np.prod(operands.shape))
    step = max(1, integer_sums.TERMS_AT_ONCE // integer_sums.terms_of(operands))
    of = integer_sums.SUMS[operands.node.op]
    parts = [of(operands, np.arange(at, min(at + step, elements))) for at in range(0, elements, step)]
    value, size = (np.concatenate([getattr(p, n) for p in parts]) for n in ("value", "size"))
    doubt = np.concatenate([np.broadcast_to(p.doubt, p.value.shape) for p in parts])
    sums = integer_sums.IntegerSums(value, size, max(p.terms for p in parts), doubt)
    if any(p.squares is None for p in parts):
        return sums
    squares = np.concatenate([p.squares for p in parts if p.squares is not None])
    return replace(sums, squares=squares, rows=parts[0].rows)


def _products_of(operands: integer_sums.SumOperands) -> Callable[[Reals, Reals], Reals] | None:
    """Returns the function that sums the products of all elements at once, or None for an op without one."""
    node, shape = operands.node, operands.shape
    if node.op in ("conv", "conv_transpose"):
        of, window, group = (
            convolve if node.op == "conv" else convolve_transposed,
            window_of(node.words),
            node.words[10],
        )
        return lambda x, w: of(as_planes(x), w, window, group, plane_shape(shape))
    if node.op == "fully_connected":
        return lambda x, w: np.matmul(x, w.T)
    return np.matmul if node.op == "matmul" else None


def _look_up(node: Node, inputs: list[Value | None], graph: Graph, rule: Rule) -> Value:
    """Returns the range of a table, or of the function that it stands for, over the range of its input. Of a table whose
    function is not known, the bound includes its rounding; with the tensors rounded in one way, its entries count as
    they are. Raises NoBound for such a table behind a recorded tensor, which is no more known than as a single node, and
    for the table of a function whose input, not clipped to its range, may lie where the table has no entry."""
    x, y = graph.spec(node.inputs[0] or ""), graph.spec(node.outputs[0])
    steps, lowest = _read_steps(inputs[0], rule), int(np.iinfo(x.dtype).min)
    known = graph.real_tables.get(node.outputs[0])
    table = known() + y.zero_point[0] if known is not None else graph.constants[node.inputs[1] or ""].astype(np.float64)
    doubt = 0.5 if known is None and rule is allow_any else 0.0  # a table is rounded
    if doubt and not steps.error.any() and not is_change_of_quantization(node, graph):
        raise NoBound("the table of a function")
    last = len(table) - 1
    reach = [v - lowest for v in (steps.value - steps.error, steps.value + steps.error)]
    if not is_change_of_quantization(node, graph):
        _check_within(table, *reach)
    ends = [np.clip(v, 0, last) for v in reach]
    low, high = TableRanges(table).between(np.floor(ends[0]).astype(np.int64), np.ceil(ends[1]).astype(np.int64))
    limits = np.iinfo(y.dtype)
    return Steps(Real((low + high) / 2, (high - low) / 2 + doubt), (int(limits.min), int(limits.max)), y)


def _check_within(table: Reals, low: Reals, high: Reals) -> None:
    """Raises NoBound if indices from `low` to `high` leave a table by more than roundings, where it is not level."""
    below, beyond = bool((low < -ROUNDINGS).any()), bool((high > len(table) - 1 + ROUNDINGS).any())
    if (below and table[0] != table[1]) or (beyond and table[-1] != table[-2]):
        raise NoBound("a function of values beyond its table")


def _softmax(node: Node, inputs: list[Value | None], graph: Graph, rule: Rule) -> Value:
    """Returns a softmax of quantized values as that of the real values, whose result is then a multiple of 1/scale."""
    x, y = graph.spec(node.inputs[0] or ""), graph.spec(node.outputs[0])
    real = _read_steps(inputs[0], rule)
    scaled = Real((real.value - x.zero_point[0]) * x.scale[0], real.error * x.scale[0]).rounded()
    shares = rows.softmax_float(replace(node, words=node.words[:3]), [scaled], graph)[0]
    assert isinstance(shares, Real)
    by, limits = float_word(node.words[3]), np.iinfo(y.dtype)
    steps = Real(shares.value * by + y.zero_point[0], shares.error * by + gamma(8) * shares.value * by)
    return Steps(steps, (int(limits.min), int(limits.max)), y)


def _resize(node: Node, inputs: list[Value | None], graph: Graph, rule: Rule) -> Value:
    """Returns a linear resize. One of integers that is rounded is that of the real values."""
    source = inputs[0]
    if not isinstance(source, Steps):
        return rows.resize_linear(node, [v for v in inputs if not isinstance(v, Steps)], graph)[0]
    if node.words[0]:
        raise NoBound("a resize_linear that truncates")
    real = _dequantize(source, graph.spec(node.inputs[0] or ""), rule)
    index, weight = (v for v in inputs[1:] if not isinstance(v, Steps))
    resized = rows.resize_linear(node, [real, index, weight], graph)[0]
    assert isinstance(resized, Real)
    return _quantize(resized, graph.spec(node.outputs[0]))


def _to_real(node: Node, inputs: list[Value | None], graph: Graph, rule: Rule) -> Value:
    if not isinstance(inputs[0], Steps):
        raise NoBound("floats where integers are wanted")
    return _dequantize(inputs[0], graph.spec(node.inputs[0] or ""), rule)


def _to_steps(node: Node, inputs: list[Value | None], graph: Graph, rule: Rule) -> Value:
    if not isinstance(inputs[0], Real):
        raise NoBound("integers where floats are wanted")
    return _quantize(inputs[0], graph.spec(node.outputs[0]))


_OWN: dict[str, Callable[[Node, list[Value | None], Graph, Rule], Value]] = {
    "lookup": _look_up,
    "softmax": _softmax,
    "resize_linear": _resize,
    "dequantize": _to_real,
    "quantize": _to_steps,
}
