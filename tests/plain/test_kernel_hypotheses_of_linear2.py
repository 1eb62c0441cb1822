"""Kernel faults of linear ops, pools and additions that work in steps and shared buffers, planted in plain numpy."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from qverify.triage.case import Case

from tests.plain.fault_units import PAGES, case_of, pooled, small_case
from tests.plain.forensic_units import SX, SY, ZX, ZY, Conv, Small, generator

Array = Any
COARSE = Conv(coarse=True)
NEW = (
    "blocked-sums", "parts-requantized", "transposed-overlaps", "winograd", "mean-steps", "pool-counts", "shared-terms",
    "gathered-values", "stale-sums", "bias-words", "addition-steps", "narrow-products", "in-place", "input-pitch", "operand-rows", "product-overflow", "scale-order",
    "scale-exponents", "summands-beyond", "tap-pairs", "tail-values", "lane-sums",
)  # fmt: skip


def says(family: str, case: Case) -> list[str]:
    """The sentences of the family's variants that give every recorded byte."""
    return [v.text for v in PAGES[family].variants(case) if np.array_equal(v.make(case), case.recorded)]


def planted(family: str, case: Case, sentence: str) -> None:
    """The sentence is found; with one element more that is wrong nothing is."""
    assert case.differing.size
    assert any(sentence in said for said in says(family, case)), says(family, case)
    spoiled = case.recorded.copy()
    spoiled.reshape(-1)[case.differing[0]] ^= 5
    assert not says(family, Case(case.graph, case.unit, case.inputs, case.output, spoiled))


def dense(w: Array, first: int | None = None) -> tuple[Small, Array]:
    """4 rows of 6 elements times weights of zero point 4; the correction of a row's sum is that of row `first`."""
    x = generator(21).integers(-128, 128, (4, 6)).astype(np.int8)
    rq = np.full(5, 0.003, np.float32)
    small = Small(
        "fully_connected", (-128, 127), ("int8", SY, ZY), (4, 5),
        x=(x, SX, ZX), c_w=(w, 0.01, 4), c_b=(np.zeros(5, np.int32),), c_rq=(rq,),
    )  # fmt: skip
    centred = x.astype(np.int64) - ZX
    total = centred.sum(1) if first is None else np.full(4, centred[first].sum())
    acc = centred @ w.astype(np.int64).T - 4 * total[:, None]
    return small, np.clip(np.rint(acc.astype(np.float32) * rq) + ZY, -128, 127).astype(np.int8)


def test_a_shared_correction() -> None:
    w = generator(22).integers(-60, 60, (5, 6)).astype(np.int8)
    assert not small_case(*dense(w)).differing.size
    planted("shared-terms", small_case(*dense(w, 0)), "is that of the first row for all")


def test_a_sum_that_goes_on() -> None:
    """6 elements in lanes of 4: the 2 beyond are the next row's, zeros after the last."""
    w = generator(22).integers(-60, 60, (5, 6)).astype(np.int8)
    small, _ = dense(w)
    x = np.append(small.inputs["x"].astype(np.int64).reshape(-1) - ZX, [0, 0])
    beyond = np.append(w.astype(np.int64).reshape(-1) - 4, [0, 0])
    rows = [np.stack([v[6 * k : 6 * k + 8] for k in range(n)]) for v, n in ((x, 4), (beyond, 5))]
    y = np.clip(np.rint((rows[0] @ rows[1].T).astype(np.float32) * np.float32(0.003)) + ZY, -128, 127).astype(np.int8)
    planted(
        "summands-beyond", small_case(small, y), "it multiplies the next elements in memory by the next row's weights"
    )


def transposed(way: str) -> tuple[Small, Array]:
    """4 columns of 2 channels, 3 taps at stride 2. way: of the overlaps."""
    rng = generator(23)
    x, w = rng.integers(-128, 128, (1, 2, 1, 6)).astype(np.int8), rng.integers(-128, 128, (2, 3, 1, 3)).astype(np.int8)
    b, rq = np.array([900, -700, 300], np.int32), np.full(3, 0.002, np.float32)
    words = (1, 3, 1, 2, 0, 0, 0, 0, 1, 1, 1, -128, 127)
    small = Small(
        "conv_transpose", words, ("int8", SY, ZY), (1, 3, 1, 13),
        x=(x, SX, ZX), c_w=(w, 0.01, 0), c_b=(b,), c_rq=(rq,),
    )  # fmt: skip
    acc = np.zeros((3, 13), np.int64) + b[:, None]
    taps = np.einsum("cj,cok->ojk", x[0, :, 0].astype(np.int64) - ZX, w[:, :, 0].astype(np.int64))
    for j in range(6):
        for k in range(3):
            acc[:, 2 * j + k] = taps[:, j, k] + (b if way == "stored" else acc[:, 2 * j + k])
    return small, np.clip(np.rint(acc.astype(np.float32) * rq[:, None]) + ZY, -128, 127).astype(np.int8)[None, :, None]


