"""Faults of windows, of padding and of interpolation; as plain numpy makes them."""

from __future__ import annotations

from dataclasses import replace
from math import floor
from typing import Any

import numpy as np
import pytest

from tests.plain.fault_units import (
    MODES,
    PAGES,
    POOL,
    POSITIONS,
    case_of,
    check,
    found,
    pool,
    pooled,
    small_case,
    sources,
)
from tests.plain.forensic_units import SX, SY, ZX, ZY, Conv, Small, generator

Array = Any


@pytest.mark.parametrize(("value", "bits"), [(77, 8.0), (0, 0.0), (127, 0.0), (-128, 0.0)])
def test_pad_value_of_a_convolution(value: int, bits: float) -> None:
    c = Conv()
    recorded = c.out(c.acc(pad=value))
    said = f"pad value {value} instead of the zero point"
    check("pad-value", case_of(c, recorded), {said: recorded}, {said: bits})


def test_window() -> None:
    small, x = pooled()
    case = small_case(small, pool(x, **POOL).astype(np.int8))
    assert case.differing.size == 0
    changes: dict[str, dict[str, Any]] = {
        "padding of the two row sides exchanged": {"pads": (0, 0, 1, 1)},
        "padding of the two column sides exchanged": {"pads": (1, 1, 0, 0)},
        "it starts one row earlier": {"pads": (0, 0, 1, 1)},
        "it starts one row further": {"pads": (2, 0, 0, 1)},
        "it starts one column further": {"pads": (1, 1, 0, 0)},
        "no padding of rows": {"pads": (0, 0, 0, 1)},
        "no padding of columns": {"pads": (1, 0, 0, 0)},
        "no padding": {"pads": (0, 0, 0, 0)},
        "stride 1x2 instead of 2x1": {"stride": (1, 2)},
        "stride 1": {"stride": (1, 1)},
        "stride_h 1 instead of 2": {"stride": (1, 1)},
        "stride 1 too large": {"stride": (3, 2)},
        "stride_h 3 instead of 2": {"stride": (3, 1)},
        "stride_w 2 instead of 1": {"stride": (2, 2)},
        "dilation 1 too large": {"dilation": (2, 2)},
        "dilation_h 2 instead of 1": {"dilation": (2, 1)},
        "dilation_w 2 instead of 1": {"dilation": (1, 2)},
        "kernel 2x3 instead of 3x2": {"kernel": (2, 3)},
        "kernel 1": {"kernel": (1, 1)},
        "kernel 1 too small": {"kernel": (2, 1)},
        "kernel_h 2 instead of 3": {"kernel": (2, 2)},
        "kernel_w 1 instead of 2": {"kernel": (3, 1)},
        "kernel 1 too large": {"kernel": (4, 3)},
        "kernel_h 4 instead of 3": {"kernel": (4, 2)},
        "kernel_w 3 instead of 2": {"kernel": (3, 3)},
    }
    variants = found("window", case)
    assert variants.keys() == {f"window: {said}" for said in changes}
    fitting = 0
    for said, change in changes.items():
        value = pool(x, **POOL | change)
        if np.isfinite(value).all():  # else what it gives is not said
            fitting += 1
            assert np.array_equal(variants[f"window: {said}"].make(case), value), said
    assert fitting > 12


def test_pad_value_of_a_pool() -> None:
    small, x = pooled()
    small.inputs["x"] = x = np.minimum(x, -20).astype(np.int8)
    case = small_case(small, pool(x, **POOL).astype(np.int8))
    said = "pad value {} instead of the zero point"
    wanted = {said.format(v): pool(x, **POOL, fill=v).astype(np.int8) for v in range(-128, 128)}
    check("pad-value", case, wanted, {said.format(v): 8.0 for v in range(-127, 127) if v != 0})


@pytest.mark.parametrize("mode", [0, 1, 2])
def test_pad_modes(mode: int) -> None:
    x = generator(2).integers(-128, 128, (3, 4)).astype(np.int8)
    names = {0: "constant", 1: "reflected", 2: "repeated edge"}
    ways = {0: {"mode": "constant", "constant_values": 9}, 1: {"mode": "reflect"}, 2: {"mode": "edge"}}
    made = {m: np.pad(x, ((1, 2), (2, 1)), **how) for m, how in ways.items()}
    small = Small("pad", (mode, 9, 1, 2), ("int8", 0.5, 0), (6, 7), x=(x, 0.5, 0))
    recorded = made[mode].copy()
    recorded[0, :2] = (5, 6)
    case = small_case(small, recorded)
    wanted = {f"pad mode {names[m]}": made[m] for m in names if m != mode}
    values = {f"pad value {v} instead of 9": np.pad(x, ((1, 2), (2, 1)), constant_values=v) for v in (5, 6)}
    check("pad-value", case, wanted | (values if mode == 0 else {}), dict.fromkeys(values, 8.0))


