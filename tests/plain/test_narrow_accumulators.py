"""From which sum on an accumulator of so many bits is too narrow: the last that fits, and the first that does not."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from math import inf
from typing import Any

import numpy as np
import pytest
from qverify.model_bin.units import units
from qverify.triage.altered_kernels.stepwise import ORDERS, largest_product, largest_sum, pairwise, steps, stepwise
from qverify.triage.altered_kernels.summed_elements import sample
from qverify.triage.case import Case
from qverify.triage.fault_search import _FaultTrial
from qverify.triage.hypotheses import FaultVariant, pages

from tests.plain.fault_units import Dense, case_of, small_case
from tests.plain.forensic_units import ZX, Conv, Small

Array = Any
(ACCUMULATOR,) = (page for page in pages() if page.NAME == "accumulator")


def said(x: list[int], w: list[int], bias: int, zero: int = 0, dtype: str = "int8") -> list[str]:
    """Faults of one sum of products; the weights' zero point is 0."""
    tensors: dict[str, Any] = {
        "x": (np.array([x], dtype), 0.5, zero),
        "c_w": (np.array([w], np.int8), 0.5, 0),
        "c_b": (np.array([bias], np.int32),),
        "c_rq": (np.array([0.25], np.float32),),
    }
    small = Small("fully_connected", (-128, 127), ("int8", 1.0, 0), (1, 1), **tensors)
    case = Case(small.graph, units(small.graph)[0], small.inputs, "y", np.zeros((1, 1), np.int8))
    return [variant.text for variant in ACCUMULATOR.variants(case)]


@pytest.mark.parametrize("width", [8, 12, 14, 15, 16, 17, 18, 20, 22, 24, 26, 28, 30, 31])
def test_the_first_sum_that_is_too_large(width: int) -> None:
    half = 1 << width - 1
    texts = {
        f"accumulator of {width} bits that wraps",
        f"accumulator saturated to {width} bits at the end",
        f"accumulator saturated to {width} bits before the bias",
    }
    for bias, narrow in ((half - 1, False), (half, True), (-half, False), (-half - 1, True)):
        found = set(said([0], [0], bias))
        assert (texts <= found) if narrow else not texts & found, bias


@pytest.mark.parametrize(
    ("bias", "steps"), [((1 << 15) - 1 - 6, 0), ((1 << 15) - 6, 4), (6 - (1 << 15), 4), (7 - (1 << 15), 0), (0, 0)]
)
def test_the_first_sum_that_may_saturate_on_its_way(bias: int, steps: int) -> None:
    """For 1 * 2 and 2 * -2 no partial sum is larger than 2 * 3, the largest of what is read by all the weights."""
    found = [text for text in said([1, 2], [1, -2], bias) if "at every step" in text]
    assert len(found) == steps


@pytest.mark.parametrize(("bias", "narrow"), [((1 << 31) - 2, False), ((1 << 31) - 1, True)])
def test_a_sum_of_16_bits_beyond_32(bias: int, narrow: bool) -> None:
    assert ("accumulator of 32 bits that wraps" in said([1], [1], bias, dtype="int16")) is narrow


def test_one_product_may_saturate() -> None:
    assert sum("at every step" in text for text in said([1], [1], 1 << 15)) == 4


@pytest.mark.parametrize(("zero", "steps"), [(-100, 2), (0, 0), (100, 0)])
def test_a_sum_is_of_what_is_read_less_the_zero_point(zero: int, steps: int) -> None:
    """227 * 254 and 100 * 254 with a bias of 0: more than 2^15 and less."""
    found = [text for text in said([127, 0], [127, 127], 0, zero) if "at every step" in text]
    assert len(found) == steps


def test_a_bias_of_zero_is_first_or_last_alike() -> None:
    found = [text for text in said([127] * 4, [127] * 4, 0) if "at every step" in text]
    assert found == [
        f"accumulator saturated to 16 bits at every step, channels {order}, bias first"
        for order in ("outermost", "innermost")
    ]


@pytest.mark.parametrize(
    ("x", "w", "zero", "plain", "with_zero"),
    [
        ([127, 0], [127, 127], 0, 0, 0),  # 2 * 127 * 127 < 2^15
        ([-128, 0], [-128, 1], 0, 2, 0),  # 2^15
        ([127, 0], [127, 127], -3, 2, 0),  # less the zero point 130 is multiplied; with it still in, 127
        ([0, 0], [127, 127], 1, 0, 0),
        ([-128, 0], [-128, 1], 1, 2, 2),
    ],
)
def test_two_products_that_may_saturate(x: list[int], w: list[int], zero: int, plain: int, with_zero: int) -> None:
    pairs = [text for text in said(x, w, 0, zero) if text.startswith("every two")]
    assert sum("zero point still in" not in text for text in pairs) == plain
    assert sum("zero point still in" in text for text in pairs) == with_zero


