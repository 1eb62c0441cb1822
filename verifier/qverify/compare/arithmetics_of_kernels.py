"""The arithmetics of kernels that do not scale one sum as a rounding mode does: pools, means, products in float32,
softmax, places and weights of a resize (verifier/NUMERICS.md section 1)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from math import prod

import numpy as np

from qverify.arithmetic import float32, functions64, resize_places
from qverify.arithmetic.float_steps import scale_in_float32
from qverify.arithmetic.forms import REFERENCE, Form
from qverify.arithmetic.methods import (
    add_zero_to_sums,
    convolve_in_htp,
    divide_multiplier,
    make_logistic_table,
    mean_in_float32,
    multiply_in_htp,
    product_in_float32,
    take_whole_zero,
)
from qverify.arithmetic.requantize import half_up, requantize
from qverify.arithmetic.resize_places import WEIGHT_BITS, find_modes
from qverify.arithmetic.rounding_rules import round_real
from qverify.arithmetic.softmax_fixed_point import OUTPUT_BITS, softmax
from qverify.compare.catalogue import (
    FLOAT_PRODUCT,
    HTP_DEPTHWISE,
    HTP_MUL,
    HTP_QUANTIZE,
    HTP_SOFTMAX,
    HTP_SUMS,
    LITERT_FUNCTION,
    LITERT_MEAN,
    LITERT_POOL,
    LITERT_RESIZE,
    LITERT_RESIZE_FLOAT,
    LITERT_SOFTMAX,
    OPENVINO_SUMS,
    OPTIMIZED_MEAN,
    OPTIMIZED_RESIZE_FLOAT,
    OPTIMIZED_SOFTMAX,
    RULES,
    XNNPACK_MEAN,
    XNNPACK_RESIZE,
    ZERO_INSIDE,
)
from qverify.compare.error_bounds.bounded_values import Array
from qverify.compare.scaled_sums import At, Pair, ScaledSums, Sums
from qverify.model_bin.graph import Graph, Node
from qverify.model_bin.kinds_of_nodes import is_depthwise
from qverify.tensors.spec import TensorSpec

Compute = Callable[[At], Array]
Single = np.float32
POOLS = ("average_pool", "global_average_pool")
CONVOLUTIONS = ("conv", "conv_transpose")
LINEAR = (*CONVOLUTIONS, "fully_connected", "matmul")


def list_kernels_of_sums(node: Node, graph: Graph, sums: ScaledSums) -> dict[str, Compute]:
    """Returns the arithmetics of kernels for a pool, a mean or a product of two tensors, by name. sums: those of the node,
    without zero points, by the number of elements that were added (pools) or by 0."""
    x, y = graph.spec(node.inputs[0] or ""), graph.spec(node.outputs[0])
    if not all(len(s.scale) == len(s.zero_point) == 1 and s.numpy_dtype.itemsize == 1 for s in (x, y)):
        return {}
    if node.op not in (*POOLS, *LINEAR, "mul", "reduce_mean"):
        return {}
    limits = node.words[-2], node.words[-1]
    if node.op in POOLS and (x.scale, x.zero_point) == (y.scale, y.zero_point):
        return {LITERT_POOL: partial(_store, _quotients(node, x, y), sums, y, limits)}
    rqs = dict[str, Array]()
    for name, make in _list_rqs(node, graph, x, y, sums).items():
        with suppress(ValueError):  # scales that it cannot represent
            rqs[name] = make()
    return {name: partial(_requantize, rq, sums, y, limits) for name, rq in rqs.items()}


def _list_rqs(
    node: Node, graph: Graph, x: TensorSpec, y: TensorSpec, sums: ScaledSums
) -> dict[str, Callable[[], Array]]:
    """Returns functions that make the rq of each arithmetic of a node's sums."""
    ends, count = (x.scale[0], x.zero_point[0]), x.elements // max(1, y.elements)
    if node.op == "mul":
        other = graph.spec(node.inputs[1] or "")
        product = partial(product_in_float32, x.scale[0], other.scale[0], (y.scale[0], y.zero_point[0]))
        first, second = (s.zero_point[0] - int(np.iinfo(s.dtype).min) for s in (x, other))
        of_htp = partial(multiply_in_htp, Form.parse(HTP_MUL), float(sums.scales[0]), (first, second))
        return {FLOAT_PRODUCT: product, HTP_MUL: of_htp}
    if node.op in LINEAR:
        bias = graph.constants.get(node.inputs[2] or "") if len(node.inputs) > 3 else None
        zero, weights = y.zero_point[0] - int(np.iinfo(y.dtype).min), graph.spec(node.inputs[1] or "")
        to, matrix = (y.scale[0], y.zero_point[0]), node.op not in CONVOLUTIONS
        steps = partial(scale_in_float32, ends, weights.scale, to, x.dtype, bias, matrix=matrix)
        plain = node.op != "matmul" and x.dtype == y.dtype and not any(weights.zero_point)
        found: dict[str, Callable[[], Array]] = {OPENVINO_SUMS: steps} if plain else {}
        if node.op not in CONVOLUTIONS:
            return {HTP_SUMS: partial(add_zero_to_sums, Form.parse(HTP_SUMS), sums.scales, zero, bias), **found}
        scales, depthwise = (x.scale[0], weights.scale, y.scale[0]), is_depthwise(node, graph)
        return found | {
            name: partial(convolve_in_htp, Form.parse(name), scales, zero, bias, depthwise=depthwise)
            for name in (HTP_SUMS, HTP_DEPTHWISE)
        }
    if node.op == "reduce_mean":
        return {
            LITERT_MEAN: partial(divide_multiplier, Form.parse(LITERT_MEAN), x.scale[0], y.scale[0], count),
            OPTIMIZED_MEAN: partial(take_whole_zero, Form.parse(OPTIMIZED_MEAN), ends, y.scale[0], count),
            XNNPACK_MEAN: partial(mean_in_float32, ends, (y.scale[0], y.zero_point[0]), count),
        }
    return {}


