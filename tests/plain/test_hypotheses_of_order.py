"""Faults of order and memory: each family's faults on one small unit, all of them and no other, each as plain numpy makes it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import combinations
from math import comb, log2
from typing import Any

import numpy as np
import pytest
from qverify.model_bin.graph import Graph, Node
from qverify.model_bin.units import units
from qverify.tensors.spec import TensorSpec
from qverify.triage.case import Case
from qverify.triage.hypotheses import FaultVariant, pages

from tests.plain.forensic_units import Small, generator

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
    assert len({v.said for v in every}) == len(every) - twice
    return {v.said: v for v in every}


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
    """Of every run of so many elements."""
    return lambda v: np.array([r[order] for r in v.reshape(-1, len(order))]).reshape(v.shape)


@pytest.mark.parametrize("moved", [True, False])
def test_interleaving(moved: bool) -> None:
    """Of the output only where it holds the computed elements in some order."""
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


def test_vector_tail() -> None:
    unit = Table(1, 10, 3, 11)
    noise = generator(9).integers(-128, 128, unit.y.shape).astype(np.int8)
    for axis, said, counts in ((3, "column{} of every row", {1, 3}), (1, "channel{} of every pixel", {2})):
        for count in counts:
            free = np.zeros(unit.y.shape, bool)
            np.moveaxis(free, axis, 0)[-count:] = True
            recorded = np.where(free, noise, unit.y)
            case = unit.case(recorded)
            wanted = {
                f"the last {n} {said.format('s' * (n > 1))} {'are' if n > 1 else 'is'} not written: "
                f"{unit.y.size // unit.y.shape[axis] * n} elements are left "
                "from earlier memory contents": recorded
                for n in counts
                if n >= count
            }
            check("vector-tail", case, wanted)
            assert all(v.free is not None and v.free.sum() % count == 0 for v in found("vector-tail", case).values())
            if count == max(counts):
                one = np.where(free, np.int8(7), unit.y)
                assert found("vector-tail", unit.case(one)) == {}  # that is dropped-or-repeated's
    assert found("vector-tail", unit.case(noise)) == {}
    two = Table(6, 10)
    recorded = two.y.copy()
    recorded[:, -2:] = noise.reshape(-1)[:12].reshape(6, 2)
    assert list(found("vector-tail", two.case(recorded))) == [
        "the last 2 channels are not written: 12 elements are left from earlier memory contents"
    ]
    line = Table(11)
    assert found("vector-tail", line.case(noise.reshape(-1)[:11])) == {}


# Left out, repeated, moved


def copy_of(y: Array, target: Any, source: Any) -> Array:
    made = y.copy()
    made[target] = y[source]
    return made


def filled(y: Array, target: Any, value: int) -> Array:
    made = y.copy()
    made[target] = value
    return made


def test_a_row_that_is_left_out() -> None:
    unit = Table(1, 4, 6, 5)
    y, s, chosen = unit.y, np.s_, log2(comb(7, 2))
    recorded = filled(y, s[:, :, 2], 77)
    assert (recorded != y)[0, :, 2].all()
    wanted, bits = {"row 2 left out: 77 everywhere": recorded}, {"row 2 left out: 77 everywhere": chosen + 8}
    for by, text in ((-1, "1 before"), (1, "1 after"), (-2, "2 before"), (3, "3 after")):
        said = f"row 2 repeat those {text} on axis 2"
        wanted[said], bits[said] = copy_of(y, s[:, :, 2], s[:, :, 2 + by]), chosen + 2
    for axis, place in ((1, 0), (1, 3), (3, 0), (3, 4)):
        said = f"row 2 repeat place {place} of axis {axis}"
        source = s[:, place : place + 1, 2] if axis == 1 else s[:, :, 2, place : place + 1]
        wanted[said], bits[said] = copy_of(y, s[:, :, 2], source), chosen + 2
    for axis, name, starts in ((1, "channel", [0]), (2, "row", [1, 2]), (3, "column", [0])):
        for start in starts:
            order = list(range(y.shape[axis]))
            early = y.take([*order[:start], *order[start + 1 :], order[-1]], axis)
            ends = {"the last twice": early}
            for value in (0, ZERO):
                ends[f"{value} at the end"] = early.copy()
                np.moveaxis(ends[f"{value} at the end"], axis, 0)[-1] = value
            texts = {f"{name} {start} dropped, all after it one too early, {end}": v for end, v in ends.items()}
            texts[f"{name} {start} twice, all after it one too far"] = y.take(
                [*order[: start + 1], *order[start:-1]], axis
            )
            wanted |= texts
            bits |= dict.fromkeys(texts, log2(y.shape[axis]))
    for by, text in ((-2, "before"), (2, "after")):
        said = f"rows 2 to 3 repeat those 2 {text}"
        wanted[said], bits[said] = copy_of(y, s[:, :, 2:4], s[:, :, 2 + by : 4 + by]), log2(3) + log2(12)
    check("dropped-or-repeated", unit.case(recorded), wanted, bits)
    copied = {said for said, v in found("dropped-or-repeated", unit.case(recorded)).items() if v.copied}
    assert copied == wanted.keys() - {"row 2 left out: 77 everywhere"}
    for value in (0, ZERO):  # as likely as any: told from nothing
        left = found("dropped-or-repeated", unit.case(filled(y, s[:, :, 2], value)))
        assert left[f"row 2 left out: {value} everywhere"].bits == pytest.approx(chosen)


def test_the_places_that_differ_are_said() -> None:
    unit = Table(2, 4, 6, 5)
    recorded = filled(unit.y, np.s_[1:, 1:3, :, 4:], 100)
    chosen = {"batch 1": log2(3), "channels 1 to 2": log2(10), "column 4": log2(15)}
    case, boxes = unit.case(recorded), {}
    for count in (1, 2, 3):
        for some in combinations(chosen, count):
            boxes[" of ".join(reversed(some))] = sum(chosen[name] for name in some)
    from qverify.triage.hypotheses.dropped_or_repeated import boxes as found_boxes

    got = list(found_boxes(case))
    assert {said: bits for said, _, bits in got} == pytest.approx(boxes)
    box = next(box for said, box, _ in got if said == "column 4 of channels 1 to 2 of batch 1")
    assert np.array_equal(np.argwhere(recorded != unit.y), np.argwhere(_mask(box, unit.y.shape)))


def _mask(box: Any, shape: tuple[int, ...]) -> Array:
    mask = np.zeros(shape, bool)
    mask[box] = True
    return mask


@pytest.mark.parametrize(
    ("first", "last", "value", "said", "bits"),
    [
        (5, 10, 77, "elements 5 to 9 left out: 77 everywhere", 2 * log2(24) + 8),
        (5, 10, 0, "elements 5 to 9 left out: 0 everywhere", 2 * log2(24)),
        (5, 10, ZERO, f"elements 5 to 9 left out: {ZERO} everywhere", 2 * log2(24)),
        (17, 24, 77, "everything from element 17 on left out: 77 everywhere", log2(24) + 8),
        (0, 24, 77, "the whole output left out: 77 everywhere", 1),
    ],
)
def test_a_run_of_memory_that_is_left_out(first: int, last: int, value: int, said: str, bits: float) -> None:
    unit = Table(3, 8)
    recorded = filled(unit.y.reshape(-1), np.s_[first:last], value).reshape(3, 8)
    variants = found("dropped-or-repeated", unit.case(recorded))
    assert variants[said].bits == pytest.approx(bits) and not variants[said].copied
    assert np.array_equal(variants[said].make(unit.case(unit.y)), recorded)
    assert sum("left out" in name and "element" in name for name in variants) == ("element" in said)


# Bits


def test_a_bit_of_one_element() -> None:
    unit = Table(1, 4, 3, 5)
    recorded = unit.y.copy()
    recorded[0, 2, 1, 3] ^= 4
    wanted: dict[str, Array] = {}
    bits: dict[str, float] = {}
    for place in ALL:
        for bit in [2] if place == "the output" else range(8):
            name = f"bit {bit} of every element" + ("" if place == "the output" else f" of {place}")
            mask = np.array([1 << bit], np.uint8).view(np.int8)[0]
            wanted[f"{name} is always 0"] = unit.under(place, lambda v, mask=mask: v & ~mask)
            wanted[f"{name} is always 1"] = unit.under(place, lambda v, mask=mask: v | mask)
            wanted[f"{name} is inverted"] = unit.under(place, lambda v, mask=mask: v ^ mask)
    said = "bit 2 of the element at (0, 2, 1, 3) is inverted"
    wanted[said], bits[said] = recorded, log2(60 * 8)
    entry = int(unit.x[0, 2, 1, 3]) + 128
    for bit in range(8):
        table = unit.table.copy()
        table[entry] = (table[entry : entry + 1].view(np.uint8) ^ np.uint8(1 << bit)).view(np.int8)[0]
        said = f"bit {bit} of table entry {entry} is inverted"
        wanted[said], bits[said] = unit.read(unit.x, table), log2(256 * 8)
    check("bit-flip", unit.case(recorded), wanted, bits)


def flips(unit: Table, recorded: Array) -> list[str]:
    every = found("bit-flip", unit.case(recorded))
    return [said for said in every if "every element" not in said and "table" not in said]


def test_bits_of_several_elements() -> None:
    """At most sixteen, of at least two elements; one element's only where there are eight."""
    unit = Table(20, 50)
    recorded = unit.y.copy()
    recorded.reshape(-1)[[3, 400, 900]] ^= np.array([64, 32, 64], np.int8)
    assert flips(unit, recorded) == ["3 bits are inverted, of 3 elements"]
    (variant,) = (v for s, v in found("bit-flip", unit.case(recorded)).items() if s.startswith("3 bits"))
    assert np.array_equal(variant.make(unit.case(recorded)), recorded)
    assert variant.bits == pytest.approx(log2(comb(8000, 3)))
    many = unit.y.copy()
    many.reshape(-1)[np.arange(16) * 60] ^= 64
    assert flips(unit, many) == ["16 bits are inverted, of 16 elements"]
    many.reshape(-1)[16 * 60] ^= 64
    assert flips(unit, many) == []
    for count, said in ((7, []), (8, ["bit 6 of the element at (0, 1) is inverted"])):
        few = Table(1, count)
        one = few.y.copy()
        one[0, 1] ^= 64
        assert flips(few, one) == said


