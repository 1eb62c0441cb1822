"""Products of bytes by oneDNN are exact, are not used where they are not, and give what numpy's give."""

from __future__ import annotations

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from qverify import ops
from qverify.arithmetic import byte_products
from qverify.arithmetic.byte_products import ByteProduct, multiply_bytes, plan_byte_product, signed_bytes
from qverify.arithmetic.one_dnn import OneDnn, load_one_dnn
from qverify.errors import BadFileError
from qverify.inputs.random_inputs import random_inputs
from qverify.sides.simulator import Simulator

from tests.ops.case_files import RANDOM_NODES
from tests.ops.random_nodes import RandomNodes

Array = np.ndarray
INT32 = np.dtype(np.int32)
SUMS = 1 << 24  # of a product that is large enough for oneDNN
RNG = np.random.default_rng(76)
STEMS = ("conv", "fully_connected", "matmul", "matmul_integer", "matmul_integer_scaled")


@pytest.fixture(scope="module")
def engine() -> OneDnn:
    loaded = load_one_dnn()
    if loaded is None:
        pytest.skip("oneDNN is not installed (extra `fast`), or this processor has no exact products of bytes")
    return loaded


def drawn(dtype: type, shape: tuple[int, ...]) -> Array:
    """Random bytes of this type, among them many of its ends."""
    info = np.iinfo(dtype)
    values = RNG.integers(info.min, info.max + 1, shape)
    ends = RNG.choice([info.min, info.max], shape)
    return np.where(RNG.random(shape) < 0.5, ends, values).astype(dtype)


def zero_of(dtype: type) -> int:
    info = np.iinfo(dtype)
    return int(RNG.choice([info.min, info.max, 0, int(RNG.integers(info.min, info.max + 1))]))


def exact(a: Array, zero_a: int, b: Array, zero_b: int) -> Array:
    return (a.astype(np.int64) - zero_a) @ (b.astype(np.int64) - zero_b)


