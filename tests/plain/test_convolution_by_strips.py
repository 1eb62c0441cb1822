"""A convolution by a product for each row of the kernel gives what its definition gives, up to the bound of float32."""

from __future__ import annotations

import numpy as np
import pytest
from qverify import ops
from qverify.arithmetic.strips import strip_of
from qverify.arithmetic.windows import Window
from qverify.model_bin.graph import Graph, Node
from qverify.ops import conv, conv_transpose
from qverify.tensors.spec import TensorSpec

from tests.ops.random_nodes import RandomNodes

RNG = np.random.default_rng(9)
F32 = np.dtype(np.float32)
WINDOWS = [
    Window((1, 1), (1, 1), (0, 0, 0, 0)),
    Window((3, 3), (1, 1), (1, 1, 1, 1)),
    Window((3, 3), (2, 2), (0, 0, 1, 1)),
    Window((2, 5), (3, 2), (1, 2, 0, 2)),
    Window((3, 2), (1, 3), (2, 0, 2, 1), (2, 4)),
    Window((4, 1), (2, 1), (3, 0, 3, 0), (3, 1)),
    Window((1, 3), (5, 1), (0, 2, 0, 2)),
]


@pytest.mark.parametrize("window", WINDOWS)
@pytest.mark.parametrize("zero", [0, 7, np.arange(3).reshape(3, 1, 1)])
@pytest.mark.parametrize("ones", [False, True])
def test_a_strip_is_what_its_windows_read(window: Window, zero: int | np.ndarray, ones: bool) -> None:
    x = RNG.integers(0, 256, (3, 13, 17), np.uint8)
    out = tuple(
        (x.shape[1 + k] + window.pad[k] + window.pad[k + 2] - (window.kernel[k] - 1) * window.dilation[k] - 1)
        // window.stride[k]
        + 1
        for k in (0, 1)
    )
    padded = window.padded((x.astype(np.int64) - zero)[None], (out[0], out[1]), 0)
    taps = np.stack([tap[0] for tap in window.taps(padded, (out[0], out[1]))])  # [kh * kw, C, oh, ow]
    for rows in (slice(0, out[0]), slice(1, 2), slice(out[0] // 2, out[0])):
        strip = strip_of(x, window, out[1], rows, zero, F32, ones)
        wanted = taps.reshape(*window.kernel, *taps.shape[1:])[..., rows, :].transpose(0, 2, 1, 3, 4)
        wanted = wanted.reshape(-1, (rows.stop - rows.start) * out[1])
        found = strip.whole()
        assert found.dtype == F32 and np.array_equal(found[int(ones) :], wanted)
        assert not ones or (found[0] == 1).all()
        each = len(wanted) // window.kernel[0]
        for i in range(window.kernel[0]):
            assert np.array_equal(strip.matrix(i), wanted[i * each : (i + 1) * each])


def convolved(x: np.ndarray, w: np.ndarray, bias: int, group: int) -> np.ndarray:
    """The only conv of a graph, of int32 sums that are scaled by 1: their values as float32."""
    kernel, out = w.shape[2:], (x.shape[2] - w.shape[2] + 1, x.shape[3] - w.shape[3] + 1)
    shape = (1, len(w), *out)
    specs = [
        TensorSpec("x", "uint8", x.shape, (), (0.5,), (0,)),
        TensorSpec("w", "int8", w.shape, (), (0.5,), (0,)),
        TensorSpec("b", "int32", (len(w),)),
        TensorSpec("rq", "float64", (len(w),)),
        TensorSpec("y", "float32", shape),
    ]
    constants = {"w": w, "b": np.full(len(w), bias, np.int32), "rq": np.ones(len(w))}
    node = Node("y", "conv", ("x", "w", "b", "rq"), ("y",), (*kernel, 1, 1, 0, 0, 0, 0, 1, 1, group, 0, 0))
    graph = Graph([node], {s.name: s for s in specs}, constants, ("x",), ("y",), "ref-exact")
    return ops.simulate_node(graph, node, {"x": x})["y"]


@pytest.mark.parametrize("beyond", [-1, 0, 1, 3])
@pytest.mark.parametrize("kernel", [1, 3])
@pytest.mark.parametrize(("outputs", "group"), [(1, 1), (9, 1), (200, 1), (2, 2)])
def test_the_sums_are_exact_on_both_sides_of_the_bound(beyond: int, kernel: int, outputs: int, group: int) -> None:
    """The largest sum of the products is 2^24 + beyond - |bias|, and the bias cancels most of it: a float32 that was
    rounded on the way would be off by 1."""
    bias, terms = -(2**22) + 1, 599
    largest = 2**24 + beyond - abs(bias)
    w = np.zeros((outputs, terms, kernel, kernel), np.int8)
    flat = w.reshape(outputs, -1)
    flat[:, : largest // (255 * 127)] = 127
    rest = largest - 255 * 127 * (largest // (255 * 127))
    flat[:, -1] = rest // 255  # x is 255 there
    x = np.full((1, terms * group, 2 + kernel, kernel + 1), 255, np.uint8)
    found = convolved(x, w, bias, group)
    wanted = 255 * flat.astype(np.int64).sum(1) + bias
    assert np.array_equal(found, np.broadcast_to(wanted[:, None, None], found.shape[1:])[None].astype(np.float32))


def test_the_bias_is_no_column_of_the_weights_if_only_it_is_beyond_the_bound() -> None:
    """Each product is exact in float32, and only the whole sum needs float64."""
    x, w = RNG.integers(0, 256, (1, 5, 6, 7), np.uint8), RNG.integers(-128, 128, (4, 5, 3, 3)).astype(np.int8)
    found = convolved(x, w, 2**24 + 1, 1)
    windows = np.lib.stride_tricks.sliding_window_view(x[0].astype(np.int64), (3, 3), (1, 2))
    wanted = np.einsum("chwij,ocij->ohw", windows, w.astype(np.int64)) + 2**24 + 1
    assert np.array_equal(found[0], wanted.astype(np.float64).astype(np.float32))


def random_conv(seed: int, group: int) -> RandomNodes:
    r = RandomNodes("ref-exact", seed)
    x, w = r.input("uint8", (2, 6, 40, 30)), r.weights("int8", (12, 6 // group, 3, 3), 12)
    y = r.output("int8", (2, 12, 20, 28))
    bias = r.constant(r.rng.integers(-9000, 9000, 12).astype(np.int32))
    r.node("conv", (x, w, bias, r.rq(54 // group, 12)), y, (3, 3, 2, 1, 1, 0, 1, 0, 1, 1, group, *r.limits("int8")))
    return r


def simulated(r: RandomNodes) -> np.ndarray:
    graph = r.graph()
    return next(iter(ops.simulate_node(graph, graph.nodes[0], r.values).values()))


@pytest.mark.parametrize("group", [1, 2, 6])
def test_a_convolution_in_blocks_of_any_size(group: int, monkeypatch: pytest.MonkeyPatch) -> None:
    made = random_conv(4, group)
    whole = simulated(made)
    assert len(np.unique(whole)) > 50
    for name in ("DEPTHWISE_BLOCK", "STRIP_BLOCK", "PRODUCTS_BLOCK", "WEIGHTS_BLOCK"):
        with monkeypatch.context() as patch:
            patch.setattr(conv, name, 1)
            assert np.array_equal(simulated(made), whole), name
    for copies in (False, True):
        monkeypatch.setattr(conv, "_copies_all", lambda state, copies=copies: copies)
        assert np.array_equal(simulated(made), whole)


@pytest.mark.parametrize("kernel", [1, 2, 3])
def test_tiles_of_a_transposed_convolution(kernel: int, monkeypatch: pytest.MonkeyPatch) -> None:
    r = RandomNodes("ref-exact", 5)
    x, w = r.input("uint8", (2, 6, 5, 7)), r.weights("int8", (6, 4, kernel, kernel), 1)
    y = r.output("int8", (2, 8, 5 * kernel, 7 * kernel))
    bias = r.constant(r.rng.integers(-900, 900, 8).astype(np.int32))
    words = (kernel, kernel, kernel, kernel, 0, 0, 0, 0, 1, 1, 2)
    r.node("conv_transpose", (x, w, bias, r.rq(3, 8)), y, (*words, *r.limits("int8")))
    found = simulated(r)
    assert len(np.unique(found)) > 50
    monkeypatch.setattr(conv_transpose, "_is_tiled", lambda *given: False)
    assert np.array_equal(simulated(r), found)
