"""Faults of order: elements, bytes, axes, channels, groups and tiles in another one; each family's faults, all of them and no other."""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations
from math import log2
from typing import Any

import numpy as np
import pytest
from qverify.model_bin.graph import Node
from qverify.model_bin.units import units
from qverify.tensors.spec import TensorSpec
from qverify.triage.case import Case

from tests.plain.fault_units import ALL, BOTH, ZERO, Table, Way, check, each, found
from tests.plain.forensic_units import Small, generator

Array = Any


def late(by: int, fill: Callable[[Array], int]) -> Way:
    """by: elements too late; too early where negative."""

    def way(v: Array) -> Array:
        flat = list(v.reshape(-1))
        moved = [fill(flat)] * by + flat[:-by] if by > 0 else flat[-by:] + [fill(flat)] * -by
        return np.array(moved, v.dtype).reshape(v.shape)

    return way


def rolled(by: int) -> Way:
    return lambda v: np.array([v.reshape(-1)[(i - by) % v.size] for i in range(v.size)]).reshape(v.shape)


def test_element_offset() -> None:
    unit = Table(1, 4, 3, 5)
    wanted: dict[str, Array] = {}
    for place in ALL:
        steps = [1, 4] if place == "the table" else [1, 2, 3, 4, 5, 8, 15, 16, 32]
        for by in [s * sign for s in steps for sign in (1, -1)]:
            said = f"offset: {place} {abs(by)} element{'s' if abs(by) > 1 else ''} too {'late' if by > 0 else 'early'}"
            fills = {"0 there": lambda f: 0, "the end repeated": lambda f, by=by: f[0] if by > 0 else f[-1]}
            if place != "the table":
                fills["the zero point there"] = lambda f: ZERO
            wanted[f"{said}, wrapped around"] = unit.under(place, rolled(by))
            wanted |= {f"{said}, {way}": unit.under(place, late(by, fill)) for way, fill in fills.items()}
    check("element-offset", unit.case(unit.y), wanted)


def words(size: int, order: Callable[[list[int]], list[int]]) -> Way:
    """Elements in another order within every whole word of so many bytes."""

    def way(v: Array) -> Array:
        flat = v.reshape(-1).view(np.uint8).tolist()
        whole = len(flat) // size * size
        turned = [b for at in range(0, whole, size) for b in order(flat[at : at + size])]
        return np.array(turned + flat[whole:], np.uint8).view(v.dtype).reshape(v.shape)

    return way


def backward(word: list[int]) -> list[int]:
    return word[::-1]


