"""More faults of softmax, layer norm, batch norm, lrn, float comparisons, lookup, resize, copies and conditions, planted here
in plain numpy: their families give the very bytes, and not bytes near them."""

from __future__ import annotations

from collections.abc import Callable
from math import exp
from typing import Any

import numpy as np
import pytest
from qverify.model_bin.float_functions import FUNCTIONS
from qverify.triage.altered_kernels.row_sample import fitting_rows, row_sample
from qverify.triage.case import element_bits
from qverify.triage.hypotheses import FaultVariant

from tests.plain.fault_units import PAGES, small_case
from tests.plain.forensic_units import Small, generator

Array = Any
F = np.float32
Planted = tuple[Small, Array]


def word(value: float) -> int:
    return int(np.array(value, F).view(np.int32))


def give(family: str, unit: Small, recorded: Array) -> list[str]:
    """What the family's faults that give these bytes say."""
    case = small_case(unit, np.ascontiguousarray(recorded))
    with np.errstate(all="ignore"):
        return [
            v.text
            for v in PAGES[family].variants(case)
            if np.array_equal(element_bits(v.make(case)), element_bits(case.recorded))
        ]


def image(*shape: int, dtype: str = "uint8", seed: int = 7) -> Array:
    info = np.iinfo(dtype)
    return generator(seed).integers(info.min, info.max, shape, dtype, endpoint=True)


def rows(*shape: int, seed: int = 7) -> Array:
    return generator(seed).normal(0.4, 2.0, shape).astype(F)


# ---- softmax of 8 bits

Q = generator(3).integers(0, 256, (6, 21)).astype(np.uint8)
TABLE = np.array([7.5 * exp(0.03 * (k - 255)) for k in range(256)]).astype(F)


def softmax(e: Array, sums: Array | None = None) -> Planted:
    if sums is None:
        sums = np.add.accumulate(e, 1, dtype=F)[:, -1:]
    y = np.clip(np.rint(e * F(256) / sums), 0, 255).astype(np.uint8)
    unit = Small("softmax", (6, 21, 1, word(256.0)), ("uint8", 1 / 256, 0), (6, 21), x=(Q, 0.03, 4), c_table=(TABLE,))
    return unit, y


def below(largest: Array) -> Array:
    return np.minimum(Q.astype(int) - largest[:, None], 0) + 255


def softmax_padded() -> Planted:
    e = TABLE[below(Q.max(1))]
    sums = np.add.accumulate(e, 1, dtype=F)[:, -1]
    for _ in range(3):
        sums = sums + TABLE[255 - Q.max(1).astype(int)]
    return softmax(e, sums[:, None])


def softmax_saturated() -> Planted:
    e = TABLE[below(Q.max(1))]
    return softmax(e, np.minimum(np.add.accumulate(e, 1, dtype=F)[:, -1:], F(255 / 64) * TABLE[255]))


def softmax_signed_maximum() -> Planted:
    largest = np.array([max(row, key=lambda q: q - 256 if q > 127 else q) for row in Q.astype(int)])
    return softmax(TABLE[below(largest)])


def softmax_interpolated() -> Planted:
    away = 255 - below(Q.max(1))
    first, part = 255 - away // 8 * 8, (away % 8).astype(F) / F(8)
    second = np.maximum(first - 8, 0)
    return softmax(TABLE[first] + (TABLE[second] - TABLE[first]) * part)


def softmax_online() -> Planted:
    running = np.maximum.accumulate(Q.astype(int), 1)
    sums = np.add.accumulate(TABLE[Q.astype(int) - running + 255], 1, dtype=F)[:, -1:]
    return softmax(TABLE[below(Q.max(1))], sums)


# ---- layer norm, batch norm, lrn, float functions

GAMMA, BETA = rows(13, seed=8), rows(13, seed=9)


def layer(mean: Callable[[Array], Array], root: Callable[[Array], Array], normal: Callable[[Array], Array]) -> Planted:
    x = rows(9, 13)
    wide = x.astype(float)
    centred = wide - mean(wide)
    y = normal(centred / root(mean(centred**2) + float(F(1e-5))))
    unit = Small("layer_norm", (13, word(1e-5)), ("float32", 0, 0), (9, 13), x=(x,), c_g=(GAMMA,), c_b=(BETA,))
    return unit, (y * GAMMA.astype(float) + BETA.astype(float)).astype(F)


