"""Elementwise ops, sums and tables of the simulator give the same bits whichever way they are computed."""

from __future__ import annotations

import threading

import numpy as np
import pytest
from qverify import ops
from qverify.arithmetic import float32, tables
from qverify.arithmetic.float32 import exp64, sequential_sum
from qverify.arithmetic.pairs import FloatSteps
from qverify.arithmetic.tables import Table
from qverify.arithmetic.workers import core_count, run_blocks
from qverify.ops import add, layer_norm, max_pool, mul, resize_linear

from tests.ops.random_nodes import RandomNodes

RNG = np.random.default_rng(11)
SHAPES = [
    ((2, 70, 40), (2, 70, 40)),
    ((2, 70, 40), (70, 1)),
    ((1,), (90, 60)),
    ((80, 1, 9), (1, 9, 9)),
    ((70, 1), (1, 70)),
]


def two_operands(op: str, seed: int) -> RandomNodes:
    r = RandomNodes("ref-exact", seed)
    shapes = SHAPES[seed % len(SHAPES)]
    a, b = (r.input(r.type(), shape) for shape in shapes)
    y = r.output(r.type(), np.broadcast_shapes(*shapes))
    if op == "mul":
        rq = np.array([r.rng.uniform(0.001, 0.02)], np.float32)
        r.node("mul", (a, b, r.constant(rq)), y, r.limits(y.dtype))
        return r
    ra, rb = r.rng.uniform(0.2, 1.5, 2)
    if seed % 7 == 0:
        ra, rb = 0.5, 0.25  # many ties
    rq = np.array([ra, rb, y.zero_point[0] - ra * a.zero_point[0] - rb * b.zero_point[0]], np.float32)
    r.node("add", (a, b, r.constant(rq)), y, (seed // 5 % 2, *r.limits(y.dtype)))
    return r


@pytest.mark.parametrize("op", ["add", "mul"])
@pytest.mark.parametrize("seed", range(30))
def test_float32_steps_give_the_formula(op: str, seed: int) -> None:
    graph = (r := two_operands(op, seed)).graph()
    node, page = graph.nodes[0], {"add": add, "mul": mul}[op]
    state = ops.prepare(node, graph)
    first, second = (r.values[n] for n in node.inputs[:2] if n is not None)
    wanted = page.formula(node, graph, *np.broadcast_arrays(first, second))
    assert wanted.size > add.FEW
    assert np.array_equal(ops.simulate_node(graph, node, r.values, state)[node.outputs[0]], wanted)
    if isinstance(state, FloatSteps):  # and every pair of the bytes
        pair = add.every_pair(node, graph)
        found = np.empty((256, 256), wanted.dtype)
        state.apply(*pair, found)
        assert np.array_equal(found, page.formula(node, graph, *np.broadcast_arrays(*pair)))


def test_an_addition_without_equal_steps_keeps_its_table(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = (r := two_operands("add", 0)).graph()
    node = graph.nodes[0]
    monkeypatch.setattr(add, "OFFSETS", [1 << 18])  # a quarter beside every tie
    state = ops.prepare(node, graph)
    assert isinstance(state, np.ndarray)
    first, second = (r.values[n] for n in node.inputs[:2] if n is not None)
    wanted = add.formula(node, graph, *np.broadcast_arrays(first, second))
    assert np.array_equal(ops.simulate_node(graph, node, r.values, state)[node.outputs[0]], wanted)


@pytest.mark.parametrize("constant", [np.inf, np.nan])
@pytest.mark.parametrize("op", ["add", "mul"])
def test_constants_that_are_no_numbers_have_no_steps(op: str, constant: float) -> None:
    r = two_operands(op, 1)
    name = r.nodes[0].inputs[2] or ""
    r.constants[name] = np.full_like(r.constants[name], constant)
    with np.errstate(all="ignore"):
        assert not isinstance(ops.prepare(r.nodes[0], r.graph()), FloatSteps)


@pytest.mark.parametrize("shape", [(1, 1001), (99, 64), (2, 50, 40), (17, 300), (15, 300), (3, 7, 1), (600, 3)])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_sum_is_added_from_left_to_right(shape: tuple[int, ...], dtype: type) -> None:
    x = (RNG.normal(size=shape) * 10.0 ** RNG.integers(-6, 6, shape)).astype(dtype)
    x.flat[:: x.size // 3] = -0.0
    for values in (x, np.full_like(x, -0.0), np.asfortranarray(x)):
        for axis in range(-1, x.ndim):
            moved = np.moveaxis(values, axis, 0)
            total = moved[0].copy()
            for row in moved[1:]:
                total += row
            found = sequential_sum(values, axis)
            assert found.dtype == dtype and found.shape == np.expand_dims(total, axis).shape
            assert np.array_equal(
                found.view(f"u{found.itemsize}"), np.expand_dims(total, axis).view(f"u{found.itemsize}")
            )


def test_powers_of_two_in_the_exponential() -> None:
    """The results equal those of ldexp, which rounds to subnormal numbers once and gives infinities."""
    x = np.concatenate(
        [RNG.uniform(-750, 715, 20000), [-745.2, -745.0, -744.5, -708.4, 0.0, 709.7, 709.8, np.inf, -np.inf, np.nan]]
    )
    safe = np.clip(np.where(np.isnan(x), 0.0, x), -745.0, 709.7)
    n = np.rint(safe * 1.4426950408889634)
    r = (safe - n * float32.LN2_HIGH) - n * float32.LN2_LOW
    half = n.astype(np.int64) >> 1
    plain = np.ldexp(np.ldexp(float32._horner(float32._EXP, r), half), n.astype(np.int64) - half)
    inside = (x >= -745.0) & (x <= 709.7)
    assert np.array_equal(exp64(x)[inside], plain[inside]) and (plain[inside] < 2.3e-308).any()
    assert np.isnan(exp64(x)[-1]) and exp64(x)[-2] == 0 and np.isinf(exp64(x)[-3])


@pytest.mark.parametrize("size", [tables.MANY, tables.MANY + 1])
@pytest.mark.parametrize("dtype", [np.uint8, np.int8])
def test_a_table_of_pairs(size: int, dtype: type) -> None:
    values = RNG.permutation(256).astype(np.uint8).view(dtype)
    table, index = Table.of(values, size), RNG.integers(0, 256, (1, size), np.uint8)
    assert table.pairs is not None and Table.of(values, tables.MANY - 1).pairs is None
    assert Table.of(values[:255], size).pairs is None and Table.of(values.astype(np.int16), size).pairs is None
    assert np.array_equal(table.look_up(index), values[index])


def simulated(r: RandomNodes) -> np.ndarray:
    graph = r.graph()
    return next(iter(ops.simulate_node(graph, graph.nodes[0], r.values).values()))


@pytest.mark.parametrize(
    "words", [(3, 3, 2, 2, 1, 1, 1, 1, 1, 1), (2, 3, 1, 2, 0, 2, 1, 0, 3, 2), (1, 1, 2, 1, 0, 0, 0, 0, 1, 1)]
)
@pytest.mark.parametrize("dtype", ["uint8", "int8", "int16"])
def test_a_maximum_of_columns_first(words: tuple[int, ...], dtype: str, monkeypatch: pytest.MonkeyPatch) -> None:
    r = RandomNodes("ref-exact", 3)
    x = r.input(dtype, (2, 5, 12, 15))
    size = [
        (x.shape[2 + k] + words[4 + k] + words[6 + k] - (words[k] - 1) * words[8 + k] - 1) // words[2 + k] + 1
        for k in (0, 1)
    ]
    r.node("max_pool", (x,), r.like(x, (2, 5, *size)), words)
    found = simulated(r)
    monkeypatch.setattr(max_pool.Window, "reads_directly", lambda *given: False)
    assert np.array_equal(simulated(r), found)


@pytest.mark.parametrize("rows", [1, 4, 200])
def test_layer_norm_in_blocks(rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    r = RandomNodes("ref-exact", 3)
    x, gamma, beta = r.floats((rows, 48)), r.constant(RNG.normal(size=48).astype(np.float32)), None
    r.node("layer_norm", (x, gamma, beta), r.float_output((rows, 48)), (48, int(np.float32(1e-5).view(np.int32))))
    found, values = simulated(r), r.values[x.name].astype(np.float64)
    mean = np.add.accumulate(values, 1)[:, -1:] / 48.0
    variance = np.add.accumulate((values - mean) ** 2, 1)[:, -1:] / 48.0
    wanted = (values - mean) / np.sqrt(variance + float(np.float32(1e-5))) * r.constants[gamma.name].astype(np.float64)
    assert np.array_equal(found, wanted.astype(np.float32))
    monkeypatch.setattr(layer_norm, "BLOCK", 100)
    assert np.array_equal(simulated(r), found)


@pytest.mark.parametrize("truncate", [0, 1, 2, 3])
def test_a_resize_in_blocks(truncate: int, monkeypatch: pytest.MonkeyPatch) -> None:
    r = RandomNodes("ref-exact", 3)
    x, size = r.input("uint8", (2, 3, 5, 6)), (17, 23)
    near = [RNG.integers(0, 5 + k // 2, size[k // 2]) for k in range(4)]
    kind = np.int32 if truncate == 2 else np.float32
    weights = [(RNG.uniform(0, 1, size[k // 2]) * (1024 if truncate == 2 else 1)).astype(kind) for k in range(4)]
    index, weight = r.constant(np.concatenate(near).astype(np.int32)), r.constant(np.concatenate(weights))
    r.node("resize_linear", (x, index, weight), r.like(x, (2, 3, *size)), (truncate,))
    found = simulated(r)
    assert len(np.unique(found)) > 20
    for block in (1, 50, 500):
        monkeypatch.setattr(resize_linear, "BLOCK", block)
        assert np.array_equal(simulated(r), found)


def test_the_calling_thread_takes_part_and_an_error_waits_for_the_others() -> None:
    names, finished = set[str](), []
    for _ in range(50):
        run_blocks([lambda: names.add(threading.current_thread().name)] * (2 * core_count()))
    assert threading.current_thread().name in names

    def failing() -> None:
        raise ZeroDivisionError

    def slow() -> None:
        threading.Event().wait(0.05)
        finished.append(1)

    begun = len(finished)
    with pytest.raises(ZeroDivisionError):
        run_blocks([slow, failing, *[slow] * 20])
    after = len(finished)
    threading.Event().wait(0.2)
    assert begun <= after == len(finished) < 22  # what had begun is finished, and the rest is not begun
    run_blocks([slow, slow])
    assert len(finished) == after + 2
