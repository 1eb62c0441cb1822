"""Kernel faults of products, means and sums of floats and of stored integers, planted in plain numpy: each family finds its
own, and healthy bytes are not taken for it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from qverify.compiler.builder import float_word
from qverify.triage.case import Case
from qverify.triage.hypotheses import FaultVariant

from tests.plain.fault_units import PAGES, small_case
from tests.plain.forensic_units import Small, generator

Array = Any
F = np.float32


def rows(*shape: int, seed: int = 7) -> Array:
    return generator(seed).normal(0.4, 2.0, shape).astype(F)


def whole(*shape: int, seed: int = 7) -> Array:
    return generator(seed).integers(0, 256, shape, np.uint8)


def patches(x: Array, mode: str = "constant", left: int = 0) -> Array:
    """[C, h, w, 3, 3] of x [1, C, H, W] with one element of padding; left: value of the padding there."""
    padded = np.pad(x[0].astype(np.float64), ((0, 0), (1, 1), (0, 0)))
    padded = np.pad(padded, ((0, 0), (0, 0), (1, 1)), mode)  # type: ignore[call-overload]
    padded[:, :, -1] = 0
    if left:
        padded[:, 1:-1, 0] = left
    return np.lib.stride_tricks.sliding_window_view(padded, (3, 3), (1, 2))


class Conv:
    """A convolution of floats: 4 channels in 2 groups to 6, 3x3, padding 1, bias."""

    def __init__(self) -> None:
        self.x, self.w, self.b = rows(1, 4, 7, 6), rows(6, 2, 3, 3, seed=1), rows(6, seed=2)
        words = (3, 3, 1, 1, 1, 1, 1, 1, 1, 1, 2)
        self.unit = Small(
            "conv_float", words, ("float32", 0, 0), (1, 6, 7, 6), x=(self.x,), c_w=(self.w,), c_b=(self.b,)
        )

    def products(self, seen: Array | None = None, w: Array | None = None) -> Array:
        """[6, 7, 6, 18] in the order of channels, kernel rows, kernel columns."""
        seen = patches(self.x) if seen is None else seen
        seen = np.repeat(seen.reshape(2, 2, 7, 6, 9), 3, 0)
        w = (self.w if w is None else w).astype(np.float64).reshape(6, 2, 1, 1, 9)
        return np.moveaxis(seen * w, 1, 3).reshape(6, 7, 6, 18)

    def out(self, products: Array, b: Array | None = None) -> Array:
        b = (self.b if b is None else b).astype(np.float64).reshape(6, 1, 1)
        return (products.sum(-1) + b).astype(F)[None]


def sequential(products: Array) -> Array:
    return np.add.accumulate(products.astype(F), -1, dtype=F)[..., -1]


def lanes(products: Array, n: int) -> Array:
    each = [sequential(products[..., i::n]) for i in range(n)]
    return (each[0] + each[1]) + (each[2] + each[3])


def conv_faults() -> dict[tuple[str, str], Array]:
    c = Conv()
    p, bias = c.products(), c.b.reshape(6, 1, 1)
    tail, row = p.copy(), p.copy()
    tail[..., 16:] = 0
    row.reshape(6, 7, 6, 2, 3, 3)[..., 2, :] = 0
    replicated = patches(c.x, "edge")
    return {
        (
            "float-product-sums",
            "the terms are added one after the other in float32, rounding every product and every sum; a bias is added last",
        ): (sequential(p) + bias)[None],
        (
            "float-product-sums",
            "the terms are added in 4 partial sums of float32 (term k in partial sum k modulo 4), which are added pairwise, neighbours",
        ): (lanes(p, 4) + bias)[None],
        ("float-product-operands", "the elements of the weights are held in float16"): c.out(
            c.products(w=c.w.astype(np.float16))
        ),
        ("product-parameters", "the bias added is that of the channel's place within its group"): c.out(
            p, np.tile(c.b[:3], 2)
        ),
        ("product-parameters", "the weights of the first group are used in every group"): c.out(
            c.products(w=np.tile(c.w[:3], (2, 1, 1, 1)))
        ),
        ("product-terms-left-out", "the terms beyond whole groups of 8 are left out"): c.out(tail),
        ("product-terms-left-out", "the last kernel row is left out"): c.out(row),
        ("product-windows", "the padding at the left repeats the edge"): c.out(c.products(replicated)),
    }


def matmul_faults() -> dict[tuple[str, str], tuple[Small, Array]]:
    a, b, c = rows(5, 9), rows(9, 7, seed=1), rows(7, seed=2)
    words = (0, 0, float_word(0.5), float_word(2.0))
    unit = Small("matmul_float", words, ("float32", 0, 0), (5, 7), x=(a,), c_b=(b,), c_c=(c,))
    total = (a.astype(np.float64) @ b).astype(F).astype(np.float64)
    c2 = c.astype(np.float64) * 2
    return {
        ("product-parameters", "alpha multiplies what is added, too"): (unit, (0.5 * (total + c2)).astype(F)),
        ("product-parameters", "the first element of each row"): (unit, (0.5 * total + c2[0]).astype(F)),
    }


def mean_faults() -> dict[tuple[str, str], tuple[Small, Array]]:
    x, y, z = rows(1, 2, 6, 8), rows(1, 2, 6, 8, seed=1), rows(1, 2, 6, 8, seed=2)
    wide = (x.astype(np.float64), y.astype(np.float64), z.astype(np.float64))
    mean = Small("variadic_float", (1,), ("float32", 0, 0), x.shape, x=(x,), v=(y,), w=(z,))
    l1 = Small("reduce_float", (4, 8), ("float32", 0, 0), (1, 2, 6), x=(x,))
    pool = Small("average_pool_float", (3, 3, 1, 1, 1, 1, 1, 1, 1, 1, 0), ("float32", 0, 0), x.shape, x=(x,))
    return {
        ("float-means", "the mean is taken pair by pair"): (mean, (((wide[0] + wide[1]) / 2 + wide[2]) / 2).astype(F)),
        ("float-means", "the absolute value of the sum"): (
            l1,
            np.abs(np.add.accumulate(wide[0], -1)[..., -1]).astype(F),
        ),
        (
            "float-means",
            "the taps by which the mean divides are counted in rows with the padding and in columns with the padding",
        ): (
            pool,
            (np.add.accumulate(patches(x).reshape(2, 6, 8, 9), -1)[..., -1] / 9).astype(F)[None],
        ),
    }


def integer_faults() -> dict[tuple[str, str], tuple[Small, Array]]:
    a, b = whole(5, 9), whole(9, 7, seed=1)
    za, zb = np.array(100, np.uint8), np.array(30, np.uint8)
    unit = Small("matmul_integer", (), ("int32", 0, 0), (5, 7), x=(a,), c_b=(b,), c_za=(za,), c_zb=(zb,))
    x, w = whole(1, 2, 6, 5), whole(3, 2, 3, 3, seed=1)
    words = (3, 3, 1, 1, 1, 1, 1, 1, 1, 1, 1)
    conv = Small("conv_integer", words, ("int32", 0, 0), (1, 3, 6, 5), x=(x,), c_w=(w,), c_zx=(za,), c_zw=(zb,))
    seen = patches(x.astype(np.int64) - 100, left=-100)
    raw = np.einsum("chwij,ocij->ohw", seen, w.astype(np.float64) - 30)[None]
    left, right = a.astype(np.int64), b.astype(np.int64)
    crossed = (left - 100) @ (right - 30) - 9 * 100 * 30
    return {
        ("integer-products", "the product of both zero points times the number of terms is left out"): (
            unit,
            crossed.astype(np.int32),
        ),
        ("integer-products", "the zero point of the second operand is not subtracted"): (
            unit,
            ((left - 100) @ right).astype(np.int32),
        ),
        (
            "product-windows",
            "the padding at the left counts as the stored value 0 instead of as the zero point, in rows",
        ): (
            conv,
            raw.astype(np.int32),
        ),
    }


EVERY = (
    {key: (Conv().unit, recorded) for key, recorded in conv_faults().items()}
    | matmul_faults()
    | mean_faults()
    | integer_faults()
)


def fitting(family: str, case: Case) -> list[FaultVariant]:
    return [v for v in PAGES[family].variants(case) if np.array_equal(v.make(case), case.recorded)]


@pytest.mark.parametrize("key", EVERY, ids=" ".join)
def test_a_planted_fault_is_found(key: tuple[str, str]) -> None:
    family, said = key
    unit, recorded = EVERY[key]
    case = small_case(unit, recorded)
    assert case.differing.size
    found = [v.text for v in fitting(family, case)]
    assert any(text.startswith(said) for text in found), found


@pytest.mark.parametrize("key", EVERY, ids=" ".join)
def test_one_wrong_element_more_is_not_explained(key: tuple[str, str]) -> None:
    unit, recorded = EVERY[key]
    spoiled = recorded.copy()
    spoiled.reshape(-1).view(np.uint32)[3] ^= 1 << 18
    assert not fitting(key[0], small_case(unit, spoiled))