def test_overlaps_of_a_transposed_convolution() -> None:
    assert not small_case(*transposed("added")).differing.size
    planted(
        "transposed-overlaps", small_case(*transposed("stored")), "only the last input pixel in row-major order counts"
    )


def mean(way: str) -> tuple[Small, Array]:
    x = generator(24).integers(-128, 128, (1, 40, 4, 6)).astype(np.int8)
    rq = np.array([SX / 0.006 / 24], np.float32)
    small = Small("global_average_pool", (-128, 127), ("int8", 0.006, ZY), (1, 40, 1, 1), x=(x, SX, ZX), c_rq=(rq,))
    centred = x.astype(np.int64) - ZX
    if way == "rows":
        total = np.floor(centred.sum(3) / 6 + 0.5).sum(2) * 6
    elif way == "running":
        total = np.zeros((1, 40))
        for i in range(24):
            total += np.trunc((centred.reshape(1, 40, 24)[..., i] - total) / (i + 1))
        total *= 24
    else:
        total = centred.sum((2, 3))
    y = np.clip(np.rint(total.astype(np.float32) * rq) + ZY, -128, 127).astype(np.int8)
    return small, y.reshape(1, 40, 1, 1)


def test_steps_of_a_mean() -> None:
    assert not small_case(*mean("")).differing.size
    planted(
        "mean-steps",
        small_case(*mean("rows")),
        "the mean of x - zero point of every row is rounded half up to an integer",
    )
    planted("mean-steps", small_case(*mean("running")), "a running mean in integers is kept")


def averaged(way: str) -> tuple[Small, Array]:
    """Windows of 3 by 3 with padding on all sides, 16 bits."""
    x = generator(25).integers(-30000, 30000, (1, 2, 5, 6)).astype(np.int16)
    words = (3, 3, 1, 1, 1, 1, 1, 1, 0, -32768, 32767)
    rq = np.array([np.float64(np.float32(SX)) / np.float64(np.float32(SY))])
    small = Small("average_pool", words, ("int16", SY, 0), (1, 2, 5, 6), x=(x, SX, 0), c_rq=(rq,))
    wide, ones = np.pad(x[0].astype(np.int64), ((0, 0), (1, 1), (1, 1))), np.pad(np.ones((5, 6), int), 1)
    if way == "far":
        ones[-1, 1:] = ones[1:, -1] = 1
    acc, count = np.zeros((2, 5, 6), np.int64), np.zeros((5, 6), np.int64)
    for a in range(3):
        for b in range(3):
            acc, count = acc + wide[:, a : a + 5, b : b + 6], count + ones[a : a + 5, b : b + 6]
            acc = np.clip(acc, -32768, 32767) if way == "saturated" else acc
    left = np.concatenate([count[:, :1], count[:, :-1]], 1)
    acc = np.cumsum(acc, 2) if way == "carried" else acc
    divided = (
        acc * np.floor(256 / count + 0.5) / 256 if way == "reciprocal" else acc / (left if way == "left" else count)
    )
    return small, np.clip(np.rint(divided * rq[0]), -32768, 32767).astype(np.int16)[None]


def test_average_pools() -> None:
    assert np.abs(small_case(*averaged("")).healthy.astype(int) - averaged("")[1]).max() <= 1
    planted("pool-counts", small_case(*averaged("far")), "padding below and to the right of the input counts")
    planted("pool-counts", small_case(*averaged("left")), "the output column before it")
    planted("pool-counts", small_case(*averaged("carried")), "the sum is not cleared: it goes on along an output row")
    planted("pool-counts", small_case(*averaged("reciprocal")), "8-bit fraction (a multiple of 1/256, rounded)")
    planted("blocked-sums", small_case(*averaged("saturated")), "saturates to 16 bits after every summand")


def test_a_running_maximum() -> None:
    small, _ = pooled()
    made = small_case(small, np.zeros((1, 3, 5, 6), np.int8)).healthy
    planted("max-pool-window", small_case(small, np.maximum.accumulate(made, 3)), "all windows to its left")


def added(rq: Array, low: int = -(10**6), **other: Any) -> tuple[Small, Array]:
    """A * r1 + (B * r2 + F), saturated at `low` steps from the zero point."""
    rng = generator(26)
    a, b = (rng.integers(0, 256, (4, 50)).astype(np.uint8) for _ in range(2))
    own = np.array([0.83161426, 1.911298, -73.17836], np.float32)
    small = Small(
        "add", (0, 0, 255), ("uint8", 1.0, 90), a.shape, a=(a, 0.83161426, 98), b=(b, 1.911298, 43), c_rq=(own,)
    )
    inner = (b.astype(np.float64) * rq[1] + rq[2]).astype(np.float32)
    value = (a.astype(np.float64) * np.float64(rq[0]) + inner).astype(np.float32)
    steps = np.clip(np.rint(value - 90), low, -low - 1)
    return small, np.clip(steps + 90, 0, 255).astype(np.uint8)


