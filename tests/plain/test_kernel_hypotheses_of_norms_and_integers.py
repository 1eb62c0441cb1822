"""Faults of group norm, root-mean-square norm, norms to length one, log softmax, dynamic quantization and products of
integers, planted here in plain numpy: their families give the very bytes, and not bytes near them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from qverify.model_bin.graph import Graph, Node
from qverify.model_bin.units import units
from qverify.tensors.spec import TensorSpec
from qverify.triage.altered_kernels.row_sample import row_sample
from qverify.triage.case import Case, element_bits

from tests.plain.fault_units import PAGES, small_case
from tests.plain.forensic_units import Small, generator

Array = Any
F = np.float32
Planted = tuple[Small, Array]


def word(value: float) -> int:
    return int(np.array(value, F).view(np.int32))


def floats(*shape: int, seed: int = 7) -> Array:
    return generator(seed).normal(0.4, 2.0, shape).astype(F)


def said_of(family: str, case: Case) -> list[str]:
    """What the family's faults that give the recorded bytes say."""
    with np.errstate(all="ignore"):
        made = [(v.text, v.make(case)) for v in PAGES[family].variants(case)]
    return [said for said, y in made if np.array_equal(element_bits(y), element_bits(case.recorded))]


def ordered(values: Array) -> Array:
    return np.add.accumulate(values, 1)[:, -1:]


# ---- norms of rows and groups

X, EPS = floats(2, 6, 5, 7), 1e-3
GAMMA, BETA = floats(6, seed=1), floats(6, seed=2)


def group_norm(root: Callable[[Array, Array], Array], gamma: Array = GAMMA) -> Planted:
    """Three groups; root: of the groups [6, 70] and their means."""
    rows = X.reshape(6, -1).astype(float)
    mean = ordered(rows) / 70
    y = ((rows - mean) / root(rows, mean)).reshape(X.shape)
    y = y * gamma.astype(float).reshape(6, 1, 1) + BETA.astype(float).reshape(6, 1, 1)
    unit = Small("group_norm", (3, word(EPS)), ("float32", 0, 0), X.shape, x=(X,), c_gamma=(GAMMA,), c_beta=(BETA,))
    return unit, y.astype(F)


def deviation(rows: Array, mean: Array) -> Array:
    return np.sqrt(ordered((rows - mean) * (rows - mean)) / 70 + float(F(EPS)))


def unbiased(rows: Array, mean: Array) -> Array:
    return np.sqrt(ordered((rows - mean) * (rows - mean)) / 69 + float(F(EPS)))


def one_pass(rows: Array, mean: Array) -> Array:
    single = rows.astype(F)
    total, squares = (np.add.accumulate(v, 1, dtype=F)[:, -1:] / F(70) for v in (single, single * single))
    return np.sqrt((squares - total * total).astype(float) + float(F(EPS)))


def outside(rows: Array, mean: Array) -> Array:
    return np.sqrt(ordered((rows - mean) * (rows - mean)) / 70) + float(F(EPS))


def rms_norm(rows: Array, divisor: float, mean: Array | float = 0.0) -> Planted:
    x = rows.astype(float) - mean
    y = x / np.sqrt(ordered(x * x) / divisor + float(F(EPS)))
    unit = Small("rms_norm", (rows.shape[1], word(EPS)), ("float32", 0, 0), rows.shape, x=(rows,), c_gamma=(ONES,))
    return unit, y.astype(F)


ROWS, ONES = floats(9, 13), np.ones(13, F)


def lp_norm(order: int, norm: Array) -> Planted:
    unit = Small("lp_norm", (9, 13, 1, order), ("float32", 0, 0), ROWS.shape, x=(ROWS,))
    return unit, (ROWS.astype(float) / norm).astype(F)


def short_norm() -> Planted:
    first = ROWS.astype(float)[:, :12]
    return lp_norm(2, np.sqrt(ordered(first * first)))


def log_softmax(e: Callable[[Array], Array], total: Callable[[Array], Array]) -> Planted:
    below = ROWS.astype(float) - ROWS.max(1, keepdims=True).astype(float)
    unit = Small("log_softmax", (9, 13, 1), ("float32", 0, 0), ROWS.shape, x=(ROWS,))
    return unit, (below - total(ordered(e(below)))).astype(F)