@pytest.mark.parametrize("shape", [(1, 1, 1), (1, 70, 33), (197, 64, 5), (17, 129, 64), (3, 4608, 49), (64, 1, 640)])
@pytest.mark.parametrize("types", [(x, w) for x in (np.uint8, np.int8) for w in (np.uint8, np.int8)])
def test_products_of_every_type_and_order(
    engine: OneDnn, shape: tuple[int, int, int], types: tuple[type, type]
) -> None:
    a, b = drawn(types[0], shape[:2]), drawn(types[1], shape[1:])
    zeros = zero_of(types[0]), zero_of(types[1])
    operands = [(np.dtype(of).name, (zero,)) for of, zero in zip(types, zeros, strict=True)]
    product = plan_byte_product(operands[0], operands[1], (SUMS, shape[1]), INT32)
    assert product is not None
    wanted = exact(a, zeros[0], b, zeros[1])
    for left in (a, np.asfortranarray(a)):
        for right in (signed_bytes(b), np.asfortranarray(signed_bytes(b))):
            assert np.array_equal(product.multiply(left, right), wanted)
    bias = RNG.integers(-(1 << 20), 1 << 20, len(a)).astype(np.int32)
    halves = [[a[:, : shape[1] // 2], a[:, shape[1] // 2 :]], [b[: shape[1] // 2], b[shape[1] // 2 :]]]
    if shape[1] > 1:
        left, right = halves[0], [signed_bytes(half) for half in halves[1]]
        assert np.array_equal(product.sum_products(left, right, bias), wanted + bias[:, None])
        assert np.array_equal(product.sum_products(left, right, None), wanted)


def test_operands_of_any_layout(engine: OneDnn) -> None:
    product, tall = ByteProduct(engine, (3, -7), INT32), drawn(np.int8, (40, 60))
    layouts = {
        "flipped": tall[::-1, ::-1],
        "every second": tall[::2, ::2],
        "repeated": np.broadcast_to(tall[0], (40, 60)),
        "one column repeated": np.broadcast_to(tall[:, :1], (40, 60)),
        "overlapping": np.lib.stride_tricks.sliding_window_view(tall.reshape(-1), 60)[:40],
        "inner axes moved": drawn(np.int8, (60, 4, 10)).transpose(1, 2, 0).reshape(40, 60),
        "a part": tall[3:, 5:50],
    }
    for name, a in layouts.items():
        for b in (a.T, drawn(np.int8, (a.shape[1], 9))[:, 2:]):
            assert np.array_equal(product.multiply(a, b), exact(a, 3, b, -7)), name
    stack = drawn(np.int8, (3, 5, 60)), drawn(np.int8, (3, 60, 8))
    assert np.array_equal(product.multiply(*stack), exact(stack[0], 3, stack[1], -7))


def test_products_in_several_threads(engine: OneDnn) -> None:
    product = ByteProduct(engine, (9, 1), INT32)
    pairs = [(drawn(np.uint8, (64, 200 + i)), drawn(np.int8, (200 + i, 90))) for i in range(24)]
    with ThreadPoolExecutor(8) as pool:
        for (a, b), found in zip(pairs, pool.map(lambda pair: product.multiply(*pair), pairs), strict=True):
            assert np.array_equal(found, exact(a, 9, b, 1))


@pytest.mark.parametrize(
    ("a", "b", "shape", "bias"),
    [
        (("int16", (0,)), ("int8", (0,)), (SUMS, 9), None),
        (("int8", (0,)), ("int16", (0,)), (SUMS, 9), None),
        (("int8", (0, 1)), ("int8", (0,)), (SUMS, 9), None),
        (("int8", (0,)), ("int8", (0, 1)), (SUMS, 9), None),
        (("uint8", (-1,)), ("int8", (0,)), (SUMS, 9), None),  # as triage tries it
        (("uint8", (256,)), ("int8", (0,)), (SUMS, 9), None),
        (("int8", (0,)), ("uint8", (-1,)), (SUMS, 9), None),
        (("int8", (0,)), ("int8", (128,)), (SUMS, 9), None),
        (("int8", ()), ("int8", (0,)), (SUMS, 9), None),
        (("int8", (0,)), ("int8", (0,)), (SUMS, 33026), None),  # may exceed int32
        (("int8", (0,)), ("int8", (0,)), (SUMS, 9), np.array([5, -(1 << 31)])),
        (("int8", (0,)), ("int8", (0,)), (SUMS, 9), np.array([5, -(1 << 63)])),
        (("int8", (0,)), ("int8", (0,)), (1, 9), None),  # so small that numpy is as fast
    ],
)
def test_what_onednn_does_not_multiply(
    engine: OneDnn,
    a: tuple[str, tuple[int, ...]],
    b: tuple[str, tuple[int, ...]],
    shape: tuple[int, int],
    bias: Array | None,
) -> None:
    assert plan_byte_product(a, b, shape, INT32, bias) is None
    assert plan_byte_product(("int8", (0,)), ("uint8", (7,)), (SUMS, 33025), INT32) is not None


def test_operands_that_are_no_bytes(engine: OneDnn) -> None:
    a, b = np.zeros((2, 3), np.int8), np.zeros((3, 4), np.int8)
    for left, right in ((a.astype(np.int16), b), (a, b.view(np.uint8)), (a, b[:2])):
        with pytest.raises(ValueError, match="a product of bytes"):
            engine.multiply(left, right, (0, 0), np.empty((2, 4), np.int32))
    with pytest.raises(ValueError, match="int16 as bytes"):
        signed_bytes(a.astype(np.int16))


@pytest.mark.parametrize(
    ("out", "bias"),
    [
        (np.empty((2, 4), np.int64), None),
        (np.empty((3, 4), np.int32), None),
        (np.empty((2, 8), np.int32)[:, ::2], None),
        (np.empty((2, 4), np.int32), np.zeros(1, np.int32)),
        (np.empty((2, 4), np.int32), np.zeros((2, 1), np.int32)),
        (np.empty((2, 4), np.int32), np.zeros(2, np.int64)),
        (np.empty((2, 4), np.int32), np.zeros(4, np.int32)[::2]),
    ],
)
def test_arrays_that_do_not_fit_are_not_touched(engine: OneDnn, out: Array, bias: Array | None) -> None:
    a, b = np.ones((2, 3), np.int8), np.ones((3, 4), np.int8)
    out[...] = 7
    with pytest.raises(ValueError, match="for the product"):
        engine.multiply(a, b, (0, 0), out, bias)
    assert (out == 7).all()


@pytest.mark.parametrize("stem", ["conv", "fully_connected", "conv_transpose"])
@pytest.mark.parametrize("shape", [(1,), (64, 1), (1, 64), (63,), (2, 32)])
def test_a_bias_of_another_shape_is_refused(stem: str, shape: tuple[int, ...]) -> None:
    """model.bin of a stranger; with and without oneDNN."""
    made = RandomNodes("ref-exact", 3)
    planes = () if stem == "fully_connected" else (40, 40)
    kernel = () if stem == "fully_connected" else (1, 1)
    x, w = made.input("uint8", (1, 64, *planes)), made.weights("int8", (64, 64, *kernel), 1)
    words = () if stem == "fully_connected" else (1, 1, 1, 1, 0, 0, 0, 0, 1, 1, 1)
    bias, y = made.constant(np.full(shape, 9, np.int32)), made.output("int8", (1, 64, *planes))
    made.node(stem, (x, w, bias, made.rq(64, 1)), y, (*words, *made.limits("int8")))
    graph = made.graph()
    with pytest.raises(BadFileError, match=r"a bias .* for 64 output channels"):
        Simulator(graph).run(random_inputs(graph, seed=0))


@pytest.mark.parametrize(
    ("status", "kind"), [(1, MemoryError), (2, RuntimeError)], ids=["out of memory", "invalid arguments"]
)
def test_a_status_of_onednn(
    engine: OneDnn, status: int, kind: type[Exception], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine, "_functions", dict.fromkeys(("uint8", "int8"), lambda *_: status))
    with pytest.raises(kind):
        engine.multiply(np.ones((2, 3), np.int8), np.ones((3, 4), np.int8), (0, 0), np.empty((2, 4), np.int32))


@pytest.mark.parametrize(
    ("zeros_a", "zeros_b", "computed"),
    [
        (None, None, True),
        (np.int8(5), np.full(90, 7, np.int8), True),
        (np.array([5], np.int8), np.array([[7]], np.int8), True),
        (np.full(70, 5, np.int8), None, False),  # one for each row
        (np.full((40, 1), 5, np.int8), None, False),
        (np.array([0.5], np.float32), None, False),
        (None, np.full(70, 7, np.int8), False),
        (None, np.array([7], np.uint8), False),
        (None, np.arange(90).astype(np.int8), False),
        (None, np.zeros(0, np.int8), False),
    ],
)
def test_zero_points_at_run_time(
    engine: OneDnn, zeros_a: Any, zeros_b: Array | None, computed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(byte_products, "FEW_MULTIPLICATIONS", 0)
    a, b = drawn(np.int8, (2, 20, 70)), drawn(np.int8, (70, 90))
    sums = multiply_bytes(a, None if zeros_a is None else np.asarray(zeros_a), b, zeros_b)
    assert (sums is not None) == computed
    if sums is not None:
        assert np.array_equal(sums, exact(a, 0 if zeros_a is None else 5, b, 0 if zeros_b is None else 7))


@pytest.mark.parametrize("isa", ["SSE41", "AVX2"])
def test_sums_that_saturate_are_not_used(engine: OneDnn, isa: str) -> None:
    """Without products of bytes (VNNI), oneDNN adds pairs of products in 16 bits."""
    code = "from qverify.arithmetic.one_dnn import load_one_dnn; print(load_one_dnn())"
    environment = {**os.environ, "ONEDNN_MAX_CPU_ISA": isa}
    found = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert found.stdout == "None\n"


@pytest.mark.parametrize("stem", STEMS)
def test_a_node_gives_what_numpy_gives(engine: OneDnn, stem: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Random nodes of every kind, of which oneDNN multiplies all that it can, however small."""
    calls, multiply = [], OneDnn.multiply

    def counted(*words: Any, **options: Any) -> None:
        calls.append(words)
        multiply(*words, **options)

    monkeypatch.setattr(byte_products, "FEW_MULTIPLICATIONS", 0)
    monkeypatch.setattr(OneDnn, "multiply", counted)
    for rounding in ("ref-exact", "gemmlowp"):
        made = RandomNodes(rounding, 5)
        for _ in range(60):
            RANDOM_NODES[stem](made)
        graph = made.graph()
        for node in graph.nodes:
            found = ops.simulate_node(graph, node, made.values)
            before = len(calls)
            with monkeypatch.context() as without:
                without.setattr(byte_products, "load_one_dnn", lambda: None)
                for name, value in ops.simulate_node(graph, node, made.values).items():
                    assert np.array_equal(found[name], value), (rounding, node)
            assert len(calls) == before
    assert len(calls) > 20


def test_the_recording_names_the_loaded_library(engine: OneDnn) -> None:
    """A process loads oneDNN at the first product that is large enough."""
    load_one_dnn.cache_clear()
    for size, wanted in ((2, None), (40, engine.version)):
        made = RandomNodes("ref-exact", 3)
        x, w = made.input("uint8", (1, 64, size, size)), made.weights("int8", (64, 64, 1, 1), 1)
        words = (1, 1, 1, 1, 0, 0, 0, 0, 1, 1, 1)
        y = made.output("int8", (1, 64, size, size))
        made.node("conv", (x, w, None, made.rq(64, 1)), y, (*words, *made.limits("int8")))
        graph = made.graph()
        assert Simulator(graph).run(random_inputs(graph, seed=0)).settings.get("onednn") == wanted
