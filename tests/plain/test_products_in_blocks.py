"""Products and tables that are computed block by block give what they give in one piece."""

from __future__ import annotations

import threading
import tracemalloc
import warnings
from functools import partial

import numpy as np
import pytest
from qverify import ops
from qverify.arithmetic.linear import Requantization
from qverify.arithmetic.products import requantized_product
from qverify.arithmetic.tables import look_up
from qverify.arithmetic.workers import core_count, run_blocks
from qverify.model_bin.float_functions import FUNCTIONS
from qverify.model_bin.graph import Graph, Node
from qverify.ops import conv_transpose, elementwise_float
from qverify.tensors.spec import TensorSpec

from tests.ops.random_nodes import RandomNodes

RNG = np.random.default_rng(5)


def output(columns: int, rq: type, dtype: str) -> Requantization:
    """A requantization of this many channels on the last axis; of one, per tensor."""
    scales = (RNG.random(columns) * 1e-3).astype(rq)
    return Requantization(scales, 3, -90, 100, dtype, "ref-exact", False, axis=-1)


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ((64, 300), (300, 700)),  # several blocks of columns
        ((3, 1, 50, 300), (300, 700)),
        ((5, 64, 200), (5, 200, 90)),  # several blocks of matrices
        ((2, 1, 70, 200), (3, 200, 90)),
        ((4, 5), (5, 6)),
        ((0, 5), (5, 6)),
        ((4, 5), (5, 0)),
        ((4, 0), (0, 6)),
        ((2, 4, 0), (2, 0, 6)),
        ((0, 4, 5), (0, 5, 6)),
        ((5,), (2, 5, 6)),
        ((3, 4, 5), (5,)),
    ],
)
@pytest.mark.parametrize("rq", [np.float32, np.float64])
def test_a_product_in_blocks(left: tuple[int, ...], right: tuple[int, ...], rq: type) -> None:
    a, b = (RNG.integers(-128, 128, shape) for shape in (left, right))
    columns = 1 if b.ndim == 1 else right[-1]
    whole = np.matmul(np.atleast_2d(a), b[:, None] if b.ndim == 1 else b)
    for channels in {1, columns}:
        for bias in (None, RNG.integers(-9000, 9000, columns)):
            of, acc = output(channels, rq, "int8"), whole if bias is None else whole + bias
            wanted = np.rint(acc.astype(np.int32).astype(rq) * of.rq).clip(-93, 97) + 3
            for dtype in (np.float32, np.float64):
                given = None if bias is None else bias.astype(dtype)
                found = requantized_product(a.astype(dtype), b.astype(dtype), of, whole.shape, given)
                assert found.dtype == np.int8 and np.array_equal(found, wanted)


@pytest.mark.parametrize("rows", [1, 15, 40])
@pytest.mark.parametrize("turned", [False, True])
def test_a_product_of_weights_as_they_are_stored(rows: int, turned: bool) -> None:
    """Each block makes its part of them ready."""
    a, b = RNG.integers(-255, 256, (rows, 600)), RNG.integers(-128, 128, (600, 900)).astype(np.int8)
    of = output(900, np.float32, "int8")
    wanted = requantized_product(a.astype(np.float32), b.astype(np.float32), of, (rows, 900))
    stored = np.asfortranarray(b) if turned else b
    assert np.array_equal(requantized_product(a.astype(np.float32), stored, of, (rows, 900)), wanted)


@pytest.mark.parametrize("columns", [1, 6])
def test_a_product_that_gives_floats(columns: int) -> None:
    a, b = RNG.integers(-128, 128, (4, 5)), RNG.integers(-128, 128, (5, 6))
    scales = (RNG.random(columns) * 1e-3).astype(np.float64)
    of = Requantization(scales, 0, 0, 0, "float32", "ref-exact", False, axis=-1)
    found = requantized_product(a.astype(np.float32), b.astype(np.float32), of, (2, 2, 6))
    assert np.array_equal(found.reshape(4, 6), ((a @ b) * scales).astype(np.float32))


@pytest.mark.parametrize(("inputs", "outputs", "side"), [(256, 513, 7), (256, 512, 9), (64, 5, 40)])
def test_a_convolution_of_one_run_of_rows_in_blocks_of_outputs(inputs: int, outputs: int, side: int) -> None:
    x, w = (
        RNG.integers(0, 256, (1, inputs, side, side), np.uint8),
        RNG.integers(-9, 10, (outputs, inputs, 1, 1), np.int8),
    )
    specs = [TensorSpec("x", "uint8", x.shape, (), (0.5,), (7,)), TensorSpec("w", "int8", w.shape, (), (0.5,), (0,))]
    specs += [
        TensorSpec("rq", "float32", (outputs,)),
        TensorSpec("y", "uint8", (1, outputs, side, side), (), (0.5,), (3,)),
    ]
    rq = (RNG.random(outputs) * 1e-2).astype(np.float32)
    node = Node("y", "conv", ("x", "w", None, "rq"), ("y",), (1, 1, 1, 1, 0, 0, 0, 0, 1, 1, 1, 0, 255))
    graph = Graph([node], {s.name: s for s in specs}, {"w": w, "rq": rq}, ("x",), ("y",), "ref-exact")
    acc = np.tensordot(w[:, :, 0, 0].astype(np.int64), x[0].astype(np.int64) - 7, 1)
    wanted = (np.rint(acc.astype(np.float32) * rq[:, None, None]) + 3).clip(0, 255)
    assert np.array_equal(ops.simulate_node(graph, node, {"x": x})["y"][0], wanted)


