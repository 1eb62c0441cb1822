"""Units of which every fault is known in plain numpy, and how all faults of a family are checked on one."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from math import ceil, floor
from typing import Any

import numpy as np
import pytest
from qverify.model_bin.units import units
from qverify.triage.case import Case
from qverify.triage.hypotheses import FaultVariant, pages

from tests.plain.forensic_units import SX, SY, ZX, ZY, Conv, Small, generator

Array = Any


Way = Callable[[Array], Array]


ZERO = 3


PAGES = {page.NAME: page for page in pages()}


class Table:
    """y = table[x + 128], int8; every value of the table is another, so that no two orders give the same."""

    def __init__(self, *shape: int):
        self.x = generator(5).permutation(np.resize(np.arange(-128, 128), int(np.prod(shape)))).astype(np.int8)
        self.x = self.x.reshape(shape)
        self.table = generator(6).permutation(np.arange(-128, 128)).astype(np.int8)
        self.unit = Small("lookup", (), ("int8", 0.5, ZERO), shape, x=(self.x, 0.5, ZERO), c_table=(self.table,))
        self.y = self.read(self.x)

    def read(self, x: Array, table: Array | None = None) -> Array:
        return (self.table if table is None else table)[x.astype(np.int64) + 128]

    def case(self, recorded: Array, **more: Any) -> Case:
        graph = self.unit.graph
        return Case(graph, units(graph)[0], {"x": self.x}, "y", recorded, **more)

    def under(self, place: str, way: Way) -> Array:
        """The output when the elements of that tensor are the transformed ones."""
        if place == "the output":
            return way(self.y)
        return self.read(way(self.x)) if place == "the input" else self.read(self.x, way(self.table))


def found(family: str, case: Case) -> dict[str, FaultVariant]:
    every = list(PAGES[family].variants(case))
    twice = family == "zero-point"  # the output's, before and after the clamp
    assert len({v.text for v in every}) == len(every) - twice
    return {v.text: v for v in every}


def check(family: str, case: Case, wanted: dict[str, Array], bits: dict[str, float] | None = None) -> None:
    """All faults of the family on this case, each with its output and the bits of its choice."""
    variants = found(family, case)
    assert variants.keys() == wanted.keys()
    for said, variant in variants.items():
        made = np.asarray(variant.make(case))
        assert (made.dtype, made.shape) == (wanted[said].dtype, wanted[said].shape), said
        assert made.tobytes() == np.ascontiguousarray(wanted[said]).tobytes(), said
        assert variant.bits == pytest.approx((bits or {}).get(said, 0.0)), said


def each(unit: Table, places: Iterable[str], ways: dict[str, Way], text: str = "{place} {way}") -> dict[str, Array]:
    return {text.format(place=p, way=said): unit.under(p, way) for p in places for said, way in ways.items()}


BOTH = ("the output", "the input")


ALL = (*BOTH, "the table")


def copy_of(y: Array, target: Any, source: Any) -> Array:
    made = y.copy()
    made[target] = y[source]
    return made


def filled(y: Array, target: Any, value: int) -> Array:
    made = y.copy()
    made[target] = value
    return made


NAN, INF, MAX, TINY = np.nan, np.inf, np.finfo(np.float32).max, np.float32(1e-40)


SCRUBBED = {
    "NaN becomes 0": [0, INF, -INF, -0.0, TINY, -TINY, 1.5],
    "NaN becomes the largest number": [MAX, INF, -INF, -0.0, TINY, -TINY, 1.5],
    "NaN becomes the smallest number": [-MAX, INF, -INF, -0.0, TINY, -TINY, 1.5],
    "NaN becomes infinity": [INF, INF, -INF, -0.0, TINY, -TINY, 1.5],
    "NaN and infinity become 0": [0, 0, 0, -0.0, TINY, -TINY, 1.5],
    "infinity becomes the largest number": [NAN, MAX, -MAX, -0.0, TINY, -TINY, 1.5],
    "NaN becomes 0, infinity the largest number": [0, MAX, -MAX, -0.0, TINY, -TINY, 1.5],
    "infinity becomes NaN": [NAN, NAN, NAN, -0.0, TINY, -TINY, 1.5],
    "negative zero becomes zero": [NAN, INF, -INF, 0.0, TINY, -TINY, 1.5],
    "subnormal numbers become zero": [NAN, INF, -INF, -0.0, 0.0, -0.0, 1.5],
}


def case_of(c: Conv, recorded: Array | None = None, **more: Any) -> Case:
    graph = c.graph()
    return Case(graph, units(graph)[0], {"x": c.x}, "y", c.out() if recorded is None else recorded, **more)


def small_case(small: Small, recorded: Array) -> Case:
    return Case(small.graph, units(small.graph)[0], small.inputs, "y", recorded)


def among(family: str, case: Case, wanted: dict[str, Array], bits: float = 0.0) -> None:
    """These faults of the family, with these bits of choice."""
    variants = found(family, case)
    assert wanted.keys() <= variants.keys(), variants.keys()
    for said, value in wanted.items():
        assert np.array_equal(variants[said].make(case), value), said
        assert variants[said].bits == pytest.approx(bits), said


class Dense:
    """y [2, 3] of x [2, 5], w [3, 5] of zero point 4; ref-exact."""

    def __init__(self) -> None:
        rng = generator(4)
        self.x = rng.integers(-128, 128, (2, 5)).astype(np.int8)
        self.w = rng.integers(-128, 128, (3, 5)).astype(np.int8)
        self.b, self.rq = np.array([90, -700, 5], np.int32), np.array([0.004, 0.002, 0.003], np.float32)
        self.small = Small(
            "fully_connected", (-128, 127), ("int8", SY, ZY), (2, 3),
            x=(self.x, SX, ZX), c_w=(self.w, 0.01, 4), c_b=(self.b,), c_rq=(self.rq,),
        )  # fmt: skip

    def out(self, w: Array | None = None, zero: int = 4) -> Array:
        centred = (self.w if w is None else w).astype(np.int64) - zero
        acc = (self.x.astype(np.int64) - ZX) @ centred.T + self.b
        return np.clip(np.rint(acc.astype(np.float32) * self.rq) + ZY, -128, 127).astype(np.int8)


def pool(x: Array, kernel: Any, stride: Any, pads: Any, dilation: Any = (1, 1), fill: float = -np.inf) -> Array:
    """Largest of each window, 5 by 6 of them; -inf where a window reads nothing. pads: top, left, bottom, right."""
    wide = np.pad(x[0].astype(float), ((0, 0), (pads[0], pads[2]), (pads[1], pads[3])), constant_values=fill)
    wide = np.pad(wide, ((0, 0), (0, 20), (0, 20)), constant_values=-np.inf)
    made = np.empty((len(wide), 5, 6))
    for i in range(5):
        for j in range(6):
            rows = [i * stride[0] + k * dilation[0] for k in range(kernel[0])]
            columns = [j * stride[1] + k * dilation[1] for k in range(kernel[1])]
            made[:, i, j] = wide[:, rows][:, :, columns].max((1, 2))
    return made[None]


POOL = {"kernel": (3, 2), "stride": (2, 1), "pads": (1, 0, 0, 1), "dilation": (1, 1)}


def pooled() -> tuple[Small, Array]:
    x = generator(7).integers(-128, 128, (1, 3, 10, 6)).astype(np.int8)
    words = (3, 2, 2, 1, 1, 0, 0, 1, 1, 1)
    return Small("max_pool", words, ("int8", 0.1, 9), (1, 3, 5, 6), x=(x, 0.1, 9)), x


def signed(v: Array, rounded: Callable[[Array], Array]) -> Array:
    return np.where(v < 0, -rounded(-v), rounded(v))


RULES: dict[str, Callable[[Array], Array]] = {
    "to the nearest, ties to even": lambda v: np.round(v),
    "to the nearest, ties away from zero": lambda v: signed(v, lambda u: (u + 0.5) // 1),
    "to the nearest, ties up": lambda v: (v + 0.5) // 1,
    "to the nearest, ties down": lambda v: -((0.5 - v) // 1),
    "to the nearest, ties toward zero": lambda v: signed(v, lambda u: -((0.5 - u) // 1)),
    "down (floor)": lambda v: v // 1,
    "toward zero": lambda v: signed(v, lambda u: u // 1),
    "up (ceiling)": lambda v: -(-v // 1),
    "away from zero": lambda v: signed(v, lambda u: -(-u // 1)),
}


POSITIONS: dict[str, Callable[[int, int, int], float]] = {
    "half_pixel": lambda at, size, out: (at + 0.5) * size / out - 0.5,
    "asymmetric": lambda at, size, out: at * size / out,
    "align_corners": lambda at, size, out: at * (size - 1) / (out - 1) if out > 1 else 0.0,
    "half_pixel rounded to a source of its own (+0.5)": lambda at, size, out: (at + 0.5) * size / out,
}


MODES: dict[str, Callable[[float], int]] = {
    "floor": floor,
    "ceil": ceil,
    "round_prefer_floor": lambda p: ceil(p - 0.5),
    "round_prefer_ceil": lambda p: floor(p + 0.5),
}


def sources(size: int, out: int, position: Callable[..., float], mode: Callable[[float], int]) -> list[int]:
    return [min(max(mode(position(at, size, out)), 0), size - 1) for at in range(out)]