def test_resize_to_the_nearest() -> None:
    x = generator(8).permutation(105).astype(np.uint8).reshape(1, 3, 5, 7)
    own = [sources(n, m, POSITIONS["asymmetric"], floor) for n, m in ((5, 10), (7, 9))]
    index = np.array([0, 0, 1, 2, *own[0], *own[1]], np.int32)
    small = Small("resize_nearest", (), ("uint8", 0.1, 9), (1, 3, 10, 9), x=(x, 0.1, 9), c_index=(index,))
    wanted = {}
    for coordinates, position in POSITIONS.items():
        for name, mode in MODES.items():
            rows, columns = (sources(n, m, position, mode) for n, m in ((5, 10), (7, 9)))
            wanted[f"resize: {coordinates}, {name}"] = x[:, :, rows][..., columns]
    for by, said in ((-1, "early"), (1, "far")):
        rows, columns = ([min(max(i + by, 0), n - 1) for i in o] for o, n in zip(own, (5, 7), strict=True))
        wanted[f"resize: source 1 too {said}"] = x[:, :, rows][..., columns]
    case = small_case(small, x[:, :, own[0]][..., own[1]])
    assert case.differing.size == 0
    check("resize-mode", case, wanted)


def taps(size: int, out: int, position: Any) -> tuple[list[int], list[int], list[float]]:
    """First and second source, and the share of the second."""
    places = [min(max(position(at, size, out), 0), size - 1) for at in range(out)]
    first = [floor(p) for p in places]
    return first, [min(i + 1, size - 1) for i in first], [p - i for p, i in zip(places, first, strict=True)]


def linearly(x: Array, position: Any) -> Array:
    value = x.astype(np.float64)
    for axis, out in ((2, 6), (3, 8)):
        first, second, share = taps(x.shape[axis], out, position)
        share = np.array(share).reshape([-1 if i == axis else 1 for i in range(4)])
        value = value.take(first, axis) * (1 - share) + value.take(second, axis) * share
    return value


def test_resize_by_interpolation() -> None:
    x = generator(3).integers(-100, 100, (1, 2, 3, 4)).astype(np.int8)
    index, weight = [], []
    for size, out in ((3, 6), (4, 8)):
        first, second, share = taps(size, out, POSITIONS["half_pixel"])
        index += [first, second]
        weight += [[0.5 if a == b else 1 - s for a, b, s in zip(first, second, share, strict=True)],
                   [0.5 if a == b else s for a, b, s in zip(first, second, share, strict=True)]]  # fmt: skip
    small = Small(
        "resize_linear", (0,), ("int8", 1.0, 0), (1, 2, 6, 8), x=(x, 1.0, 0),
        c_index=(np.concatenate(index).astype(np.int32),), c_weight=(np.concatenate(weight).astype(np.float32),),
    )  # fmt: skip
    case = small_case(small, np.rint(linearly(x, POSITIONS["half_pixel"])).astype(np.int8))
    assert case.differing.size == 0
    variants = found("resize-mode", case)
    wanted = {"resize: cut off instead of rounded": np.trunc(linearly(x, POSITIONS["half_pixel"]))}
    for name, position in POSITIONS.items():
        if name != "align_corners":  # thirds are not exact in binary
            wanted[f"resize: {name}"] = np.rint(linearly(x, position))
        for mode, rounded in MODES.items():
            rows, columns = (sources(n, m, position, rounded) for n, m in ((3, 6), (4, 8)))
            wanted[f"resize: nearest ({name}, {mode}) instead of linear"] = x[:, :, rows][..., columns]
    assert variants.keys() == wanted.keys() | {"resize: align_corners"}
    for said, value in wanted.items():
        assert np.array_equal(variants[said].make(case), value.astype(np.int8)), said
    corners = variants["resize: align_corners"].make(case).astype(float)
    assert np.abs(corners - linearly(x, POSITIONS["align_corners"])).max() <= 0.501