NORMS: dict[str, tuple[str, Planted, str]] = {
    "unbiased variance": ("layer-norm-sums", group_norm(unbiased), r"group norm.*depth - 1"),
    "one pass in float32": ("layer-norm-variance", group_norm(one_pass), "one pass.* all of it in float32"),
    "epsilon outside": ("layer-norm-variance", group_norm(outside), "group norm: epsilon is added after the root"),
    "gamma of the first group": (
        "group-norm-parameters",
        group_norm(deviation, GAMMA[[0, 1, 0, 1, 0, 1]]),
        "gamma of a channel is that of the channel within its group",
    ),
    "padded depth": ("layer-norm-sums", rms_norm(ROWS, 16.0), "root-mean-square norm.*multiple of 4"),
    "mean removed": (
        "layer-norm-variance",
        rms_norm(ROWS, 13.0, ordered(ROWS.astype(float)) / 13),
        "the mean is subtracted",
    ),
    "tail not squared": ("lp-norm-steps", short_norm(), "the last 1 element"),
    "largest of a row": (
        "lp-norm-steps",
        lp_norm(1, np.abs(ROWS).max(1, keepdims=True).astype(float)),
        "the largest absolute value",
    ),
    "log of base 2": ("log-softmax-steps", log_softmax(np.exp, np.log2), "base 2"),
}


@pytest.mark.parametrize("name", NORMS)
def test_a_fault_of_a_norm_is_found(name: str) -> None:
    family, (unit, y), text = NORMS[name]
    found = said_of(family, small_case(unit, y))
    assert any(np.all([part in said for part in text.split(".*")]) for said in found), found
    near = y.copy()
    near.reshape(-1)[[3, -1]] *= F(1.01)
    assert not said_of(family, small_case(unit, near))


def test_a_sample_of_groups_is_as_the_groups_are() -> None:
    unit, y = group_norm(outside)
    case = small_case(unit, y)
    sample = row_sample(case)
    assert sample is not None and sample.recorded.shape == (1, 4, 35)
    whole = case.healthy.reshape(6, -1)
    assert all(any(np.array_equal(row, of) for of in whole) for row in sample.healthy.reshape(2, -1))


# ---- dynamic quantization, of three outputs


def dynamic(x: Array, output: str, recorded: Array) -> Case:
    shapes = {"x": ("float32", x.shape), "q": ("uint8", x.shape), "scale": ("float32", ()), "zero": ("uint8", ())}
    specs = {n: TensorSpec(n, dtype, shape, (), (), ()) for n, (dtype, shape) in shapes.items()}
    node = Node("q", "dynamic_quantize", ("x",), ("q", "scale", "zero"), ())
    graph = Graph([node], specs, {}, ("x",), ("q", "scale", "zero"))
    return Case(graph, units(graph)[0], {"x": x}, output, recorded)


POSITIVE = np.abs(floats(5, 9)) + F(1)


@pytest.mark.parametrize("output", ["q", "scale", "zero"])
def test_a_range_without_zero_is_found_at_every_output(output: str) -> None:
    low, high = POSITIVE.min(), POSITIVE.max()
    scale = F((high - low) / F(255))
    q = np.clip(np.rint(POSITIVE / scale), 0, 255)
    made = {"q": q.astype(np.uint8), "scale": np.array(scale, F), "zero": np.array(0, np.uint8)}
    found = said_of("dynamic-range", dynamic(POSITIVE, output, made[output]))
    assert output == "zero" or any("not widened to include 0; the zero point limited" in said for said in found)


def test_256_levels_are_found() -> None:
    x = floats(6, 11)
    scale = F((x.max() - x.min()) / F(256))
    zero = np.rint(-x.min() / scale)
    q = np.clip(np.rint(x / scale) + zero, 0, 255).astype(np.uint8)
    found = said_of("dynamic-range", dynamic(x, "q", q))
    assert any("divided by 256 instead of 255 for the scale" in said for said in found), found
    near = q.copy()
    near[2, 3] ^= 9
    assert not said_of("dynamic-range", dynamic(x, "q", near))


# ---- products of integers

A, B = (generator(s).integers(0, 256, shape).astype(np.uint8) for s, shape in ((1, (5, 9)), (2, (9, 7))))
ZA, ZB = np.array(120, np.uint8), np.array([131], np.uint8)


def product(acc: Array, scaled: bool = False) -> Planted:
    tensors: dict[str, Any] = {"a": (A,), "b": (B,), "c_za": (ZA,), "c_zb": (ZB,)}
    if not scaled:
        return Small("matmul_integer", (), ("int32", 0, 0), (5, 7), **tensors), acc.astype(np.int32)
    tensors |= {"c_sa": (np.array(0.03, F),), "c_sb": (np.array([0.011], F),), "c_bias": (floats(7),)}
    return Small("matmul_integer_scaled", (), ("float32", 0, 0), (5, 7), **tensors), acc


def terms() -> tuple[Array, Array]:
    return A.astype(np.int64) - 120, B.astype(np.int64) - 131


