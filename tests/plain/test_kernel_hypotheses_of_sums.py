"""Kernel faults of sums, planted in plain numpy: each family finds its own, and near misses are not taken for it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from qverify.model_bin.units import units
from qverify.triage.altered_kernels.summands import summands
from qverify.triage.altered_kernels.summed_elements import bias_of
from qverify.triage.case import Case

from tests.plain.fault_units import PAGES, Dense, case_of, small_case
from tests.plain.forensic_units import SX, SY, ZX, ZY, Conv, Small, generator

Array = Any
COARSE = Conv(coarse=True)


def says(family: str, case: Case) -> list[str]:
    """The sentences of the family's variants that give every recorded byte."""
    variants = PAGES[family].variants(case)
    return [v.text for v in variants if np.array_equal(v.make(case), case.recorded)]


def planted(family: str, case: Case, sentence: str) -> None:
    """The sentence is found; with one element more that is wrong nothing is."""
    assert case.differing.size
    assert any(said.startswith(sentence) for said in says(family, case)), says(family, case)
    spoiled = case.recorded.copy()
    spoiled.reshape(-1)[case.differing[0]] ^= 5
    near = Case(case.graph, case.unit, case.inputs, case.output, spoiled)
    assert not says(family, near)


def short(values: Array, bits: int) -> Array:
    """float32 cut to so many significant bits."""
    field = values.view(np.uint32)
    return (field & np.uint32(0xFFFFFFFF << (24 - bits) & 0xFFFFFFFF)).view(np.float32)


def pairs(c: Conv) -> Array:
    products = c.w.reshape(10, 54, 1, 1).astype(np.int64) * c.columns()[None]
    return np.clip(products[:, ::2] + products[:, 1::2], -(2**13), 2**13 - 1).sum(1) + c.b[:, None, None]