@pytest.mark.parametrize("zero", [-128, 127])
def test_pad_value_at_the_other_end_of_the_type(zero: int) -> None:
    x = generator(2).integers(-128, 128, (1, 2, 4, 5)).astype(np.int8)
    w = np.array([[[[0, 1, 0], [1, 0, 2], [0, -1, 0]]] * 2], np.int8)
    other = -1 - zero

    def out(pad: int) -> Array:
        wide = np.pad(x[0].astype(int), ((0, 0), (1, 1), (1, 1)), constant_values=pad) - zero
        taps = np.stack([wide[:, i : i + 4, j : j + 5] for i in range(3) for j in range(3)], 1)
        total = np.einsum("ct,cthw->hw", w.reshape(2, 9), taps)
        return np.clip(np.rint(total.astype(np.float32) * np.float32(0.03)), -128, 127).astype(np.int8)[None, None]

    small = Small(
        "conv", (3, 3, 1, 1, 1, 1, 1, 1, 1, 1, 1, -128, 127), ("int8", 1.0, 0), (1, 1, 4, 5),
        x=(x, 1.0, zero), c_w=(w, 1.0, 0), c_b=(np.zeros(1, np.int32),), c_rq=(np.float32([0.03]),),
    )  # fmt: skip
    case = small_case(small, out(other))
    assert np.array_equal(case.healthy, out(zero))
    said = f"pad value {other} instead of the zero point"
    variants = found("pad-value", case)
    assert variants[said].bits == 0 and np.array_equal(variants[said].make(case), out(other))


def test_pad_value_where_every_element_that_differs_is_saturated() -> None:
    c = Conv()
    c.rq = c.rq * np.float32(1000)
    recorded = c.out(c.acc(pad=127))
    case = case_of(c, recorded)
    assert set(recorded.reshape(-1)[case.differing].tolist()) <= {-128, 127}
    assert len(found("pad-value", case)) == 4  # of many


def test_no_pad_value_without_padding() -> None:
    small, _ = pooled()
    node = small.graph.nodes[0]
    small.graph.nodes[0] = replace(node, words=(*node.words[:4], 0, 0, 0, 0, *node.words[8:]))
    assert found("pad-value", small_case(small, np.zeros((1, 3, 5, 6), np.int8))) == {}


@pytest.mark.parametrize(
    ("dtype", "values"),
    [("int16", [0, -32768, 32767]), ("uint16", [0, 65535]), ("float32", [0]), ("uint8", [*range(256)])],
)
def test_pad_values_of_a_pool_by_type(dtype: str, values: list[int]) -> None:
    quantization = () if dtype == "float32" else (0.1, 9)
    x = generator(7).integers(0, 99, (1, 3, 10, 6)).astype(dtype)
    small = Small("max_pool", (3, 2, 2, 1, 1, 0, 0, 1, 1, 1), (dtype, *(quantization or (0, 0))), (1, 3, 5, 6),
                  x=(x, *quantization))  # fmt: skip
    case = small_case(small, np.zeros((1, 3, 5, 6), dtype))
    variants = found("pad-value", case)
    assert list(variants) == [f"pad value {v} instead of the zero point" for v in values]
    assert np.array_equal(variants[f"pad value {values[-1]} instead of the zero point"].make(case)[0, :, 1:, :5],
                          pool(x, **POOL)[0, :, 1:, :5].astype(dtype))  # fmt: skip


def test_at_most_four_values_of_a_pad() -> None:
    x = generator(2).integers(-128, 128, (3, 4)).astype(np.int8)
    small = Small("pad", (0, 9, 1, 2), ("int8", 0.5, 0), (6, 7), x=(x, 0.5, 0))
    recorded = np.pad(x, ((1, 2), (2, 1)), constant_values=9)
    recorded[0, :5] = (8, 7, 6, 5, 4)
    assert [s for s in found("pad-value", small_case(small, recorded)) if "value" in s] == [
        f"pad value {v} instead of 9" for v in (4, 5, 6, 7)
    ]


@pytest.mark.parametrize("counted", [0, 1])
def test_padding_that_is_counted_in_a_mean(counted: int) -> None:
    """Windows of 2 by 2, a corner of which reads one element and three of padding."""
    x = generator(4).integers(-128, 128, (1, 2, 4, 6)).astype(np.int8)
    small = Small(
        "average_pool", (2, 2, 2, 2, 1, 1, 1, 1, counted, -128, 127), ("int8", 1.0, 4), (1, 2, 3, 4),
        x=(x, 0.5, -7), c_rq=(np.array([0.5, 1.0], np.float32),),
    )  # fmt: skip

    def mean(include: int) -> Array:
        wide = np.pad(x[0].astype(int) + 7, ((0, 0), (1, 1), (1, 1)))
        read = np.pad(np.ones((1, 4, 6), int), ((0, 0), (1, 1), (1, 1)))
        total, count = (v.reshape(-1, 3, 2, 4, 2).sum((2, 4)) for v in (wide, read))
        return (np.rint(total * 0.5 / (4 if include else count)) + 4).astype(np.int8)[None]

    case = small_case(small, mean(counted))
    assert case.differing.size == 0
    variant = found("window", case)["window: padding is counted in the mean, or not, the other way"]
    assert np.array_equal(variant.make(case), mean(1 - counted))