# What memory held before


def chain() -> tuple[Graph, dict[str, Array]]:
    """x -> k -> m -> y -> z, all of 24 bytes; the unit looked at is y, of m."""
    shapes = {"x": (24,), "k": (4, 6), "m": (2, 12), "y": (3, 8), "z": (24,)}
    specs = {n: TensorSpec(n, "int8", s) for n, s in shapes.items()}
    nodes = [Node(b, "reshape", (a,), (b,)) for a, b in zip("xkmy", "kmyz", strict=True)]
    values = {n: generator(i).integers(-128, 128, s).astype(np.int8) for i, (n, s) in enumerate(shapes.items())}
    return Graph(nodes, specs, {}, ("x",), ("z",)), values


def stale(recorded: Array, **more: Any) -> dict[str, FaultVariant]:
    graph, values = chain()
    case = Case(graph, units(graph)[2], {"m": values["m"]}, "y", recorded, **more)
    variants = found("stale-buffer", case)
    for said, variant in variants.items():
        if "is read as" not in said:
            assert np.array_equal(variant.make(case), recorded)
    return variants


def test_a_buffer_that_holds_another_tensor() -> None:
    _, values = chain()
    board = values.get
    for name in "kx":
        variants = stale(values[name].reshape(3, 8), board=board)
        assert list(variants) == [f"stale buffer: the output is {name}"] and variants.popitem()[1].copied
    assert stale(values["z"].reshape(3, 8), board=board) == {}  # z is made after it
    assert stale(values["k"].reshape(3, 8)) == {}  # nothing known of k
    half = values["m"].reshape(3, 8).copy()
    half.reshape(-1)[5:17] = values["k"].reshape(-1)[5:17]
    variants = stale(half, board=board)
    assert list(variants) == ["stale buffer: elements 5 to 16 are k"]
    (one,) = variants.values()
    assert one.copied and one.bits == pytest.approx(2 * log2(24))
    small = {**values, "k": values["k"].reshape(-1)[:23]}
    assert stale(half, board=small.get) == {}  # too few bytes