def conv_faults() -> dict[tuple[str, str], Array]:
    c, o = COARSE, np.arange(10)
    acc, bias = c.acc(), c.b[:, None, None].astype(np.int64)
    products = c.w.reshape(10, 54, 1, 1).astype(np.int64) * c.columns()[None]
    scale = c.rq[:, None, None]
    moved = np.where(c.columns() == 0 - ZX, 0, c.columns())  # raw 0 adds nothing
    below = c.columns(pad=0).reshape(6, 3, 3, 9, 11)
    return {
        ("scale-precision", "the requantization scale is kept with 9 significant bits, cut off"): c.out(rq=short(c.rq, 9)),
        ("scale-precision", "the requantization scale is kept in float16"): c.out(rq=c.rq.astype(np.float16).astype(np.float32)),
        ("sum-precision", "the sum (bias included) is rounded half up to a multiple of 16"): c.out((acc + 8) // 16 * 16),
        ("sum-precision", "every product is rounded down (floor) to a multiple of 8"): c.out((products // 8 * 8).sum(1) + bias),
        ("product-precision", "requantization has the product in float16"): c.clipped(
            np.rint((acc.astype(np.float32) * scale).astype(np.float16).astype(np.float32))
        ),
        ("requantize-steps", "the scaled sum is rounded by adding 0.5 and truncating"): c.clipped(np.trunc(acc.astype(np.float32) * scale + 0.5)),
        ("bias-addition", "the sum and the bias are scaled and rounded to output steps each by itself"): c.clipped(
            np.rint((acc - bias).astype(np.float32) * scale) + np.rint(bias.astype(np.float32) * scale)
        ),
        ("bias-addition", "the bias is added 9 times: once for every tap"): c.out(acc + 8 * bias),
        ("parameter-index", "the requantization scale of channel o is read at index o mod 8"): c.out(rq=c.rq[o % 8]),
        ("parameter-index", "the bias of channel o is read at index o - 1 (the previous channel's, the first its own)"): c.out(
            acc - bias + bias[np.maximum(o - 1, 0)]
        ),
        ("operand-values", "the input less its zero point saturates to 7 bits"): c.out(
            np.einsum("ok,kij->oij", c.w.reshape(10, 54).astype(np.int64), np.clip(c.columns(), -64, 63)) + bias
        ),
        ("operand-values", "the weights read as 0 throughout: every product is left out"): c.out(
            np.zeros_like(acc) + bias
        ),
        ("operand-values", "the input skips elements stored as 0"): c.out(
            np.einsum("ok,kij->oij", c.w.reshape(10, 54).astype(np.int64), moved) + bias
        ),
        ("summands-left-out", "the last 6 of the 54 summands in the order channel, kernel row, kernel column"): c.out(
            products[:, :48].sum(1) + bias
        ),
        ("summand-order", "every two neighbouring elements of the input are exchanged"): c.out(
            np.einsum("okp,pij->oij", c.w.reshape(10, 27, 2).astype(np.int64)[:, :, ::-1].reshape(10, 54, 1) * np.eye(54, dtype=np.int64), c.columns()) + bias
        ),
        ("padding-reads", "padding in rows above and below reads raw 0"): c.out(
            np.einsum("ok,kij->oij", c.w.reshape(10, 54).astype(np.int64), rows_padded(c, below)) + bias
        ),
        ("carried-sum", "the sum of the column before is added, too"): c.out(
            acc + np.concatenate([np.zeros((10, 9, 1), np.int64), (acc - bias)[..., :-1]], -1)
        ),
        ("window-words", "pad_left is ignored: the windows start at the first column"): c.out(
            shifted(c)
        ),
    }  # fmt: skip


def rows_padded(c: Conv, raw: Array) -> Array:
    """Columns where padded rows are raw 0 and padded columns beside the plane's rows are right."""
    right = c.columns().reshape(6, 3, 3, 9, 11).copy()
    right[:, 0, :, 0] = raw[:, 0, :, 0]
    right[:, 2, :, 8] = raw[:, 2, :, 8]
    return right.reshape(54, 9, 11)


def shifted(c: Conv) -> Array:
    """Sums whose windows start one column later: all padding of columns on the right."""
    wide = np.pad(c.x[0].astype(np.int64) - ZX, ((0, 0), (1, 1), (0, 2)))
    taps = np.stack([wide[k, i : i + 9, j : j + 11] for k in range(6) for i in range(3) for j in range(3)])
    return np.einsum("ok,kij->oij", c.w.reshape(10, 54).astype(np.int64), taps) + c.b[:, None, None]


FAULTS = conv_faults()


@pytest.mark.parametrize(("family", "sentence"), FAULTS)
def test_faults_of_a_convolution(family: str, sentence: str) -> None:
    planted(family, case_of(COARSE, FAULTS[family, sentence]), sentence)


def test_partial_sums() -> None:
    c = Conv()
    planted(
        "partial-sums", case_of(c, c.out(pairs(c))), "the sum of every two neighbouring products saturates to 14 bits"
    )
    products = c.w.reshape(10, 54, 1, 1).astype(np.int64) * c.columns()[None]
    acc = np.zeros((10, 9, 11), np.int64)
    for k in range(54):
        acc = np.clip(acc + products[:, k], -(2**15), 2**15 - 1)
    case = case_of(c, c.out(acc + c.b[:, None, None]))
    planted("partial-sums", case, "the accumulator has 16 bits and saturates after every summand in the order channel")


def test_summands_are_those_of_the_sum() -> None:
    for case in (case_of(Conv()), case_of(Conv(group=2))):
        places = np.arange(case.recorded.size)
        found = summands(case, places)
        assert found is not None
        sums = (
            found.products.reshape(len(places), -1).sum(1) + bias_of(case)[np.unravel_index(places, case.spec.shape)[1]]
        )
        assert np.array_equal(sums.reshape(case.recorded.shape)[0], Conv(group=case.last.words[10]).acc())


def test_a_stale_panel() -> None:
    """A tap of a padded row keeps what its place held 8 pixels before, zeros before the first tile."""
    c = COARSE
    columns = c.columns().reshape(6, 3, 3, 99).copy()
    row = np.arange(99) // 11
    for a, padded in ((0, row == 0), (2, row == 8)):
        for p in np.flatnonzero(padded):
            columns[:, a, :, p] = columns[:, a, :, p - 8] if p >= 8 else 0
    acc = np.einsum("ok,kp->op", c.w.reshape(10, 54).astype(np.int64), columns.reshape(54, 99)) + c.b[:, None]
    case = case_of(c, c.out(acc.reshape(10, 9, 11)))
    planted("stale-panel", case, "the gathered input line of a kernel tap whose row lies in the padding is not cleared")


def mean(y: Array | None = None) -> tuple[Case, Array]:
    x = generator(8).integers(-128, 128, (1, 40, 5, 5)).astype(np.int8)
    rq = np.array([SX / SY / 25], np.float32)
    small = Small("global_average_pool", (-128, 127), ("int8", SY, ZY), (1, 40, 1, 1), x=(x, SX, ZX), c_rq=(rq,))
    total = x.astype(np.int64).sum((2, 3), keepdims=True) - 25 * ZX
    return small_case(small, np.zeros((1, 40, 1, 1), np.int8) if y is None else y), total


def of_mean(total: Array) -> Array:
    return np.clip(np.rint(total.astype(np.float32) * np.float32(SX / SY / 25)) + ZY, -128, 127).astype(np.int8)


def test_means() -> None:
    total = mean()[1]
    whole = np.floor(total / 25 + 0.5).astype(np.int64) * 25
    planted("mean-divisor", mean(of_mean(whole))[0], "the mean of x - zero point is rounded half up to an integer")
    aligned = np.rint(total * 5 / 8).astype(np.int64)
    planted(
        "mean-divisor",
        mean(of_mean(aligned))[0],
        "the mean is divided by the size with its width rounded up to a multiple of 8",
    )
    planted("zero-point-terms", mean(of_mean(total + 24 * ZX))[0], "the zero point of the input is subtracted once")


def pooled(divisor: float) -> tuple[Small, Array]:
    x = generator(9).integers(-128, 128, (1, 3, 6, 6)).astype(np.int8)
    words = (2, 2, 2, 2, 0, 0, 0, 0, 0, -128, 127)
    rq = np.array([SX, SY], np.float32)
    small = Small("average_pool", words, ("int8", SY, ZY), (1, 3, 3, 3), x=(x, SX, ZX), c_rq=(rq,))
    real = (x.astype(np.int64) - ZX).reshape(1, 3, 3, 2, 3, 2).transpose(0, 1, 2, 4, 3, 5).reshape(1, 3, 3, 3, 4)
    total = np.add.accumulate(np.float32(SX) * real.astype(np.float32), -1, dtype=np.float32)[..., -1]
    y = np.rint(total / np.float32(divisor) / np.float32(SY) + np.float32(ZY))
    return small, np.clip(y, -128, 127).astype(np.int8)


def test_an_average_pool() -> None:
    small, y = pooled(5)
    planted("pool-divisor", small_case(small, y), "the sum is divided by 5, one more than the kernel's size")
    small, y = pooled(4)
    assert not small_case(small, y).differing.size


def test_matrices() -> None:
    rng = generator(10)
    a, b = (rng.integers(-128, 128, (3, 5, 5)).astype(np.int8) for _ in range(2))
    rq = np.array([0.002], np.float32)
    small = Small("matmul", (-128, 127), ("int8", SY, ZY), (3, 5, 5), a=(a, SX, ZX), b=(b, 0.005, 3), c_rq=(rq,))
    first = a.astype(np.int64) - ZX

    def of(second: Array) -> Array:
        acc = first @ (second.astype(np.int64) - 3)
        return np.clip(np.rint(acc.astype(np.float32) * rq) + ZY, -128, 127).astype(np.int8)

    assert not small_case(small, of(b)).differing.size
    planted(
        "matrix-operands", small_case(small, of(b.swapaxes(1, 2))), "the second operand is taken for already transposed"
    )
    planted(
        "matrix-operands",
        small_case(small, of(b[:1])),
        "the first matrix of the second operand is used for all batches",
    )
    planted(
        "input-planes",
        small_case(small, batch(a, b, rq)),
        "every batch item reads the input of the first one",
    )


def batch(a: Array, b: Array, rq: Array) -> Array:
    acc = (a[:1].astype(np.int64) - ZX) @ (b.astype(np.int64) - 3)
    return np.clip(np.rint(acc.astype(np.float32) * rq) + ZY, -128, 127).astype(np.int8)


def test_a_product_that_is_not_repeated() -> None:
    rng = generator(11)
    a, b = rng.integers(-128, 128, (1, 4, 3, 3)).astype(np.int8), rng.integers(-128, 128, (4, 1, 1)).astype(np.int8)
    rq = np.array([0.003], np.float32)
    small = Small("mul", (-128, 127), ("int8", SY, ZY), (1, 4, 3, 3), a=(a, SX, ZX), b=(b, 0.005, 3), c_rq=(rq,))
    read = b.reshape(-1)[np.minimum(np.arange(36), 3)].reshape(1, 4, 3, 3)
    acc = (a.astype(np.int64) - ZX) * (read.astype(np.int64) - 3)
    y = np.clip(np.rint(acc.astype(np.float32) * rq[0] + np.float32(ZY)), -128, 127).astype(np.int8)
    planted(
        "broadcast-index",
        small_case(small, y),
        "the second operand is not repeated: beyond its end its last element is used",
    )


def test_a_tail_of_rows() -> None:
    d = Dense()
    y = d.out()
    tail = y[:, [0, 1, 1]]
    assert "the last 1 columns" in " ".join(
        says("output-tail", Case(d.small.graph, units(d.small.graph)[0], d.small.inputs, "y", tail))
    )


def test_other_groups() -> None:
    c = Conv(group=2, coarse=True)
    x = c.x[:, [0, 1, 2, 0, 1, 2]]
    planted("input-planes", case_of(c, c.out(c.acc(x=x))), "every group reads the input channels of the first group")


def test_columns_of_a_tail_step_by_one() -> None:
    """Windows of stride 1 that repeat: the last 3 of 11 columns repeat those 4 before."""
    c = COARSE
    moved = c.acc()[..., [*range(8), 4, 5, 6]]
    planted("window-positions", case_of(c, c.out(moved)), "the last 3 columns repeat the windows 4 before")


def test_halves_of_16_bits() -> None:
    rng = generator(12)
    x, w = (rng.integers(-32768, 32768, s).astype(np.int16) for s in ((4, 9), (6, 9)))
    rq = np.full(1, 2e-7)
    small = Small(
        "fully_connected",
        (-32768, 32767),
        ("int16", SY, 0),
        (4, 6),
        x=(x, SX, 0),
        c_w=(w, 0.01, 0),
        c_b=(np.zeros(6, np.int64),),
        c_rq=(rq,),
    )
    low = (x.astype(np.int64) & 255)[:, None] * (w.astype(np.int64) & 255)
    acc = x.astype(np.int64) @ w.astype(np.int64).T - low.sum(2)
    y = np.clip(np.rint(acc * rq[0]), -32768, 32767).astype(np.int16)
    planted(
        "split-products",
        small_case(small, y),
        "operands are split in two (the lowest 8 bits and the rest): the product of both low parts",
    )


def test_a_mean_of_other_elements() -> None:
    x = generator(13).integers(-128, 128, (6, 5, 4)).astype(np.int8)
    rq = np.array([SX / SY / 6], np.float32)
    small = Small("reduce_mean", (1, -128, 127), ("int8", SY, ZY), (5, 4), x=(x, SX, ZX), c_rq=(rq,))
    total = x.reshape(20, 6).astype(np.int64).sum(1).reshape(5, 4) - 6 * ZX
    y = np.clip(np.rint(total.astype(np.float32) * rq[0]) + ZY, -128, 127).astype(np.int8)
    planted("mean-reads", small_case(small, y), "every mean is of consecutive elements of memory")
