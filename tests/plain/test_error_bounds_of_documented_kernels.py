"""Compares the bounds of documented kernels (NUMERICS.md section 4, "Documented kernels") with values and errors worked out
here."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from qverify.arithmetic.multipliers import add_parameters
from qverify.compare.error_bounds import documented_kernels as page
from qverify.compare.error_bounds import integer_sums
from qverify.compare.error_bounds.bounded_values import NoBound, Real, Whole
from qverify.compare.error_bounds.documented_kernels import TooMany, evaluate_documented, is_fixed_point_add
from qverify.model_bin.graph import Graph, Node
from qverify.model_bin.units import Unit, units
from qverify.tensors.spec import TensorSpec

RNG = np.random.default_rng(5)
KERNELS = ("litert-reference", "litert-optimized", "litert-xnnpack", "onnxruntime")
Tensor = tuple[Any, float, int]  # values or shape, scale, zero point


def g(roundings: int) -> float:
    part = roundings * 2.0**-24 * (1 + 2.0**-18)
    return part / (1 - part)


def bytes_of(*shape: int, dtype: str = "int8") -> Any:
    info = np.iinfo(dtype)
    return RNG.integers(info.min, info.max + 1, shape).astype(dtype)


def network(op: str, x: Tensor, y: Tensor, words: Sequence[int] = (), dtype: str = "int8", **held: Any) -> Graph:
    """Returns one node, x -> y. held: its constants, with scale and zero point, or values alone; None: left out."""
    tensors = {
        "x": TensorSpec("x", x[0].dtype.name, x[0].shape, scale=(x[1],), zero_point=(x[2],)),
        "y": TensorSpec("y", dtype, y[0], scale=(y[1],), zero_point=(y[2],)),
    }
    constants = {}
    for name, value in held.items():
        array, about = (value[0], value[1:]) if isinstance(value, tuple) else (value, ())
        if array is not None:
            constants[name] = array
            scale, zero = ((about[0],), (about[1],)) if about else ((), ())
            tensors[name] = TensorSpec(name, array.dtype.name, array.shape, scale=scale, zero_point=zero)
    node = Node("y", op, ("x", *(n if n in constants else None for n in held)), ("y",), tuple(words))
    return Graph([node], tensors, constants, ("x",), ("y",))


def found(graph: Graph, x: Any, kernels: str = "litert-reference", unit: Unit | None = None) -> Whole:
    """Returns the bounded values of every element of y."""
    at = np.arange(graph.spec("y").elements)
    parts = [*evaluate_documented(unit or units(graph)[0], "y", graph, {"x": x}, at, kernels)]
    assert np.array_equal(np.concatenate([p for p, _ in parts]), at)
    low, high, error = (np.concatenate([getattr(w, n) for _, w in parts]) for n in ("low", "high", "error"))
    return Whole(low, high, error)


def check(got: Whole, value: Any, error: Any, zero: int) -> None:
    """Checks the interval of values (LSB before the zero point) within this error, and the error."""
    value, error = np.asarray(value).reshape(-1), np.broadcast_to(error, np.asarray(value).shape).reshape(-1)
    assert got.error is not None and np.allclose(got.error, error, rtol=1e-12, atol=0.0)
    ends = np.ceil(value - error - 0.5) + zero, np.floor(value + error + 0.5) + zero
    assert np.array_equal(got.low, np.clip(ends[0], -128, 127)) and np.array_equal(
        got.high, np.clip(ends[1], -128, 127)
    )


X, W, B = bytes_of(5, 6), bytes_of(4, 6), RNG.integers(-500, 500, 4).astype(np.int32)
RQ = np.array([3, 7], np.int32)  # multipliers of model.bin, which say nothing of the board's


def dense(weights: str = "int8", **held: Any) -> Graph:
    """Returns a fully connected layer in which a product is worth 2^-4 of the output's step."""
    w = W if weights == "int8" else (W.astype(np.int64) + 128).astype(np.uint8)
    held = {"w": (w, 0.125, 0 if weights == "int8" else 128), "b": B, "rq": RQ, **held}
    return network("fully_connected", (X, 0.5, 3), ((5, 4), 1.0, -2), (-128, 127), **held)


ACC = (X.astype(np.int64) - 3) @ W.T.astype(np.int64)