def test_additions() -> None:
    own = np.array([0.83161426, 1.911298, -73.17836], np.float32)
    planted(
        "addition-steps", small_case(*added(own, -64)), "saturates to 7 bits (-64..63) before the output zero point"
    )
    short = np.array([np.rint(own[0] * 64) / 64, np.rint(own[1] * 64) / 64, own[2]], np.float32)
    planted(
        "addition-steps",
        small_case(*added(short)),
        "both ratios of scales rounded to multiples of 1/64; the constant F",
    )


def test_a_relu_of_an_operand() -> None:
    rq = np.array([0.83161426, 1.911298, -73.17836], np.float32)
    small, _ = added(rq)
    a, b = (small.inputs[n] for n in "ab")
    inner = (b.astype(np.float64) * rq[1] + rq[2]).astype(np.float32)
    value = (np.maximum(a, 98).astype(np.float64) * np.float64(rq[0]) + inner).astype(np.float32)
    recorded = np.clip(np.rint(value), 0, 255).astype(np.uint8)
    planted("addition-steps", small_case(small, recorded), "a Relu is applied to the first (outer) operand")


def test_a_moving_operand() -> None:
    rng = generator(27)
    a, b = rng.integers(0, 256, (3, 7)).astype(np.uint8), rng.integers(0, 256, (3, 1)).astype(np.uint8)
    rq = np.array([0.002], np.float32)
    small = Small("mul", (0, 255), ("uint8", SY, 100), (3, 7), a=(a, SX, 120), b=(b, 0.005, 110), c_rq=(rq,))

    def of(second: Array, low: int = -(10**6)) -> Array:
        product = np.clip((a.astype(np.int64) - 120) * (second.astype(np.int64) - 110), low, -low - 1)
        return np.clip(np.rint(product.astype(np.float32) * rq[0] + np.float32(100)), 0, 255).astype(np.uint8)

    moving = b.reshape(-1)[(np.arange(3)[:, None] + np.arange(7)) % 3]
    planted(
        "broadcast-operand",
        small_case(small, of(moving)),
        "moves on by one element with every column, wrapping at its end",
    )
    planted(
        "narrow-products", small_case(small, of(b, -(2**11))), "saturates to 12 bits (-2048..2047) before it is scaled"
    )


def test_a_depthwise_convolution_in_place() -> None:
    rng = generator(28)
    x, w = rng.integers(-128, 128, (1, 3, 6, 5)).astype(np.int8), rng.integers(-128, 128, (3, 1, 3, 3)).astype(np.int8)
    rq, words = np.full(3, 0.002, np.float32), (3, 3, 1, 1, 1, 1, 1, 1, 1, 1, 3, -128, 127)
    b = np.array([50, -60, 70], np.int32)
    small = Small("conv", words, ("int8", SX, ZX), x.shape, x=(x, SX, ZX), c_w=(w, 0.01, 0), c_b=(b,), c_rq=(rq,))
    wide, y = np.pad(x[0].astype(np.int64) - ZX, ((0, 0), (1, 1), (1, 1))), np.zeros_like(x)
    for i in range(6):
        acc = sum(
            wide[:, i + p, q : q + 5] * w[:, 0, p, q].astype(np.int64)[:, None] for p in range(3) for q in range(3)
        )
        y[0, :, i] = np.clip(np.rint((acc + b[:, None]).astype(np.float32) * rq[:, None]) + ZX, -128, 127)
        wide[:, i + 1, 1:6] = y[0, :, i].astype(np.int64) - ZX
    planted("in-place", small_case(small, y), "each finished output row replaces the input row of the same number")


def test_a_pitch_of_an_input() -> None:
    x = generator(29).permutation(np.arange(-60, 60)).astype(np.int8).reshape(1, 1, 12, 10)
    table = generator(30).permutation(np.arange(-128, 128)).astype(np.int8)
    small = Small("lookup", (), ("int8", 0.5, 3), x.shape, x=(x, 0.5, 3), c_table=(table,))
    start = np.minimum(np.arange(12) * 16, 110)
    read = x.reshape(-1)[start[:, None] + np.arange(10)].reshape(x.shape)
    planted(
        "input-pitch",
        small_case(small, table[read.astype(np.int64) + 128]),
        "its 10 bytes rounded up to a multiple of 16",
    )


def units_of_all() -> Iterator[Small]:
    yield from (dense(np.ones((5, 6), np.int8))[0], transposed("added")[0], mean("")[0], averaged("")[0])
    yield from (added(np.ones(3, np.float32))[0], pooled()[0])


@pytest.mark.parametrize("family", NEW)
def test_no_family_fails_on_noise(family: str) -> None:
    """Bytes of no fault are explained by none, and looking at them raises nothing."""
    cases = [case_of(COARSE, generator(31).integers(-128, 128, (1, 10, 9, 11)).astype(np.int8))]
    for small in units_of_all():
        spec = small.graph.spec("y")
        info = np.iinfo(spec.dtype)
        cases.append(small_case(small, generator(32).integers(info.min, info.max, spec.shape).astype(spec.dtype)))
    assert not [said for case in cases for said in says(family, case)]
