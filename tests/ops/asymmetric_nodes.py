"""Nodes whose shapes, windows and axes differ in every direction, so that a mistake in one of them changes the output.

A function of NODES adds the nodes of one op. No two dims of a tensor are equal, windows have other strides, paddings and
dilations along rows than along columns, some windows hold one element only, and some tensors have five dims or one."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from qverify.compiler.builder import float_word
from qverify.model_bin.float_functions import FUNCTIONS
from qverify.tensors.spec import TensorSpec

from tests.ops.asymmetric_windows import average_pool, average_pool_float, conv, conv_float, conv_transpose, max_pool
from tests.ops.random_nodes import RandomNodes


def slice_(r: RandomNodes) -> None:
    """Slices of one dim and of five, forward and backward."""
    for dtype, shape, cuts in (
        ("int16", (4, 3, 5, 6, 7), ((1, 3, 1), (0, 3, 2), (4, None, -2), (1, 6, 2), (5, 0, -1))),
        ("uint8", (61,), ((50, 3, -3),)),
        ("int8", (3, 9, 13), ((0, 3, 1), (2, 9, 3), (11, 1, -4))),
    ):
        x = r.input(dtype, shape)
        at = [range(*slice(*cut).indices(n)) for cut, n in zip(cuts, shape, strict=True)]
        words = (*(places.start for places in at), *(places.step for places in at))
        r.node("slice", (x,), r.like(x, tuple(map(len, at))), words)


def pad(r: RandomNodes) -> None:
    """In every mode, with other widths on both ends."""
    for mode in range(3):
        x = r.input(r.type("int8", "uint16"), (3, 4, 7, 5))
        r.node("pad", (x,), r.like(x, (4, 7, 8, 10)), (mode, x.zero_point[0], 1, 2, 0, 3))
    r.node("pad", (r.floats((4, 5)),), r.float_output((7, 6)), (0, float_word(-1.5), 2, 1))


def split(r: RandomNodes) -> None:
    for shape, axis, parts in (((2, 3, 4, 9), 3, (2, 3, 4)), ((7, 5), 0, (4, 1, 2))):
        x = r.input(r.type("int8", "uint16"), shape)
        outputs = tuple(r.like(x, (*shape[:axis], n, *shape[axis + 1 :])) for n in parts)
        r.node("split", (x,), outputs, (axis,))


def concat(r: RandomNodes) -> None:
    for shape, axis, parts in (((2, 3, 4, 9), 3, (2, 3, 4)), ((7, 5, 3), 0, (2, 1, 4)), ((2, 10, 3), 1, (4, 1, 2, 3))):
        y = r.output(r.type(), shape)
        dims = [(*shape[:axis], n, *shape[axis + 1 :]) for n in parts]
        inputs = (r.input_like(y, dims[0]), *(r.input(y.dtype, part) for part in dims[1:]))
        r.node("concat", inputs, y, (axis,))


def transpose(r: RandomNodes) -> None:
    for shape, order in (
        ((2, 3, 5, 7), (3, 1, 0, 2)),
        ((2, 3, 5, 7), (0, 3, 1, 2)),
        ((3, 2, 4, 5, 6), (0, 3, 1, 4, 2)),
        ((9, 13), (1, 0)),
    ):
        x = r.input(r.type("int8", "uint16"), shape)
        r.node("transpose", (x,), r.like(x, tuple(shape[k] for k in order)), order)


def depth_to_space(r: RandomNodes) -> None:
    for mode in (0, 1):
        x = r.input(r.type("int8", "uint16"), (2, 18, 4, 5))
        r.node("depth_to_space", (x,), r.like(x, (2, 2, 12, 15)), (3, mode))


def gather(r: RandomNodes) -> None:
    for axis, indices in ((0, (5,)), (2, (2, 3)), (1, ())):
        x, shape = r.input(r.type("int8", "uint16"), (6, 4, 9)), (6, 4, 9)
        chosen = r.constant(np.asarray(r.rng.integers(-shape[axis], shape[axis], indices)))
        r.node("gather", (x, chosen), r.like(x, (*shape[:axis], *indices, *shape[axis + 1 :])), (axis,))


def arg_max(r: RandomNodes) -> None:
    """Indices beyond 8 bits, whose maxima come twice."""
    for shape, axis, last in (((3, 700), 1, 0), ((600, 5), 0, 1), ((2, 37, 3, 4), 1, 0)):
        x = r.plain(r.rng.integers(-100, 100, shape).astype(np.int8 if len(shape) > 2 else np.int64))
        values = r.values[x.name]
        largest = values.max(axis, keepdims=True)
        np.put_along_axis(values, r.rng.integers(shape[axis] // 2, shape[axis], largest.shape), largest, axis)
        r.node("arg_max", (x,), r.plain_output("int64", (*shape[:axis], *shape[axis + 1 :])), (axis, last))


PAIRS = (((2, 3, 4, 5), (3, 1, 5)), ((4, 1, 3), (1, 6, 3)), ((3, 5), (2, 3, 1)), ((2, 1), (2, 7)))


def add(r: RandomNodes) -> None:
    for at, (first, second) in enumerate(PAIRS):
        a, b = r.input(r.type(), first), r.input(r.type(), second)
        y = r.output(r.type(), np.broadcast_shapes(first, second))
        ratios = [b.scale[0] / y.scale[0], a.scale[0] / y.scale[0]][:: -1 if at % 2 == 0 else 1]
        of_a, of_b = ratios[:: -1 if at % 2 else 1]
        zero = y.zero_point[0] - of_a * a.zero_point[0] - of_b * b.zero_point[0]
        r.node("add", (a, b, r.constant(np.array([*ratios, zero], np.float32))), y, (at % 2, *r.limits(y.dtype)))


def mul(r: RandomNodes) -> None:
    for first, second in PAIRS:
        a, b = r.input(r.type(), first), r.input(r.type(), second)
        y = r.output(r.type(), np.broadcast_shapes(first, second))
        r.node("mul", (a, b, r.rq(1, 1)), y, r.limits(y.dtype))


def where(r: RandomNodes) -> None:
    for of_condition, first, second in (((5, 1), (3, 1, 7), (3, 5, 7)), ((2, 1, 4, 1), (3, 1, 5), (4, 5))):
        shape = np.broadcast_shapes(of_condition, first, second)
        condition = r.plain(r.rng.integers(0, 2, of_condition).astype(bool))
        y = r.output(r.type(), shape)
        r.node("where", (condition, r.input_like(y, first), r.input(r.type(), second)), y)


def elementwise_float(r: RandomNodes) -> None:
    pairs = [function for function in FUNCTIONS.values() if function.operands == 2]
    for function, (first, second) in zip(pairs, PAIRS, strict=False):
        y = r.float_output(np.broadcast_shapes(first, second))
        r.node("elementwise_float", (r.floats(first), r.floats(second)), y, (function.number, 0, 0))


def matmul(r: RandomNodes) -> None:
    a, b = r.input(r.type(), (2, 1, 3, 21)), r.input(r.type(), (4, 21, 5))
    y = r.output(a.dtype, (2, 4, 3, 5))
    r.node("matmul", (a, b, r.rq(21, 5)), y, r.limits(y.dtype))


def matmul_float(r: RandomNodes) -> None:
    """Both operands transposed or not, the products and the addend scaled; one row is 0 in everything."""
    rows, depth, columns = 4, 37, 6
    for swapped_a, swapped_b, addend in ((1, 0, (rows, 1)), (0, 1, (columns,)), (1, 1, (rows, columns))):
        a = r.floats((depth, rows) if swapped_a else (rows, depth))
        b = r.floats((columns, depth) if swapped_b else (depth, columns))
        c, words = r.floats(addend), (swapped_a, swapped_b, float_word(0.3), float_word(-1.7))
        if len(addend) == 2:
            (r.values[a.name].T if swapped_a else r.values[a.name])[2] = 0
            r.values[c.name][2] = 0
        r.node("matmul_float", (a, b, c), r.float_output((rows, columns)), words)


def matmul_integer(r: RandomNodes) -> None:
    """Batches of one operand, and zero points: one, or one of each column."""
    for of_a, of_b, zeros in (((3, 4, 17), (17, 5), 5), ((4, 17), (2, 17, 5), 1)):
        a = r.plain(r.rng.integers(0, 256, of_a).astype(np.uint8))
        b = r.plain(r.rng.integers(-128, 128, of_b).astype(np.int8))
        zero_a = r.constant(np.array(131, np.uint8))
        zero_b = r.constant(r.rng.integers(-20, 20, zeros).astype(np.int8) if zeros > 1 else np.array(-9, np.int8))
        batch = np.broadcast_shapes(of_a[:-2], of_b[:-2])
        r.node("matmul_integer", (a, b, zero_a, zero_b), r.plain_output("int32", (*batch, 4, 5)))


def fully_connected(r: RandomNodes) -> None:
    x, weight = r.input(r.type(), (5, 70)), r.weights("int8", (9, 70), 9)
    bias = r.constant(r.rng.integers(-9000, 9000, 9).astype(np.int32))
    y = r.output(r.type(), (5, 9))
    r.node("fully_connected", (x, weight, bias, r.rq(70, 9)), y, r.limits(y.dtype))
    fully_connected_of_spread_scales(r, x)


def fully_connected_of_spread_scales(r: RandomNodes, x: TensorSpec) -> None:
    """The scales of the channels are powers of two that are far from each other, and others between them."""
    scales = np.float32(2) ** np.array([-2, -4, -5, -7, -9, -10, -12, -15], np.float32) * np.float32(0.7)
    weight, y = r.weights("int8", (8, 70), 8), r.output(x.dtype, (5, 8))
    r.node("fully_connected", (x, weight, None, r.constant(scales)), y, r.limits(y.dtype))


def softmax(r: RandomNodes) -> None:
    for dims in ((3, 11, 5), (7, 19, 1)):
        x = r.input(r.type(), dims)
        table = r.constant((np.arange(256) / 255.0).astype(np.float32))
        r.node("softmax", (x, table), r.output(x.dtype, dims), (*dims, float_word(256)))


def layer_norm(r: RandomNodes) -> None:
    inputs = (r.floats((3, 5, 22)), r.floats((22,)), r.floats((22,)))
    r.node("layer_norm", inputs, r.float_output((3, 5, 22)), (22, float_word(1e-3)))


def group_norm(r: RandomNodes) -> None:
    inputs = (r.floats((2, 6, 3, 5)), r.floats((6,)), r.floats((6,)))
    r.node("group_norm", inputs, r.float_output((2, 6, 3, 5)), (2, float_word(1e-3)))


def rms_norm(r: RandomNodes) -> None:
    r.node("rms_norm", (r.floats((3, 5, 22)), r.floats((22,))), r.float_output((3, 5, 22)), (22, float_word(1e-3)))


def softmax_float(r: RandomNodes) -> None:
    for stem, words in (("softmax_float", ()), ("log_softmax", ()), ("lp_norm", (1,)), ("lp_norm", (2,))):
        for dims in ((3, 11, 5), (7, 19, 1)):
            r.node(stem, (r.floats(dims),), r.float_output(dims), (*dims, *words))


def lrn(r: RandomNodes) -> None:
    """Windows of an even number of channels, which are not the same on both sides."""
    for size in (4, 3):
        words = (size, float_word(0.3), float_word(0.5), float_word(2.0))
        r.node("lrn", (r.floats((2, 9, 3, 4)),), r.float_output((2, 9, 3, 4)), words)


def batch_norm(r: RandomNodes) -> None:
    inputs = (r.floats((2, 5, 3, 4)), r.floats((5,)), r.floats((5,)))
    r.node("batch_norm", inputs, r.float_output((2, 5, 3, 4)))
    x = r.plain(r.rng.integers(0, 256, (1, 3, 5, 4)).astype(np.uint8))
    r.node("normalize", (x,), r.float_output((1, 3, 5, 4)), tuple(map(float_word, (1.3, -0.7, 2.1, 90.0, -30.0, 4.0))))
    words = (20, -16, 0, 128, 128, *(int(v) for v in r.rng.integers(-(1 << 21), 1 << 21, 9)))
    r.node("yuv_to_rgb", (x,), r.plain_output("uint8", (1, 3, 5, 4)), words)


def global_average_pool(r: RandomNodes) -> None:
    x = r.input(r.type(), (2, 5, 7, 4))
    y = r.output(x.dtype, (2, 5, 1, 1))
    r.node("global_average_pool", (x, r.mean(x, y, 28)), y, r.limits(y.dtype))


def reduce_mean(r: RandomNodes) -> None:
    for axes, kept, count in ((0b0101, (3, 7), 10), (0b1000, (2, 3, 5), 7), (0b0010, (2, 5, 7), 3)):
        x = r.input(r.type(), (2, 3, 5, 7))
        y = r.output(x.dtype, kept)
        r.node("reduce_mean", (x, r.mean(x, y, count, np.float64)), y, (axes, *r.limits(y.dtype)))


def resize_nearest(r: RandomNodes) -> None:
    """Enlarged along rows, made smaller along columns, by factors that are not whole."""
    shape, out = (2, 3, 5, 9), (2, 3, 13, 4)
    x = r.input(r.type("int8", "uint16"), shape)
    index = np.concatenate([np.arange(m) * n // m for n, m in zip(shape, out, strict=True)])
    r.node("resize_nearest", (x, r.constant(index.astype(np.int32))), r.like(x, out))


def resize_linear(r: RandomNodes) -> None:
    """Enlarged along rows and made smaller along columns, of integers and of floats, half-pixel centres."""
    shape, (rows, columns) = (2, 3, 5, 9), (13, 4)
    low, high, shares = [], [], []
    for size, out in ((5, rows), (9, columns)):
        at = np.clip((np.arange(out) + 0.5) * size / out - 0.5, 0, size - 1)
        low.append(np.floor(at).astype(np.int32))
        high.append(np.minimum(low[-1] + 1, size - 1))
        shares.append((at - low[-1]).astype(np.float32))
    index = r.constant(np.concatenate([low[0], high[0], low[1], high[1]]).astype(np.int32))
    weight = r.constant(np.concatenate([part for share in shares for part in (1 - share, share)]).astype(np.float32))
    for rule in (0, 1, 3):
        x = r.input(r.type(), shape)
        r.node("resize_linear", (x, index, weight), r.like(x, (2, 3, rows, columns)), (rule,))
    r.node("resize_linear", (r.floats(shape), index, weight), r.float_output((2, 3, rows, columns)), (0,))


def mod(r: RandomNodes) -> None:
    for first, second in PAIRS:
        a, b = r.rng.integers(-210, 210, first), r.rng.choice(np.array([-7, -5, 3, 4, 12]), second)
        r.node("mod", (r.plain(a), r.constant(b)), r.plain_output("int64", np.broadcast_shapes(first, second)))


def lookup(r: RandomNodes) -> None:
    x, y = r.input("int8", (3, 5, 7)), r.output("int16", (3, 5, 7))
    r.node("lookup", (x, r.constant(r.rng.integers(-32768, 32768, 256).astype(np.int16))), y)


def cast(r: RandomNodes) -> None:
    x = r.rng.integers(-(1 << 40), 1 << 40, (3, 5, 7)) >> r.rng.integers(0, 40, (3, 5, 7))
    floats = ((x % (1 << 24)) / 7 - 1000).astype(np.float32)
    few = r.rng.choice(np.array([-1, -0.7, -0.5, -0.3, 0, 0.3, 0.5, 0.7, 1, 2], np.float32), (3, 5, 7))
    for value, dtype in ((x, "int32"), (x, "float32"), (floats, "int32"), (few, "bool"), (x % 512, "bool")):
        r.node("cast", (r.plain(value),), r.plain_output(dtype, x.shape))


def dynamic_quantize(r: RandomNodes) -> None:
    for offset, shape in ((-1, (5, 7)), (2, (3, 5, 4)), (0.5, (9, 1))):
        x = r.plain((r.rng.normal(offset, 1, shape) * 3).astype(np.float32))
        made = (r.plain_output("uint8", x.shape), r.plain_output("float32", ()), r.plain_output("uint8", ()))
        r.node("dynamic_quantize", (x,), made)


def quantize(r: RandomNodes) -> None:
    """One scale for each channel of an axis."""
    for axis in (1, 2):
        shape = (2, 3, 5, 7)
        x, y = r.floats(shape, 1.5), r.output(r.type(), shape, shape[axis], axis)
        r.node("quantize", (x,), y)


def dequantize(r: RandomNodes) -> None:
    for axis in (1, 2):
        shape = (2, 3, 5, 7)
        r.node("dequantize", (r.input(r.type(), shape, shape[axis], axis),), r.float_output(shape))


NODES: dict[str, Callable[[RandomNodes], None]] = {
    made.__name__.rstrip("_"): made
    for made in (
        *(conv, conv_transpose, conv_float, average_pool, average_pool_float, max_pool, slice_, pad, split, concat),
        *(transpose, depth_to_space, gather, arg_max, add, mul, where, elementwise_float, matmul, matmul_float),
        *(matmul_integer, fully_connected, softmax, layer_norm, group_norm, rms_norm, softmax_float, lrn, batch_norm),
        *(global_average_pool, reduce_mean, resize_nearest, resize_linear, mod, lookup, cast, dynamic_quantize),
        *(quantize, dequantize),
    )
}