def as_it_is(values: Array) -> Array:
    return values


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("group", [1, 2])
def test_steps_that_change_nothing_sum_up(order: str, group: int) -> None:
    """The kernels are a convolution in groups, of 54 taps or of 27, and a matrix of 5: one product may have no neighbour."""
    c, d = Conv(group=group), Dense()
    dense = (d.x.astype(int) - ZX) @ (d.w.astype(int) - 4).T + d.b
    for case, wanted, bias in (
        (case_of(c), c.acc()[None], c.b[:, None, None]),
        (small_case(d.small, d.out()), dense, d.b),
    ):
        start = np.broadcast_to(bias, wanted.shape)
        assert np.array_equal(stepwise(case, order, as_it_is, start), wanted)
        for zero in (0, 5):
            assert np.array_equal(pairwise(case, order, as_it_is, start, zero), wanted)
    assert steps(case_of(c)) == 990 * 54 // group and steps(small_case(d.small, d.out())) == 30


@pytest.mark.parametrize("order", ORDERS)
def test_neighbours_are_added_together(order: str) -> None:
    """Each two, in the order of the taps; what is left over stands alone."""
    c = Conv(group=2)
    taps = [*range(27)] if order == "channels outermost" else [ch * 9 + tap for tap in range(9) for ch in range(3)]
    columns, seen = c.columns().reshape(2, 27, 9, 11), list[Array]()

    def together(values: Array) -> Array:
        seen.append(values)
        return values

    pairwise(case_of(c), order, together, np.zeros((1, 10, 9, 11), np.int64), 3)
    weights = c.w.astype(int).reshape(2, 5, 27)
    products = [np.einsum("go,ghw->gohw", weights[..., k], columns[:, k] + 3).reshape(1, 10, 9, 11) for k in taps]
    wanted = [a + b for a, b in zip(products[:-1:2], products[1::2], strict=True)] + products[-1:]
    assert len(seen) == 14 and all(np.array_equal(a, b) for a, b in zip(seen, wanted, strict=True))


def test_the_largest_sum_and_product() -> None:
    d = Dense()
    case = small_case(d.small, d.out())
    x, w = np.abs(d.x.astype(int) - ZX).max(), np.abs(d.w.astype(int) - 4)
    assert largest_sum(case) == x * w.sum(1).max() and largest_product(case, 0) == x * w.max()
    assert largest_product(case, ZX) == np.abs(d.x.astype(int)).max() * w.max()


def _extreme(shape: tuple[int, ...]) -> Array:
    return np.random.Generator(np.random.PCG64(8)).choice([-128, 127], shape).astype(np.int8)


@pytest.mark.parametrize("kind", ["conv", "grouped", "dense"])
def test_a_cheap_look_gives_what_the_fault_gives(kind: str) -> None:
    """At some differing elements; recorded by the fault itself it may fit, and where nothing is as it says it may not."""
    if kind == "dense":
        x, w = _extreme((3, 400)), _extreme((7, 400))
        small = Small(
            "fully_connected", (-128, 127), ("int8", 1.0, 0), (3, 7),
            x=(x, 0.5, 9), c_w=(w, 0.5, 0), c_b=(np.arange(7, dtype=np.int32) * 900,), c_rq=(np.full(7, 0.0002, np.float32),),
        )  # fmt: skip
        healthy = small_case(small, np.zeros((3, 7), np.int8)).healthy
        of = partial(small_case, small)
    else:
        c = Conv(bias=12000, group=2 if kind == "grouped" else 1)
        c.x, c.w = _extreme(c.x.shape), _extreme(c.w.shape)
        healthy, of = c.out(), partial(case_of, c)
    looked = [v for v in ACCUMULATOR.variants(of(healthy + np.int8(1))) if v.may_fit is not None]
    assert len(looked) == 8
    cases = [of(variant.make(of(healthy + np.int8(1)))) for variant in looked]
    changed = [(variant, case) for variant, case in zip(looked, cases, strict=True) if case.differing.size]
    assert {"step" in v.text for v, _ in changed} == {"innermost" in v.text for v, _ in changed} == {True, False}
    for variant, case in changed:
        few = sample(case)
        assert few is not None and variant.may_fit is not None
        given = few.requantized(variant.may_fit.keywords["way"](few))
        assert np.array_equal(given, case.recorded.reshape(-1)[few.places]), variant.text
        assert variant.may_fit(case) and not variant.may_fit(of(case.recorded ^ np.int8(64))), variant.text


def test_what_a_look_excludes_is_not_computed() -> None:
    c = Conv(bias=12000)
    case = case_of(c, c.out() ^ np.int8(64))
    trial = _FaultTrial(case, inf)
    variant = FaultVariant("never", lambda case: case.recorded, may_fit=lambda case: False)
    assert trial._try_variant(ACCUMULATOR, variant) == [] and not trial.families
    assert trial._try_variant(ACCUMULATOR, replace(variant, may_fit=lambda case: True)) != []