def mean13(v: Array) -> Array:
    return np.add.accumulate(v, 1)[:, -1:] / 13


def layer_saturated() -> Planted:
    return layer(mean13, np.sqrt, lambda y: np.clip(np.floor(y * 64) / 64, -2.0, 2.0 - 1 / 64))


def layer_reciprocal() -> Planted:
    return layer(lambda v: np.add.accumulate(v, 1)[:, -1:] * (315 / 4096), np.sqrt, lambda y: y)  # 4096/13 = 315.08


def layer_three_steps() -> Planted:
    def root(v: Array) -> Array:
        r = (1 + v) / 2
        for _ in range(3):
            r = (r + v / r) / 2
        return r

    return layer(mean13, root, lambda y: y)


def batch_norm(k_at: Array, k: Array) -> Planted:
    x, b = rows(2, 5, 7, 3), rows(5, seed=5)
    unit = Small("batch_norm", (), ("float32", 0, 0), x.shape, x=(x,), c_k=(GAMMA[:5],), c_b=(b,))
    at = np.minimum(np.arange(x.size) // 21, 9) % 5 if k_at is None else k_at
    return unit, (x.reshape(-1) * k[at] + b[at]).reshape(x.shape)


def batch_norm_vectors() -> Planted:
    return batch_norm(np.arange(210) // 8 * 8 // 21 % 5, GAMMA[:5])


def batch_norm_fixed() -> Planted:
    return batch_norm(None, (np.rint(GAMMA[:5] * 128) / 128).astype(F))


def lrn_shifted() -> Planted:
    x = rows(1, 7, 3, 2)
    total = np.zeros(x.shape)
    for c in range(7):
        first = min(max(c - 2, 0), 2)
        total[:, c] = (x[:, first : first + 5].astype(float) ** 2).sum(1)
    unit = Small("lrn", (5, word(0.5), word(1.0), word(2.0)), ("float32", 0, 0), x.shape, x=(x,))
    return unit, (x / (2.0 + 0.5 / 5 * total)).astype(F)


def float_maximum() -> Planted:
    a, b = rows(4, 30), rows(4, 30, seed=2)
    y = np.where(a.view(np.int32) >= b.view(np.int32), a, b)
    return Small("elementwise_float", (FUNCTIONS["max"].number, 0, 0), ("float32", 0, 0), a.shape, a=(a,), b=(b,)), y


def exponential_by_squares() -> Planted:
    x = rows(4, 30)
    y = F(1) + x / F(256)
    for _ in range(8):
        y = y * y
    return Small("elementwise_float", (FUNCTIONS["exp"].number, 0, 0), ("float32", 0, 0), x.shape, x=(x,)), y


# ---- lookup, resize, copies, conditions


def lookup_short() -> Planted:
    x, table = image(40, 9), image(256, seed=2)
    y = np.where(x < 192, table[x], 0).astype(np.uint8)
    return Small("lookup", (), ("uint8", 0.5, 3), x.shape, x=(x, 0.5, 3), c_table=(table,)), y


def resize_plane() -> Planted:
    x, at = rows(1, 2, 4, 4), np.arange(8) / 2
    first = np.minimum(at.astype(int), 3)
    second, share = np.minimum(first + 1, 3), (at - first).astype(F)
    index = np.concatenate([first, second, first, second]).astype(np.int32)
    weight = np.concatenate([1 - share, share, 1 - share, share]).astype(F)
    a, b = x[:, :, first][..., first], x[:, :, first][..., second]
    c = x[:, :, second][..., first]
    y = a + share * (b - a) + share[:, None] * (c - a)
    unit = Small("resize_linear", (0,), ("float32", 0, 0), y.shape, x=(x,), c_index=(index,), c_weight=(weight,))
    return unit, y


def moved(op: str, words: tuple[int, ...], x: Array, y: Array, **more: Any) -> Planted:
    return Small(op, words, ("uint8", 0.5, 3), y.shape, x=(x, 0.5, 3), **more), np.ascontiguousarray(y)


def gather_spilled() -> Planted:
    x, index = image(5, 7), np.array([3, 0, 4, 1])
    flat, y = x.reshape(-1), x[index].reshape(-1)
    for i in (3, 2, 1, 0):
        long = 8 if index[i] * 7 + 8 <= 35 and i * 7 + 8 <= 28 else 7
        y[i * 7 : i * 7 + long] = flat[index[i] * 7 : index[i] * 7 + long]
    return moved("gather", (0,), x, y.reshape(4, 7), c_index=(index,))


def transpose_first_batch() -> Planted:
    x = image(3, 4, 5)
    y = np.stack([x[0].T, x[1].reshape(5, 4), x[2].reshape(5, 4)])
    return moved("transpose", (0, 2, 1), x, y)


def pad_edge_after() -> Planted:
    x = image(2, 3, 5)
    y = np.pad(x, [(0, 0), (1, 1), (2, 3)], constant_values=9)
    y[:, :, 7:] = y[:, :, 6:7]
    return moved("pad", (0, 9, 0, 1, 2), x, y)


def where_packed() -> Planted:
    a, b, c = image(6, 7), image(6, 7, seed=2), generator(5).random((6, 7)) < 0.5
    packed = np.append(c.reshape(-1), [False] * 6).reshape(-1, 8)[:, ::-1].reshape(-1)[:42].reshape(6, 7)
    unit = Small("where", (), ("uint8", 0.5, 3), (6, 7), c=(c,), a=(a, 0.5, 3), b=(b, 0.5, 3))
    return unit, np.where(packed, a, b)


def quantize_pitch() -> Planted:
    x = rows(1, 9, 10)
    starts = np.minimum(np.arange(9) * 12, 80)
    read = x.reshape(-1)[starts[:, None] + np.arange(10)]
    y = np.clip(np.rint(read / F(0.1)) + 3, 0, 255).astype(np.uint8).reshape(x.shape)
    return Small("quantize", (), ("uint8", 0.1, 3), x.shape, x=(x,)), y


PLANTED: dict[str, tuple[str, Callable[[], Planted], str]] = {
    "softmax padding": (
        "softmax-lanes",
        softmax_padded,
        "padded with 0 to a multiple of 8 elements (3 more), and the padding counts in",
    ),
    "softmax capacity": ("softmax-lanes", softmax_saturated, "saturates at 255/64, just under 4"),
    "softmax sign": ("softmax-lanes", softmax_signed_maximum, "compares the bytes as signed numbers"),
    "softmax table": (
        "softmax-lanes",
        softmax_interpolated,
        "every 8th entry of the table of exponentials is kept (differences 0, 8, 16",
    ),
    "softmax one pass": ("softmax-lanes", softmax_online, "not rescaled when a new maximum appears"),
    "layer norm fixed": (
        "layer-norm-fixed",
        layer_saturated,
        "the normalized value (before gamma and beta) is kept in 8 bits with 6 fraction bits (rounded down",
    ),
    "layer norm 1/depth": (
        "layer-norm-sums",
        layer_reciprocal,
        "for mean and variance: the sum of a row is multiplied by 1/depth as a multiple of 2^-12",
    ),
    "layer norm root": (
        "layer-norm-output",
        layer_three_steps,
        "3 steps of the iteration r = (r + x/r)/2 from (1 + x)/2",
    ),
    "batch norm vectors": (
        "channel-affine",
        batch_norm_vectors,
        "k and b are those of the first element of its vector of 8 in memory",
    ),
    "batch norm fixed": ("channel-affine", batch_norm_fixed, "k is rounded to fixed point of 7 fraction bits, rounded"),
    "lrn": ("lrn-window", lrn_shifted, "shifted inward at the first and the last channels"),
    "maximum": ("float-comparison", float_maximum, "bit patterns of the operands as signed integers"),
    "exponential": ("exponential", exponential_by_squares, "(1 + x/256)^256 by 8 squarings, in float32"),
    "lookup": (
        "lookup-entries",
        lookup_short,
        "only the first 192 of the 256 entries of the table are held (3/4 of it); table positions 192..255 give 0",
    ),
    "resize": ("resize-linear-samples", resize_plane, "the bottom right sample is dropped"),
    "gather": ("copy-words", gather_spilled, "whole words of 4 bytes, from the last to the first"),
    "transpose": (
        "transpose-order",
        transpose_first_batch,
        "only the first batch is permuted, the others are copied without permutation",
    ),
    "pad": (
        "pad-border",
        pad_edge_after,
        "the padding of the columns is the constant before, and a repetition of the edge element",
    ),
    "where": ("where-condition", where_packed, "8*(i/8) + 7 - i mod 8 (false beyond the end)"),
    "pitch": (
        "input-pitch",
        quantize_pitch,
        "a row pitch of 12 elements, its 40 bytes rounded up to a multiple of 16, instead of 10; rows each clamped",
    ),
}


@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_fault_is_found(name: str) -> None:
    family, plant, words = PLANTED[name]
    said = give(family, *plant())
    assert any(words in s for s in said), said


@pytest.mark.parametrize("name", PLANTED)
def test_bytes_near_a_planted_fault_and_healthy_ones_but_one_are_not_explained(name: str) -> None:
    family, plant, words = PLANTED[name]
    unit, recorded = plant()
    for near in (recorded.copy(), small_case(unit, recorded).healthy.copy()):
        flat = near.reshape(-1)
        flat[flat.size // 2] = flat[flat.size // 2] + 1 if near.dtype.kind == "f" or flat[flat.size // 2] < 99 else 7
        assert not any(words in s for s in give(family, unit, near))


def test_an_output_of_a_split_begins_at_a_multiple_of_eight_elements() -> None:
    x = image(1, 7, 5)
    unit = Small("split", (1,), ("uint8", 0.5, 3), (1, 3, 5), x=(x, 0.5, 3))
    graph = unit.graph
    first = graph.tensors["y"].__class__("first", "uint8", (1, 4, 5), (), (0.5,), (3,))
    node = graph.nodes[0]
    graph.tensors["first"] = first
    graph.nodes[0] = node.__class__("y", "split", node.inputs, ("first", "y"), node.words)
    said = give("split-order", unit, x.reshape(-1)[16:31].reshape(1, 3, 5))
    assert "split: every output after the first starts at an offset in elements rounded down to a multiple of 8" in said
    said = give("split-order", unit, x[:, 3:6])
    assert any("starts one slice too early: the offset advances by size - 1" in s for s in said)


def test_a_few_rows_are_computed_as_the_whole() -> None:
    unit, recorded = softmax_padded()
    case = small_case(unit, recorded)
    of = row_sample(case)
    assert of is not None and 1 <= len(of.recorded) <= 3 < len(recorded)
    places = [int(np.flatnonzero((recorded == row).all(1))[0]) for row in of.recorded]
    assert np.array_equal(of.healthy, case.healthy[places])
    right = FaultVariant("right", lambda c: c.recorded)
    wrong = FaultVariant("healthy", lambda c: c.healthy)
    assert [v.text for v in fitting_rows(case, [wrong, right])] == ["right"]


def test_a_unit_that_does_not_work_by_rows_has_no_sample() -> None:
    unit, recorded = gather_spilled()
    assert row_sample(small_case(unit, recorded)) is None


def test_a_colour_conversion_that_exchanges_planes_or_coefficients() -> None:
    x = image(1, 3, 6, 8)
    matrix = np.array([[256, 0, 359], [256, -88, -183], [256, 454, 0]])
    words = (8, 0, 0, 128, 128, *matrix.reshape(-1).tolist())
    unit = Small("yuv_to_rgb", words, ("uint8", 0, 0), x.shape, x=(x,))

    def converted(planes: list[int], rows: Array) -> Array:
        d = x[:, planes].astype(int) - np.array([0, 128, 128])[:, None, None]
        value = np.stack([(sum(r[k] * d[:, k] for k in range(3)) + 128) >> 8 for r in rows.tolist()], 1)
        return np.clip(value, 0, 255).astype(np.uint8)

    assert np.array_equal(converted([0, 1, 2], matrix), small_case(unit, x).healthy)
    assert "yuv_to_rgb: the input planes are read as YVU instead of YUV" in give(
        "colour-conversion", unit, converted([0, 2, 1], matrix)
    )
    without = matrix * np.array([[1, 1, 1], [1, 0, 1], [1, 1, 1]])
    assert give("colour-conversion", unit, converted([0, 1, 2], without)) == [
        "yuv_to_rgb: the share of U in G is left out"
    ]
    assert not give("colour-conversion", unit, x)