@pytest.mark.parametrize(("value", "some"), [(ZX + 255, True), (ZX + 256, False), (ZX - 255, True), (ZX - 256, False)])
def test_how_far_from_the_zero_point_a_pad_value_may_be(value: int, some: bool) -> None:
    """It may be as far away as two values of the type may be apart."""
    c = Conv()
    recorded = c.out(c.acc(pad=value))
    case = case_of(c, recorded)
    wanted = {f"pad value {value} instead of the zero point": recorded} if some else {}
    check("pad-value", case, wanted, dict.fromkeys(wanted, 8.0))


def test_no_pad_value_of_a_transposed_convolution() -> None:
    """It pads nothing: what it calls padding is cut off."""
    rng = generator(3)
    x, w = (rng.integers(-128, 128, s).astype(np.int8) for s in ((1, 2, 3, 4), (2, 1, 3, 3)))
    small = Small(
        "conv_transpose", (3, 3, 1, 1, 1, 1, 1, 1, 1, 1, 1, -128, 127), ("int8", SY, ZY), (1, 1, 3, 4),
        x=(x, SX, ZX), c_w=(w, 0.01, 0), c_b=(np.zeros(1, np.int32),), c_rq=(np.float32([0.0004]),),
    )  # fmt: skip
    recorded = small_case(small, np.zeros((1, 1, 3, 4), np.int8)).healthy ^ np.int8(1)
    assert found("pad-value", small_case(small, recorded)) == {}


@pytest.mark.parametrize("sizes", [(5, 1), (5, 2), (5, 3), (1, 1), (1, 4), (3, 7)])
def test_where_a_resize_reads(sizes: tuple[int, int]) -> None:
    for name, position in PAGES["resize-mode"].COORDINATES.items():  # type: ignore[attr-defined]
        wanted = [POSITIONS[name](at, *sizes) for at in range(sizes[1])]
        assert position(*sizes).tolist() == pytest.approx(wanted), name


def test_the_window_of_a_convolution() -> None:
    """Its kernel is the weights' and no word's fault."""
    c = Conv()
    wanted = {f"it starts one {line} {way}" for line in ("row", "column") for way in ("earlier", "further")}
    wanted |= {"no padding of rows", "no padding of columns", "no padding"}
    for name in ("stride", "dilation"):
        wanted |= {f"{name} 1 too large", f"{name}_h 2 instead of 1", f"{name}_w 2 instead of 1"}
    variants = found("window", case_of(c))
    assert variants.keys() == {f"window: {said}" for said in wanted}
    later = c.out(np.pad(c.acc(), ((0, 0), (0, 1), (0, 0)))[:, 1:])
    made = variants["window: it starts one row earlier"].make(case_of(c))
    assert np.array_equal(made[:, :, :8], later[:, :, :8])


def test_a_pad_value_explains_all_that_reads_padding() -> None:
    """And nothing else: what reads none may differ, or be all that does."""
    c = Conv()
    padded, other = c.out(c.acc(pad=77)), c.out(c.acc(pad=20))
    said = "pad value 77 instead of the zero point"
    beside = padded.copy()
    beside[0, 2, 4, 5] ^= 1
    assert list(found("pad-value", case_of(c, beside))) == [said]
    inside = c.out()
    inside[0, 2, 4, 5] ^= 1
    assert found("pad-value", case_of(c, inside)) == {}
    one, two = c.out(), c.out()
    places = [i for i in np.flatnonzero(padded != other) if padded.flat[i] != c.out().flat[i] != other.flat[i]]
    first, second = (int(i) for i in places[:2])
    one.flat[first], one.flat[second] = padded.flat[first], padded.flat[second]
    two.flat[first], two.flat[second] = padded.flat[first], -1 - int(padded.flat[second])
    assert said in found("pad-value", case_of(c, one)) and said not in found("pad-value", case_of(c, two))