@pytest.mark.parametrize("weights", ["int8", "uint8"])
@pytest.mark.parametrize("kernels", KERNELS)
def test_integer_sums(kernels: str, weights: str) -> None:
    v = (ACC + B) / 16
    twice = 2.0**-4  # 2^-4 = 0.5 * 2^-3
    if kernels == "litert-xnnpack" and weights == "uint8":
        twice = 0.25 + 2.0**-15 * np.abs(v)
    error = twice + (2.0**-29 + g(8)) * np.abs(v) + 2.0**-16
    check(found(dense(weights), X, kernels), v, error, -2)


def test_a_layer_without_a_bias_and_one_with_alpha_in_its_scale() -> None:
    for rq, scale in ((np.array([7.0], np.float32), 7.0), (RQ, 1 / 16)):
        v = ACC * scale
        twice = 2.0**-4 if scale < 0.5 else 0.0
        check(found(dense(b=None, rq=rq), X), v, twice + (2.0**-29 + g(8)) * np.abs(v) + 2.0**-16, -2)


def test_sums_in_float32() -> None:
    """6 products; a bias is off by half a step of the accumulator."""
    graph = dense()
    graph.nodes[0] = replace(graph.nodes[0], integer_reference=False)
    v, size = (ACC + B) / 16, (np.abs(X.astype(np.int64) - 3) @ np.abs(W.T.astype(np.int64)) + np.abs(B)) / 16
    check(found(graph, X), v, g(14) * size + 1 / 32 + 2.0**-4 + 2.0**-29 * np.abs(v) + 2.0**-16, -2)


def test_the_scale_of_other_sums_is_that_of_their_tensors() -> None:
    w, own = W.reshape(4, 6, 1, 1), np.array([9.0], np.float32)
    x = X.reshape(5, 6, 1, 1)
    words = (1, 1, 1, 1, 0, 0, 0, 0, 1, 1, 1, -128, 127)
    conv = network("conv", (x, 0.5, 3), ((5, 4, 1, 1), 1.0, 0), words, w=(w, 0.125, 0), b=None, rq=own)
    check(found(conv, x), ACC / 16, 2.0**-4 + (2.0**-29 + g(8)) * np.abs(ACC / 16) + 2.0**-16, 0)
    product = (X[:4].astype(np.int64) - 3) * W
    mul = network("mul", (X[:4], 0.5, 3), ((4, 6), 1.0, 5), (-128, 127), w=(W, 0.125, 0), rq=own)
    for kernels in ("litert-xnnpack", "onnxruntime"):
        v = product / 16
        check(found(mul, X[:4], kernels), v, 2.0**-4 + (2.0**-29 + g(8)) * np.abs(v) + 2.0**-16, 5)


@pytest.mark.parametrize(
    ("rq", "sign"), [([0, 5, -3], 1), ([5, -5, 3], -1), ([0.5, 0.5, -9.0], 1), ([0.5, -0.5, 1.0], -1)]
)
def test_add_and_sub(rq: list[float], sign: int) -> None:
    other = bytes_of(5, 6)
    held = np.array(rq, np.int32 if isinstance(rq[0], int) else np.float32)
    graph = network("add", (X, 0.25, 3), ((5, 6), 0.5, 1), (0, -128, 127), w=(other, 1.0, -4), rq=held)
    a, b = (X.astype(float) - 3) / 2, sign * 2.0 * (other.astype(float) + 4)
    error = g(10) * (np.abs(a) + np.abs(b)) + 2.0 * (510 * 2.0**-21 + 2.0**-17) + 2.0**-16
    check(found(graph, X), a + b, error, 1)


@pytest.mark.parametrize("kernels", KERNELS)
def test_means(kernels: str) -> None:
    x = bytes_of(2, 3, 4, 5)
    centred = x.astype(np.int64) + 6
    cut = 0.5 if kernels in ("litert-optimized", "litert-xnnpack") else 0.0  # 6 * 0.25 = 1.5 steps
    for op, words in (("global_average_pool", (-128, 127)), ("reduce_mean", (0b1100, 1, -128, 127))):
        graph = network(op, (x, 0.25, -6), ((2, 3, 1, 1), 1.0, 2), words, rq=RQ)
        v, size = centred.sum((2, 3)) / 80, np.abs(centred).sum((2, 3)) / 80
        check(found(graph, x, kernels), v, g(28) * size + 2 * 2.0**-7 + 2.0**-16 + cut, 2)  # 1/80 = 0.8 * 2^-6
    words = (2, 2, 1, 1, 0, 0, 0, 0, 0, 1, 1, -128, 127)
    graph = network("average_pool", (x, 0.25, -6), ((2, 3, 3, 4), 1.0, 2), words, rq=RQ[:1])
    window = [centred[:, :, i : 3 + i, j : 4 + j] for i in range(2) for j in range(2)]
    size = sum(np.abs(w) for w in window) / 16
    check(found(graph, x, kernels), sum(window) / 16, g(12) * size + 2 * 2.0**-4 + 2.0**-16, 2)