@pytest.mark.parametrize("size", [0, 7, 300_000])
@pytest.mark.parametrize("index", [np.uint8, np.uint16])
def test_a_table(size: int, index: type) -> None:
    table = RNG.integers(0, 1 << 16, np.iinfo(index).max + 1).astype(np.int32)
    at = RNG.integers(0, len(table), (1, size)).astype(index)
    for given in (at, at.T, at[:, ::2]):
        assert np.array_equal(look_up(table, given), table[given])


def test_an_index_beyond_the_table_is_an_error() -> None:
    table = np.arange(255)
    assert look_up(table, np.array([254], np.uint8)) == 254
    with pytest.raises(IndexError):
        look_up(table, np.array([255], np.uint8))


def test_blocks_of_blocks_do_not_wait_for_each_other() -> None:
    """There are as many blocks as workers, and more, each with blocks of its own."""
    made = np.zeros((4 * core_count(), 3), np.int64)

    def outer(row: int) -> None:
        run_blocks(
            [
                lambda column=column: np.add(made[row], np.eye(3, dtype=np.int64)[column], out=made[row])
                for column in range(3)
            ]
        )

    whole = threading.Thread(
        target=run_blocks, args=([lambda row=row: outer(row) for row in range(len(made))],), daemon=True
    )
    whole.start()
    whole.join(60)
    assert not whole.is_alive() and (made == 1).all()


@pytest.mark.parametrize("blocks", [1, 4])
def test_no_block_warns_of_infinities(blocks: int) -> None:
    """numpy's setting is one of each thread."""
    x, made = np.array([np.inf, 1.0]), np.empty((blocks, 2))

    def block(row: int) -> None:
        np.subtract(x, np.inf, out=made[row])

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        run_blocks([partial(block, row) for row in range(len(made))])
    assert np.isnan(made[:, 0]).all() and (made[:, 1] == -np.inf).all()


@pytest.mark.parametrize("name", ["erf", "gelu", "tanh", "log"])
def test_a_float_function_in_blocks(name: str) -> None:
    x = (RNG.standard_normal((3, elementwise_float.BLOCK // 2 + 7)) * 3).astype(np.float32)
    x.reshape(-1)[::997] = (np.nan, np.inf, -np.inf, 0, -0.0, 2.5, -2.5, 6, -6, 1e-30, 5.9999995, 2.4999998, 1)
    graph = Graph([], {}, {}, ("x",), ("y",), "ref-exact")
    node = Node("y", "elementwise_float", ("x",), ("y",), (FUNCTIONS[name].number, 0, 0))
    with np.errstate(all="ignore"):
        wanted = elementwise_float.ONE[name](x.astype(np.float64), 0.0, 0.0).astype(np.float32)
    assert np.array_equal(elementwise_float.simulate(node, [x], graph, None)[0], wanted, equal_nan=True)
    single = [elementwise_float.simulate(node, [one[None]], graph, None)[0] for one in x.reshape(-1)[:9000:450]]
    assert np.array_equal(np.concatenate(single), wanted.reshape(-1)[:9000:450], equal_nan=True)


def transposed_convolution(size: tuple[int, int], kernel: int) -> RandomNodes:
    """One node: x [1, 3, *size] of uint8, two output channels, strides 2, uneven pads."""
    r = RandomNodes("ref-exact", 2)
    x, w = r.input("uint8", (1, 3, *size)), r.weights("int8", (3, 2, kernel, kernel), 1)
    out = [(size[k] - 1) * 2 + kernel - (4, 3)[k] for k in (0, 1)]
    words = (kernel, kernel, 2, 2, 3, 1, 1, 2, 1, 1, 1)
    y = r.output("int8", (1, 2, *out))
    r.node("conv_transpose", (x, w, None, r.rq(kernel**4, 1)), y, (*words, *r.limits("int8")))
    return r


def simulated(r: RandomNodes) -> np.ndarray:
    graph = r.graph()
    return next(iter(ops.simulate_node(graph, graph.nodes[0], r.values).values()))


def test_a_transposed_convolution_by_a_few_taps_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    made = transposed_convolution((9, 7), 5)
    whole = simulated(made)
    assert len(np.unique(whole)) > 10
    for most in (1, 100, 63 * 24):
        monkeypatch.setattr(conv_transpose, "MAX_PRODUCTS", most)
        assert np.array_equal(simulated(made), whole)


def test_the_products_of_a_huge_transposed_convolution_are_not_held_at_once() -> None:
    """2^12 taps times 2^13 pixels would be 256 MiB of float64 for each output channel."""
    made = transposed_convolution((128, 64), 64)
    tracemalloc.start()
    y = simulated(made)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert len(np.unique(y)) > 10 and peak < 100 << 20