def test_a_buffer_that_holds_the_frame_before() -> None:
    _, values = chain()
    before = {"y": generator(11).integers(-128, 128, (3, 8)).astype(np.int8), "m": -values["m"]}
    variants = stale(before["y"], previous=before.get)
    assert list(variants) == [
        "stale buffer: the output is the previous frame's tensor",
        "stale buffer: m is read as the previous frame left it",
    ]
    graph, _ = chain()
    case = Case(graph, units(graph)[2], {"m": values["m"]}, "y", before["y"], previous=before.get)
    assert np.array_equal(list(variants.values())[1].make(case), before["m"].reshape(3, 8))


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


def test_what_is_scrubbed_from_floats() -> None:
    x = np.array([NAN, INF, -INF, -0.0, TINY, -TINY, 1.5], np.float32)
    unit = Small("reshape", (), ("float32", 0, 0), (7, 1), x=(x,))
    case = Case(unit.graph, units(unit.graph)[0], unit.inputs, "y", x.reshape(7, 1))
    wanted = {
        f"NaN scrub: in {p} {s}": np.array(v, np.float32).reshape(7, 1) for p in BOTH for s, v in SCRUBBED.items()
    }
    check("nan-scrub", case, wanted)


def read_at(index: Callable[[int], int]) -> Way:
    return lambda table: np.array([table[index(i)] for i in range(256)])


def test_lookup_index() -> None:
    unit = Table(1, 3, 10, 10)
    ways: dict[str, Way] = {
        "one too high": read_at(lambda i: min(i + 1, 255)),
        "one too high, wrapping": read_at(lambda i: (i + 1) % 256),
        "one too low": read_at(lambda i: max(i - 1, 0)),
        "one too low, wrapping": read_at(lambda i: (i - 1) % 256),
        "without the offset of the type's sign": read_at(lambda i: (i + 128) % 256),
        "backward": read_at(lambda i: 255 - i),
        "without its highest bit": read_at(lambda i: i & 127),
        "without its lowest bit": read_at(lambda i: i & 254),
        "with its lowest bit set": read_at(lambda i: i | 1),
        "saturated to the lower half": read_at(lambda i: min(i, 127)),
        "saturated to the upper half": read_at(lambda i: max(i, 128)),
        "by its absolute value": read_at(lambda i: min(128 + abs(i - 128), 255)),
    }
    ways["negative indices taken as 0"] = ways["saturated to the upper half"]
    check("lookup-index", unit.case(unit.y), each(unit, ["the table"], ways, "table index {way}"))