def exchanged(word: list[int]) -> list[int]:
    return word[len(word) // 2 :] + word[: len(word) // 2]


def test_byte_order_of_bytes() -> None:
    unit = Table(1, 4, 3, 5)
    ways: dict[str, Way] = {f" reversed within words of {s} bytes": words(s, backward) for s in (2, 4, 8, 16)}
    ways |= {f", halves of words of {s} bytes exchanged": words(s, exchanged) for s in (4, 8, 16)}
    ways[", nibbles exchanged"] = words(1, lambda w: [w[0] >> 4 | w[0] << 4 & 0xF0])
    check("byte-order", unit.case(unit.y), each(unit, ALL, ways, "byte order: {place}{way}"))


def test_byte_order_of_16_bits() -> None:
    x = generator(1).integers(-30000, 30000, (3, 7)).astype(np.int16)
    unit = Small("reshape", (), ("int16", 0.5, 0), (7, 3), x=(x, 0.5, 0))
    ways: dict[str, Way] = {" is big-endian": words(2, backward)}
    ways |= {f" reversed within words of {s} bytes": words(s, backward) for s in (4, 8, 16)}
    wanted = {f"byte order: {p}{w}": way(x).reshape(7, 3) for p in BOTH for w, way in ways.items()}
    case = Case(unit.graph, units(unit.graph)[0], unit.inputs, "y", x.reshape(7, 3))
    check("byte-order", case, wanted)


def stored(order: tuple[int, ...], shape: tuple[int, ...]) -> Way:
    def way(v: Array) -> Array:
        other = np.empty([shape[i] for i in order], v.dtype)
        for at in np.ndindex(*shape):
            other[tuple(at[i] for i in order)] = v.reshape(shape)[at]
        return other.reshape(v.shape)

    return way


def read(order: tuple[int, ...], shape: tuple[int, ...]) -> Way:
    def way(v: Array) -> Array:
        other, back = v.reshape([shape[i] for i in order]), np.empty(shape, v.dtype)
        for at in np.ndindex(*shape):
            back[at] = other[tuple(at[i] for i in order)]
        return back.reshape(v.shape)

    return way


def layouts(names: dict[tuple[int, ...], str], shape: tuple[int, ...]) -> dict[str, Way]:
    ways: dict[str, Way] = {f"is stored {n}": stored(o, shape) for o, n in names.items()}
    return ways | {f"is read as if it were {n}": read(o, shape) for o, n in names.items()}


def test_layout() -> None:
    names = {(0, 1, 3, 2): "NCWH", (0, 2, 1, 3): "axis order (0, 2, 1, 3)", (0, 2, 3, 1): "NHWC"}
    names |= {o: f"axis order {o}" for o in ((0, 3, 1, 2), (0, 3, 2, 1))}
    unit = Table(1, 4, 3, 5)
    check("layout", unit.case(unit.y), each(unit, BOTH, layouts(names, unit.x.shape), "layout: {place} {way}"))
    flat = Table(4, 3)
    check(
        "layout", flat.case(flat.y), each(flat, BOTH, layouts({(1, 0): "transposed"}, (4, 3)), "layout: {place} {way}")
    )
    line = Table(12)
    assert found("layout", line.case(line.y)) == {}


def test_layout_before_a_tensor_was_flattened() -> None:
    unit = Table(1, 12)
    graph = unit.unit.graph
    graph.tensors["a"] = TensorSpec("a", "int8", (1, 3, 4), (), (0.5,), (ZERO,))
    graph.nodes.insert(0, Node("x", "reshape", ("a",), ("x",)))
    graph.inputs = ("a",)
    case = Case(graph, units(graph)[1], {"x": unit.x}, "y", unit.y)
    wanted = each(unit, ["the input"], layouts({(0, 2, 1): "NWC"}, (1, 3, 4)), "layout: {place} {way}")
    check("layout", case, wanted)


def test_layout_of_axes_of_one_and_two() -> None:
    """An axis of one is nowhere else; one of two is."""
    unit = Table(2, 1, 3)
    wanted = each(unit, BOTH, layouts({(1, 2, 0): "axis order (1, 2, 0)"}, (2, 1, 3)), "layout: {place} {way}")
    check("layout", unit.case(unit.y), wanted)


def taken(order: list[int]) -> Way:
    return lambda v: np.stack([v[:, i] for i in order], 1)


def test_channel_order() -> None:
    unit = Table(1, 10, 3, 2)
    orders = {
        "in reverse order": [9, 8, 7, 6, 5, 4, 3, 2, 1, 0],
        "one too far": [9, 0, 1, 2, 3, 4, 5, 6, 7, 8],
        "one too early": [1, 2, 3, 4, 5, 6, 7, 8, 9, 0],
        "exchanged in pairs": [1, 0, 3, 2, 5, 4, 7, 6, 9, 8],
        "reversed in fours": [3, 2, 1, 0, 7, 6, 5, 4, 8, 9],
        "reversed in eights": [7, 6, 5, 4, 3, 2, 1, 0, 8, 9],
    }
    wanted = each(unit, BOTH, {said: taken(o) for said, o in orders.items()}, "channels of {place} {way}")
    recorded = unit.y.copy()
    recorded[0, [2, 7], 1, 1] += 1
    pair = "channels of the output: 2 and 7 are exchanged"
    swap = unit.under("the output", taken([0, 1, 7, 3, 4, 5, 6, 2, 8, 9]))
    check("channel-order", unit.case(recorded), {**wanted, pair: swap}, {pair: log2(45)})
    recorded[0, 4] += 1  # three channels differ
    check("channel-order", unit.case(recorded), wanted)


def test_every_two_of_few_channels() -> None:
    unit = Table(2, 3)
    orders = {"in reverse order": [2, 1, 0], "one too far": [2, 0, 1], "one too early": [1, 2, 0]}
    orders["exchanged in pairs"] = [1, 0, 2]
    wanted = each(unit, BOTH, {said: taken(o) for said, o in orders.items()}, "channels of {place} {way}")
    for a, b in combinations(range(3), 2):
        order = [b if i == a else a if i == b else i for i in range(3)]
        wanted[f"channels of the input: {a} and {b} are exchanged"] = unit.under("the input", taken(order))
    check("channel-order", unit.case(unit.y), wanted)


@pytest.mark.parametrize(("channels", "pairs"), [(8, 28), (9, 0)])
def test_every_two_of_at_most_eight_channels(channels: int, pairs: int) -> None:
    unit = Table(1, channels, 2)
    assert sum("are exchanged" in said for said in found("channel-order", unit.case(unit.y))) == pairs


def test_no_channels_of_one_axis() -> None:
    line = Table(12)
    for family in ("channel-order", "group-order"):
        assert found(family, line.case(line.y)) == {}


def test_group_order() -> None:
    unit, wanted = Table(1, 12, 2, 1), {}
    for groups in (2, 3, 4, 6):
        each_has = 12 // groups
        members = [list(range(g * each_has, (g + 1) * each_has)) for g in range(groups)]
        orders = {
            "shuffled: the first of every group, then the second ...": list(zip(*members, strict=True)),
            "in reverse order of groups": members[::-1],
            "one group too far": [members[-1], *members[:-1]],
            "one group too early": [*members[1:], members[0]],
        }
        ways = {f"{groups} groups: {said}": taken([i for g in o for i in g]) for said, o in orders.items()}
        wanted |= each(unit, BOTH, ways, "channels of {place}, {way}")
    check("group-order", unit.case(unit.y), wanted)


def dealt(run: int, ways: int) -> list[int]:
    return [i for first in range(ways) for i in range(first, run, ways)]


def in_order(order: list[int]) -> Way:
    """Returns a function that puts every run of elements into this order."""
    return lambda v: np.array([r[order] for r in v.reshape(-1, len(order))]).reshape(v.shape)


@pytest.mark.parametrize("moved", [True, False])
def test_interleaving(moved: bool) -> None:
    """Interleaving of the output is tried only if it holds the computed elements in some order."""
    unit, wanted = Table(1, 3, 4, 6), {}
    for place, every in (("the output", (2, 3, 4, 8, 16, 32)), ("the input", (2, 4))):
        for said, run in (("the whole", 72), ("planes", 24), ("rows", 6)):
            for ways in (w for w in every if w < run):
                apart = dealt(run, ways)
                for text, order in (("dealt apart", apart), ("interleaved", [apart.index(i) for i in range(run)])):
                    if moved or place == "the input":
                        name = f"elements of {said} of {place} are {text} {ways} ways"
                        wanted[name] = unit.under(place, in_order(order))
    recorded = unit.y.reshape(-1)[::-1].reshape(unit.y.shape) if moved else np.zeros_like(unit.y)
    check("interleaving", unit.case(recorded), wanted)


def turned(rows: int, columns: int, size: int, whole: bool) -> list[int]:
    order = list(range(rows * columns))
    for row in range(rows):
        for column in range(columns):
            top, left = row // size * size, column // size * size
            source = (top + column - left, left + row - top)
            fits = (
                top + size <= rows and left + size <= columns if whole else source < (rows, 0) and source[1] < columns
            )
            if fits:
                order[row * columns + column] = source[0] * columns + source[1]
    return order


def test_tiles() -> None:
    unit, wanted = Table(1, 2, 5, 6), {}
    for size in (2, 4, 8):
        texts = {"whole tiles": True, "tiles, at the edge as much as is square,": False}
        for said, whole in texts.items():
            order = turned(5, 6, size, whole)
            if order != list(range(30)):
                ways = {f"{said} of {size}x{size}": in_order(order)}
                wanted |= {f"{w} of {p} are transposed": unit.under(p, way) for p in BOTH for w, way in ways.items()}
    for size in (16, 32, 64):  # one tile that is larger than the plane: what of it is square
        way = in_order(turned(5, 6, size, False))
        text = f"tiles, at the edge as much as is square, of {size}x{size}"
        wanted |= {f"{text} of {p} are transposed": unit.under(p, way) for p in BOTH}
    check("tiles", unit.case(unit.y.reshape(-1)[::-1].reshape(unit.y.shape)), wanted)
    inputs = {said: v for said, v in wanted.items() if "the input" in said}
    check("tiles", unit.case(np.zeros_like(unit.y)), inputs)
    row = Table(1, 3, 1, 9)
    assert found("tiles", row.case(row.y)) == {}
    even = Table(4, 4)
    assert not [
        said for said in found("tiles", even.case(even.y)) if "square, of 2x2" in said or "square, of 4x4" in said
    ]


@pytest.mark.parametrize(
    ("channels", "groups"),
    [(2, set()), (4, {2}), (9, {3}), (10, {2, 5}), (22, {2, 11}), (26, {2, 13}), (5, set()),
     (120, {2, 3, 4, 5, 6, 8, 10, 12, 15, 20, 24, 30, 40, 60}),
     (39, {3, 13}), (78, {2, 3, 6, 13, 26, 39}), (156, {2, 3, 4, 6, 12, 13, 26, 39, 52, 78}),
     (208, {2, 4, 8, 13, 16, 26, 52, 104}), (312, {2, 3, 4, 6, 8, 12, 13, 24, 26, 39, 52, 78, 104, 156}),
     (832, {2, 4, 8, 13, 16, 26, 32, 52, 64, 104, 208, 416}),
     (1664, {2, 4, 8, 13, 16, 26, 32, 52, 64, 104, 128, 208, 416, 832}),
     (384, {2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192})],
)  # fmt: skip
def test_how_many_groups_channels_may_have(channels: int, groups: set[int]) -> None:
    unit = Table(1, channels, 2, 1)
    said = [s for s in found("group-order", unit.case(unit.y)) if "the output" in s]
    assert {int(s.split(", ")[1].split()[0]) for s in said} == groups and len(said) == 4 * len(groups)


def test_offsets_are_smaller_than_the_tensor() -> None:
    unit = Table(4)
    said = {s.split(" element")[0] for s in found("element-offset", unit.case(unit.y[::-1])) if "the output" in s}
    assert said == {f"offset: the output {by}" for by in (1, 2, 3)}


def test_a_tensor_of_one_axis_has_no_tiles() -> None:
    unit = Table(12)
    assert found("tiles", unit.case(unit.y[::-1])) == {}


@pytest.mark.parametrize(
    ("shape", "runs"), [((2, 3, 8), ["the whole", "planes"]), ((12,), ["the whole"]), ((2, 5), ["the whole", "rows"])]
)
def test_runs_of_one_length_are_dealt_once(shape: tuple[int, ...], runs: list[str]) -> None:
    unit = Table(*shape)
    said = found("interleaving", unit.case(unit.y.reshape(-1)[::-1].reshape(shape)))
    assert list(dict.fromkeys(s.removeprefix("elements of ").split(" of the ")[0] for s in said)) == runs