def _requantize(rq: Array, sums: ScaledSums, y: TensorSpec, limits: tuple[int, int], at: At) -> Array:
    found = sums.read(at)
    if not found.acc.size:
        return np.zeros(0, y.dtype)
    own = rq if rq.shape[-1] == 1 else rq[:, found.number]
    return requantize(found.acc, own, y.zero_point[0], *limits, y.dtype, REFERENCE, False, 0)


def _quotients(node: Node, x: TensorSpec, y: TensorSpec) -> Callable[[Sums], Array]:
    count, zero = _counts(node, x, y), x.zero_point[0]
    return lambda s: _divide(s.acc + zero * count(s), count(s)) - zero


def _store(compute: Callable[[Sums], Array], sums: ScaledSums, y: TensorSpec, limits: tuple[int, ...], at: At) -> Array:
    value = compute(sums.read(at)) + y.zero_point[0]
    return np.clip(value, limits[0], limits[1]).astype(y.dtype)


def _counts(node: Node, x: TensorSpec, y: TensorSpec) -> Callable[[Sums], Array | int]:
    """Returns the function that gives the number of elements of each sum."""
    if node.op == "average_pool":
        return lambda s: s.number.astype(np.int64) + 1
    whole = x.elements // max(1, y.elements)
    return lambda s: whole