def test_sums_are_evaluated_in_parts_and_up_to_a_number(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = found(dense(), X)
    monkeypatch.setattr(integer_sums, "TERMS_AT_ONCE", 13)
    parts = found(dense(), X)
    assert np.array_equal(whole.low, parts.low) and np.array_equal(whole.high, parts.high)
    monkeypatch.setattr(page, "MAX_TERMS", 5 * 6 - 1)
    assert np.array_equal(found(dense(), X).low, whole.low)  # from the whole accumulator
    held = {"w": (bytes_of(5, 6), 0.125, 0), "rq": RQ[:1]}
    product = network("mul", (X, 0.5, 3), ((5, 6), 1.0, 5), (-128, 127), **held)
    with pytest.raises(TooMany, match="30 elements differ, more than are evaluated"):
        found(product, X)
    monkeypatch.setattr(page, "MAX_TERMS", 5 * 6)
    found(product, X)


def windows(op: str, group: int, zero: int, bias: bool) -> tuple[Graph, Any]:
    """Returns a convolution that the reference computes in float32, and its input. Its windows are of 3 x 3 with a stride
    of 2 and reach beyond the edge."""
    x, per = bytes_of(1, 4, 7, 7), 4 // group
    w = bytes_of(*((4, 6 // group) if op == "conv_transpose" else (6, per)), 3, 3)
    shape = (1, 6, 13, 13) if op == "conv_transpose" else (1, 6, 4, 4)
    words = (3, 3, 2, 2, 1, 1, 1, 1, 1, 1, group, -128, 127)
    b = RNG.integers(-500, 500, 6).astype(np.int32) if bias else None
    graph = network(op, (x, 0.5, 3), (shape, 64.0, -2), words, w=(w, 0.125, zero), b=b, rq=RQ[:1])
    graph.nodes[0] = replace(graph.nodes[0], integer_reference=False)
    return graph, x


@pytest.mark.parametrize(("group", "zero", "bias"), [(1, 0, True), (2, 5, False)])
@pytest.mark.parametrize("op", ["conv", "conv_transpose"])
def test_sums_from_the_whole_accumulator_have_the_same_bounds(
    op: str, group: int, zero: int, bias: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph, x = windows(op, group, zero, bias)
    whole = found(graph, x)
    monkeypatch.setattr(page, "SUMMED_AT_ONCE", ())
    single = found(graph, x)
    assert np.array_equal(whole.low, single.low) and np.array_equal(whole.high, single.high)
    assert np.allclose(whole.error, single.error, rtol=1e-12) and not np.array_equal(whole.error, whole.error[::-1])


def test_an_output_of_16_bits_is_evaluated_like_one_of_8() -> None:
    graph = dense()
    graph.tensors["y"] = replace(graph.tensors["y"], dtype="int16")
    graph.nodes[0] = replace(graph.nodes[0], words=(-32768, 32767))
    v = ((ACC + B) / 16).reshape(-1)
    got = found(graph, X, "")
    assert np.array_equal(got.low, np.ceil(v - got.error - 0.5) - 2)
    assert got.error is not None and got.error.max() < 2.0**-10


def test_a_runtime_that_is_not_known_rounds_once() -> None:
    """Without the doubt of a double rounding, for sums, means and another quantization. The 6 products of a sum may have
    been added in float32."""
    v, size = (ACC + B) / 16, (np.abs(X.astype(np.int64) - 3) @ np.abs(W.T.astype(np.int64)) + np.abs(B)) / 16
    own = np.maximum(g(8) * np.abs(v), g(6**0.5) * size)
    check(found(dense(), X, ""), v, own + 2.0**-29 * np.abs(v) + 2.0**-16, -2)
    steps = X.astype(float) - 3
    check(found(requantize(), X, ""), steps / 4, g(8) * np.abs(steps) / 4 + 2.0**-16, -2)
    x = bytes_of(2, 3, 4, 5)
    centred = x.astype(np.int64) + 6
    graph = network("global_average_pool", (x, 0.25, -6), ((2, 3, 1, 1), 1.0, 2), (-128, 127), rq=RQ)
    size = np.abs(centred).sum((2, 3)) / 80
    check(found(graph, x, ""), centred.sum((2, 3)) / 80, g(28) * size + 2.0**-16, 2)


def test_a_function_whose_real_values_are_known_is_evaluated() -> None:
    every = np.tanh((np.arange(-128, 128) - 3) / 4) * 100
    graph = requantize(np.rint(every).astype(np.int8))
    with pytest.raises(NoBound, match=r"^the table of a function$"):
        found(graph, X, "")
    graph.real_tables = {"y": lambda: every}
    v = every[X.astype(int) + 128]
    check(found(graph, X, ""), v, 2.0**-18 * (np.abs(v) + 1) + 2.0**-16, -2)
    twice = 2.0**-2  # 0.25 = 0.5 * 2^-1
    check(found(graph, X, "litert-reference"), v, 2.0**-18 * (np.abs(v) + 1) + 2.0**-16 + twice, -2)


def test_a_batch_normalization_is_evaluated_for_a_runtime_that_is_not_known() -> None:
    k, b = np.array([0.5, -3.0], np.float32), np.array([0.25, 7.0], np.float32)
    x = RNG.normal(size=(3, 2, 4)).astype(np.float32)
    specs = {n: TensorSpec(n, "float32", v.shape) for n, v in (("x", x), ("y", x), ("k", k), ("b", b))}
    graph = Graph([Node("y", "batch_norm", ("x", "k", "b"), ("y",))], specs, {"k": k, "b": b}, ("x",), ("y",))
    at = np.arange(x.size)
    ((part, value),) = evaluate_documented(units(graph)[0], "y", graph, {"x": x}, at, "")
    term, summand = x.astype(float) * k[:, None], np.broadcast_to(b[:, None], x.shape)
    assert isinstance(value, Real) and np.array_equal(part, at)
    assert np.allclose(value.value, (term + summand).reshape(-1), rtol=1e-12)
    assert np.allclose(value.error, (2.0**-18 * (np.abs(term) + np.abs(summand))).reshape(-1), rtol=1e-9)


def test_what_follows_sums_in_their_unit() -> None:
    graph, table = dense(), np.arange(255, -1, -1).astype(np.uint8)  # 127 - q
    graph.tensors |= {"s": replace(graph.tensors["y"], name="s"), "t": TensorSpec("t", "uint8", (256,))}
    graph.constants["t"] = table
    first = replace(graph.nodes[0], outputs=("s",))
    look_up, other = Node("y", "lookup", ("s", "t"), ("y",)), Node("y", "dequantize", ("s",), ("y",))
    unit = Unit("y", "fully_connected", (first, look_up), ("x",), ("y",), True)
    plain, through = found(dense(), X), found(graph, X, unit=unit)
    assert np.array_equal(through.low, 127 - plain.high) and np.array_equal(through.high, 127 - plain.low)
    with pytest.raises(NoBound, match=r"^dequantize$"):
        found(graph, X, unit=replace(unit, nodes=(first, look_up, other)))


def requantize(table: Any = None, x: Any = X, dtype: str = "int8") -> Graph:
    """Returns a lookup from steps of 0.25 to steps of 1."""
    low = int(np.iinfo(x.dtype).min)
    wanted = np.clip(np.rint((np.arange(low, low + 256) - 3) / 4) - 2, np.iinfo(dtype).min, np.iinfo(dtype).max)
    held = wanted.astype(dtype) if table is None else table
    return network("lookup", (x, 0.25, 3), (x.shape, 1.0, -2 if dtype == "int8" else 2), (), dtype, table=held)


@pytest.mark.parametrize("kernels", KERNELS)
def test_another_quantization_of_the_same_values(kernels: str) -> None:
    steps = X.astype(float) - 3
    error = 2.0**-2 + g(8) * np.abs(steps) / 4 + 2.0**-16  # 0.25 = 0.5 * 2^-1
    error = error + (2.0**-9 * np.abs(steps) if kernels == "litert-xnnpack" else 0.0)
    check(found(requantize(), X, kernels), steps / 4, error, -2)
    one = requantize()
    spoilt = one.constants["table"].copy()
    spoilt[99] += 1  # of a whole number of steps: off by one
    found(requantize(spoilt), X, kernels)
    spoilt[99] += 1
    with pytest.raises(NoBound, match=r"^the table of a function$"):
        found(requantize(spoilt), X, kernels)
    for name in ("x", "y"):
        several = requantize()
        several.tensors[name] = replace(several.tensors[name], scale=(0.25,) * 6, zero_point=(0,) * 6, channel_axis=1)
        with pytest.raises(NoBound, match=r"^the table of a function$"):
            found(several, X, kernels)


@pytest.mark.parametrize("kernels", KERNELS)
def test_softmax(kernels: str) -> None:
    table = np.exp((np.arange(256) - 255) / 8).astype(np.float32)
    ys = int(np.array(256.0, np.float32).view(np.int32))
    graph = network("softmax", (X, 0.125, 0), ((5, 6), 1 / 256, -128), (5, 6, 1, ys), table=table)
    e = table[X.astype(int) - X.max(1, keepdims=True) + 255].astype(float)
    v = 256 * e / e.sum(1, keepdims=True)
    plain = found(graph, X, "onnxruntime")
    got = found(graph, X, kernels)
    assert plain.error is not None and got.error is not None
    more = 14 * 2.0**-20 * v.reshape(-1) if kernels != "onnxruntime" else 0.0
    assert np.allclose(got.error, plain.error + more, rtol=1e-9, atol=0.0)


def resize(dtype: str, weight: str = "float32") -> tuple[Graph, Any]:
    """Returns a resize of one row from 2 to 3 columns, at the places 0, 0.5 and 1."""
    x = (np.array([[[[-3, 4]]]]) + (128 if dtype == "uint8" else 0)).astype(dtype)
    index = np.array([0, 0, *(0, 0, 1), *(1, 1, 1)], np.int32)
    parts = np.array([1, 0, *(1, 0.5, 1), *(0, 0.5, 0)], weight)
    graph = network("resize_linear", (x, 0.5, 3), ((1, 1, 1, 3), 0.5, 3), (1,), dtype, index=index, weight=parts)
    return graph, x


@pytest.mark.parametrize(("dtype", "kernels"), [*(("uint8", k) for k in KERNELS), ("int8", "onnxruntime")])
def test_a_resize_of_integers_is_rounded_or_cut_off(dtype: str, kernels: str) -> None:
    graph, x = resize(dtype)
    got = found(graph, x, kernels)
    size = np.array([3, 3.5, 4] if dtype == "int8" else [125, 128.5, 132])
    error = g(6) * size + 2.0**-126 + (255 * 2.0**-11 if kernels == "litert-xnnpack" else 0.0)
    assert got.error is not None and np.allclose(got.error, error, rtol=1e-12, atol=0.0)
    low, high = ([-3, 0, 3], [-2, 1, 4]) if dtype == "int8" else ([124, 128, 131], [125, 129, 132])
    assert (got.low.tolist(), got.high.tolist()) == (low, high)


def test_a_resize_at_places_in_fixed_point_has_no_evaluation() -> None:
    for graph, x, kernels in (
        (*resize("int8"), "litert-reference"),
        (*resize("uint8", "int32"), "onnxruntime"),
    ):
        with pytest.raises(NoBound, match=r"^resize_linear in fixed point$"):
            found(graph, x, kernels)
    graph, x = resize("uint8")
    graph.tensors["y"] = replace(graph.tensors["y"], dtype="int8")
    with pytest.raises(NoBound, match=r"^resize_linear in fixed point$"):
        found(graph, x, "onnxruntime")


def test_which_adds_are_in_fixed_point() -> None:
    """Multipliers of 22 bits for 1/2 and 2, one shift, halves up."""
    other = bytes_of(5, 6)
    graph = network("add", (X, 0.25, 3), ((5, 6), 0.5, 1), (0, -128, 127), w=(other, 1.0, -4), rq=RQ)
    first, second, shift = (int(v) for v in add_parameters("mul22", 0.5, 2.0))
    total = (X.astype(np.int64) - 3) * first + (other.astype(np.int64) + 4) * second
    wanted = np.clip(((total + (1 << shift - 1)) >> shift) + 1, -128, 127).astype(np.int8)
    (unit,) = units(graph)
    assert is_fixed_point_add(unit, graph, {"x": X}, wanted)
    spoilt = wanted.copy()
    spoilt[4, 5] ^= 1
    assert not is_fixed_point_add(unit, graph, {"x": X}, spoilt)
    assert not is_fixed_point_add(unit, graph, {"x": X}, wanted.astype(np.int16))
    assert not is_fixed_point_add(replace(unit, nodes=unit.nodes * 2), graph, {"x": X}, wanted)
    assert not is_fixed_point_add(units(dense())[0], dense(), {"x": X}, wanted)
    graph.tensors["x"] = replace(graph.tensors["x"], scale=(2.0**30,))
    assert not is_fixed_point_add(unit, graph, {"x": X}, wanted)