def bias_first() -> Planted:
    a, b = terms()
    return product(((a @ b).astype(F) + floats(7)) * (F(0.03) * F(0.011)), True)


def wrapping_fours() -> Planted:
    a, b = terms()
    acc = np.zeros((5, 7), np.int64)
    for k in range(0, 9, 4):
        acc += (a[:, k : k + 4] @ b[k : k + 4]).astype(np.int16)
    return product(acc)


def saturating_pairs() -> Planted:
    """Stored a times b less its zero point, as an instruction for unsigned and signed bytes does."""
    _, b = terms()
    acc = np.zeros((5, 7), np.int64)
    for k in range(0, 9, 2):
        acc += np.clip(A.astype(np.int64)[:, k : k + 2] @ b[k : k + 2], -32768, 32767)
    return product(acc - 120 * b.sum(0))


WX = generator(3).integers(0, 256, (1, 2, 6, 7)).astype(np.uint8)
WW = generator(4).integers(-128, 128, (3, 2, 3, 3)).astype(np.int8)


def convolution(fill: Callable[[Array], Array]) -> Planted:
    """fill: takes the centred input in a frame of one element of 0, returns it with other padding."""
    x = np.zeros((2, 8, 9), np.int64)
    x[:, 1:7, 1:8] = WX[0].astype(np.int64) - 100
    x = fill(x)
    w, y = WW.astype(np.int64) - 3, np.zeros((1, 3, 6, 7), np.int64)
    for i in range(3):
        for j in range(3):
            y[0] += np.einsum("oc,chw->ohw", w[:, :, i, j], x[:, i : i + 6, j : j + 7])
    words = (3, 3, 1, 1, 1, 1, 1, 1, 1, 1, 1)
    zeros = {"c_zx": (np.array(100, np.uint8),), "c_zw": (np.array([3], np.int8),)}
    unit = Small("conv_integer", words, ("int32", 0, 0), (1, 3, 6, 7), x=(WX,), c_w=(WW,), **zeros)
    return unit, y.astype(np.int32)


def raw_left(x: Array) -> Array:
    x[:, 1:7, 0] = -100
    return x


def replicated(x: Array) -> Array:
    return np.pad(x[:, 1:7, 1:8], ((0, 0), (1, 1), (1, 1)), mode="edge")


def cross_term() -> Planted:
    a, b = terms()
    return product(a @ b - 9 * 120 * 131)


def stored_tail() -> Planted:
    a, b = terms()
    return product(a[:, :8] @ b[:8])


INTEGERS: dict[str, tuple[str, Callable[[], Planted], str]] = {
    "cross term": ("integer-matmul", cross_term, "depth * za * zb"),
    "tail of the depth": ("integer-matmul", stored_tail, "the sum takes part of the depth: the last 1 element"),
    "four wrap": ("integer-matmul", wrapping_fours, "the sums of 4 products each wrap to int16"),
    "pairs saturate": ("integer-matmul", saturating_pairs, "each saturate at int16, of stored a and b - zb"),
    "bias before the scales": ("integer-matmul", bias_first, "the bias is added before the scales multiply"),
    "raw zero at the left": (
        "integer-convolution",
        lambda: convolution(raw_left),
        "the padding at the left, only beside the image and not in the corners counts as the raw value 0",
    ),
    "replicated": ("integer-convolution", lambda: convolution(replicated), "everywhere counts as the nearest element"),
    "flipped": ("integer-convolution", lambda: flipped(), "flipped left and right"),
}


def flipped() -> Planted:
    unit, y = convolution(lambda x: x[:, :, ::-1])
    mirrored = Small("conv_integer", unit.graph.nodes[0].words, ("int32", 0, 0), (1, 3, 6, 7), **_operands())
    return mirrored, y[:, :, :, ::-1]


def _operands() -> dict[str, Any]:
    zeros = {"c_zx": (np.array(100, np.uint8),), "c_zw": (np.array([3], np.int8),)}
    return {"x": (WX,), "c_w": (WW,), **zeros}


@pytest.mark.parametrize("name", INTEGERS)
def test_a_fault_of_integers_is_found(name: str) -> None:
    family, planted, text = INTEGERS[name]
    unit, y = planted()
    y = np.ascontiguousarray(y)
    found = said_of(family, small_case(unit, y))
    assert any(text in said for said in found), found
    near = y.copy()
    near.reshape(-1)[[2, -1]] += 7
    assert not said_of(family, small_case(unit, near))


def test_healthy_padding_is_that_of_the_simulator() -> None:
    unit, y = convolution(lambda x: x)
    assert np.array_equal(small_case(unit, y).healthy, y)