def _divide(total: Array, count: Array | int) -> Array:
    """Returns total / count, halves away from zero."""
    return np.sign(total) * ((np.abs(total) + count // 2) // count)


def list_softmax(node: Node, graph: Graph, given: Mapping[str, Array]) -> dict[str, Compute]:
    """Returns the arithmetics of a softmax of 8 bits by name: the exact value rounded once and, if the output has 256
    steps from 0 to 1, LiteRT's two."""
    x, y = graph.spec(node.inputs[0] or ""), graph.spec(node.outputs[0])
    limits, zero = np.iinfo(y.dtype), y.zero_point[0]
    if len(x.scale) > 1 or len(y.scale) > 1 or x.numpy_dtype.itemsize > 1 or y.numpy_dtype.itemsize > 1:
        return {}
    _, depth, inner = node.words[:3]
    rows = given[x.name].reshape(-1, depth, inner)

    def by_rows(at: At, compute: Callable[[Array], Array], zero: int = zero) -> Array:
        assert not isinstance(at, Sums | Pair)
        row, place = at // (depth * inner) * inner + at % inner, at // inner % depth
        some, index = np.unique(row, return_inverse=True)
        values = compute(rows[some // inner, :, some % inner])
        return np.clip(values[index, place] + zero, limits.min, limits.max).astype(y.dtype)

    def exactly(codes: Array, name: str) -> Array:
        form = Form.parse(name)
        below = codes.astype(np.int64) - codes.max(-1, keepdims=True)
        terms = functions64.exp(below * float(x.scale[0]))
        value = terms / terms.sum(-1, keepdims=True) / float(y.scale[0])
        return round_real(value, form.rounding, zero if form.zero_inside else 0)

    found: dict[str, Compute] = {n: partial(by_rows, compute=partial(exactly, name=n)) for n in (*RULES, ZERO_INSIDE)}
    found[HTP_SOFTMAX] = partial(by_rows, compute=partial(exactly, name="half even"), zero=int(limits.min))
    if y.scale != (2.0**-OUTPUT_BITS,) or zero != int(limits.min):
        return found
    step = Single(x.scale[0])
    table = functions64.exp((-step * np.arange(256, dtype=Single)).astype(np.float64)).astype(Single)

    def by_table(codes: Array) -> Array:
        terms = table[codes.max(-1, keepdims=True).astype(np.int64) - codes]
        total = float32.sequential_sum(terms, 1)
        return np.floor(terms * (Single(1) / (total * Single(y.scale[0]))) + Single(0.5))

    return {
        **found,
        LITERT_SOFTMAX: partial(by_rows, compute=lambda codes: softmax(codes, x.scale[0])),
        OPTIMIZED_SOFTMAX: partial(by_rows, compute=by_table),
    }


def list_functions(node: Node, graph: Graph, given: Mapping[str, Array]) -> dict[str, Compute]:
    """Returns the arithmetic of LiteRT's LOGISTIC, by name; empty for the table of another function."""
    x, y, real = graph.spec(node.inputs[0] or ""), graph.spec(node.outputs[0]), graph.real_tables.get(node.outputs[0])
    if real is None or len(x.scale) != 1 or x.numpy_dtype.itemsize > 1:
        return {}
    lowest, limits = int(np.iinfo(x.dtype).min), np.iinfo(y.dtype)
    centred = np.arange(lowest, lowest + 256) - x.zero_point[0]
    values, ends = np.asarray(real(), np.float64) * y.scale[0], (int(limits.min), int(limits.max))
    try:
        table = make_logistic_table(values, (x.scale[0], centred), (y.scale[0], y.zero_point[0]), ends).astype(y.dtype)
    except ValueError:
        return {}
    stored = given[x.name].reshape(-1)

    def compute(at: At) -> Array:
        assert not isinstance(at, Sums | Pair)
        return table[stored[at].astype(np.int64) - lowest]

    return {LITERT_FUNCTION: compute}


def list_quantizations(node: Node, graph: Graph, given: Mapping[str, Array]) -> dict[str, Compute]:
    """Returns the arithmetic of the HTP's quantization of floats to 8 bits, by name."""
    y, x = graph.spec(node.outputs[0]), given[node.inputs[0] or ""].reshape(-1)
    if len(y.scale) != 1 or y.numpy_dtype.itemsize > 1 or x.dtype != Single:
        return {}

    def compute(at: At) -> Array:
        assert not isinstance(at, Sums | Pair)
        return float32.quantize_in_float16(x[at], y.scale[0], y.zero_point[0], y.dtype)

    return {HTP_QUANTIZE: compute}


Axis = tuple[Array, ...]  # the two samples of each output, and their weights


def list_resizes(node: Node, graph: Graph, given: Mapping[str, Array]) -> dict[str, Compute]:
    """Returns the arithmetics of LiteRT's and XNNPACK's linear resize of 8 bits, by name; of those whose places lie
    within the input. Empty if the quantization changes, or the places are those of no mode of LiteRT."""
    x, y = graph.spec(node.inputs[0] or ""), graph.spec(node.outputs[0])
    if x.numpy_dtype.itemsize > 1 or (x.dtype, x.scale, x.zero_point) != (y.dtype, y.scale, y.zero_point):
        return {}
    index, weight = (graph.constants[n or ""] for n in node.inputs[1:])
    sizes = [[x.shape[k], y.shape[k]] for k in (-2, -1)]
    mode = next(find_modes(index, weight, sizes), None)
    if mode is None:
        return {}
    planes = given[x.name].reshape(-1, *x.shape[-2:])

    def compute(at: At, axes: list[Axis], weigh: Callable[..., Array]) -> Array:
        assert not isinstance(at, Sums | Pair)
        plane, row, column = np.unravel_index(at, (prod(y.shape[:-2]), *y.shape[-2:]))
        (r1, r2, *dy), (c1, c2, *dx) = ([t[i] for t in axis] for axis, i in zip(axes, (row, column), strict=True))
        corners = [planes[plane, r, c] for r in (r1, r2) for c in (c1, c2)]
        limits = np.iinfo(y.dtype)
        return np.clip(weigh(corners, dy, dx), limits.min, limits.max).astype(y.dtype)

    found: dict[str, Compute] = {}
    for name, (places, weigh) in _RESIZES.items():
        axes = [tuple(np.asarray(t) for t in places(*size, *mode)) for size in sizes]
        axes = [(a[0].astype(np.int64), a[1].astype(np.int64), *a[2:]) for a in axes]
        if all(a[0].max() < size[0] for a, size in zip(axes, sizes, strict=True)):
            found[name] = partial(compute, axes=axes, weigh=weigh)
    return found


def _weigh_in_1024ths(corners: list[Array], dy: Axis, dx: Axis) -> Array:
    a, b, c, d = (v.astype(np.int64) for v in corners)
    value = (a * dx[0] + b * dx[1]) * dy[0] + (c * dx[0] + d * dx[1]) * dy[1]
    return np.sign(value) * ((np.abs(value) + (1 << 19)) >> 20)


def _weigh_in_11_bits(corners: list[Array], dy: Axis, dx: Axis) -> Array:
    a, b, c, d = (v.astype(np.int64) for v in corners)
    upper, lower = (a << WEIGHT_BITS) + (b - a) * dx[0], (c << WEIGHT_BITS) + (d - c) * dx[0]
    return half_up((upper << WEIGHT_BITS) + (lower - upper) * dy[0], np.array(2 * WEIGHT_BITS))


def _weigh_rows_first(corners: list[Array], dy: Axis, dx: Axis) -> Array:
    a, b, c, d = (v.astype(Single) for v in corners)
    total = ((a * dy[0]) * dx[0] + (c * dy[1]) * dx[0]) + (b * dy[0]) * dx[1] + (d * dy[1]) * dx[1]
    return np.trunc(total + Single(0.5))


def _weigh_by_products(corners: list[Array], dy: Axis, dx: Axis) -> Array:
    a, b, c, d = (v.astype(Single) for v in corners)
    total = a * (dy[0] * dx[0]) + b * (dy[0] * dx[1]) + c * (dy[1] * dx[0]) + d * (dy[1] * dx[1])
    return np.trunc(total + Single(0.5))


_RESIZES: dict[str, tuple[Callable[..., Axis], Callable[..., Array]]] = {
    LITERT_RESIZE: (resize_places.fixed_point, _weigh_in_1024ths),
    XNNPACK_RESIZE: (resize_places.weights_of_11_bits, _weigh_in_11_bits),
    LITERT_RESIZE_FLOAT: (resize_places.in_float32, _weigh_rows_first),
    OPTIMIZED_RESIZE_FLOAT: (resize_places.in_float32, _weigh_by_products),
}
