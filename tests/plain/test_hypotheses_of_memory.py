"""Faults of memory: what is left out, repeated, written at another stride, or still there from before; as plain numpy makes them."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations
from math import comb, log2
from typing import Any

import numpy as np
import pytest
from qverify.model_bin.graph import Graph, Node
from qverify.model_bin.units import units
from qverify.tensors.spec import TensorSpec
from qverify.triage.case import Case
from qverify.triage.hypotheses import FaultVariant
from qverify.triage.hypotheses.alignment import padded, skipped

from tests.plain.fault_units import ZERO, Table, check, copy_of, filled, found, small_case
from tests.plain.forensic_units import Small, generator

Array = Any


def test_vector_tail() -> None:
    unit = Table(1, 10, 3, 11)
    noise = generator(9).integers(-128, 128, unit.y.shape).astype(np.int8)
    for axis, noun, where, counts in ((3, "column", "row", {1, 3}), (1, "channel", "pixel", {2})):
        for count in counts:
            free = np.zeros(unit.y.shape, bool)
            np.moveaxis(free, axis, 0)[-count:] = True
            recorded = np.where(free, noise, unit.y)
            case = unit.case(recorded)
            wanted = {
                f"the last {f'{n} {noun}s' if n > 1 else f'1 {noun}'} of every {where} {'are' if n > 1 else 'is'} not written: "
                f"{unit.y.size // unit.y.shape[axis] * n} elements are left from earlier memory contents": recorded
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


@pytest.mark.parametrize(
    ("shape", "names"),
    [((3, 4), ["channel 1", "batch 0"]), ((3, 4, 2), ["column 1", "channel 0", "batch 0"]),
     ((3, 2, 2, 2, 2), [*(f"axis {i}, place 0" for i in (4, 3, 2, 1, 0))]), ((4,), ["axis 0, place 0"])],
)  # fmt: skip
def test_what_the_axes_of_an_output_are_called(shape: tuple[int, ...], names: list[str]) -> None:
    from qverify.triage.hypotheses.dropped_or_repeated import boxes as found_boxes

    unit = Table(*shape)
    recorded = unit.y.copy()
    recorded.reshape(-1)[int(names[0].endswith("1"))] ^= 1
    assert list(found_boxes(unit.case(recorded)))[-1][0] == " of ".join(names)


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


def test_an_output_that_comes_a_frame_late() -> None:
    """All that the node reads is of the frame before; one input alone is another fault."""
    now, before = (
        {n: generator(s + i).integers(-128, 128, (2, 6)).astype(np.int8) for i, n in enumerate("ab")} for s in (1, 8)
    )
    small = Small("concat", (0,), ("int8", 0.1, 0), (4, 6), **{n: (v, 0.1, 0) for n, v in now.items()})
    recorded = np.concatenate([before["a"], before["b"]])
    case = replace(small_case(small, recorded), previous=before.get)
    variants = found("stale-buffer", case)
    late = "stale buffer: the output comes a frame late: every input is read as the previous frame left it"
    assert np.array_equal(variants.pop(late).make(case), recorded)
    assert [v.make(case).tobytes() == recorded.tobytes() for v in variants.values()] == [False, False]
    assert late not in found("stale-buffer", replace(case, previous={"a": before["a"]}.get))


@pytest.mark.parametrize(("run", "stride"), [(5, 8), (5, 6), (5, 4), (4, 4), (6, 1), (10, 16)])
def test_rows_of_another_stride(run: int, stride: int) -> None:
    """What is written at one stride and read at the other, element by element."""
    values = np.arange(1, 61, dtype=np.int8)
    written, read = [77] * 500, []
    for row in range(60 // run):
        for i in range(run):
            written[row * stride + i] = int(values[row * run + i])
    assert padded(values.reshape(3, 20), run, stride, 77).reshape(-1).tolist() == written[:60]
    for row in range(60 // run):
        for i in range(run):
            at = row * stride + i
            read.append(int(values[at]) if at < 60 else 77)
    assert skipped(values.reshape(3, 20), run, stride, 77).reshape(-1).tolist() == read


def test_alignment() -> None:
    x = generator(3).integers(1, 128, (1, 2, 3, 5)).astype(np.int8)
    small = Small("reshape", (), ("int8", 0.5, 9), (1, 2, 3, 5), x=(x, 0.5, 9))
    strides = [("rows", 5, s) for s in (6, 8, 16, 32, 64, 128, 4)]
    strides += [("planes", 15, s) for s in (16, 32, 64, 128, 14)]
    recorded = padded(x, 5, 8, 0)
    recorded.reshape(-1)[[5, 6]] = (50, 51)  # not one value everywhere
    wanted, free = {}, {}
    for place in ("the output", "the input"):
        for said, run, stride in strides:
            for move, a, b in ((padded, stride, run), (skipped, run, stride)):
                text = f"alignment: {place} is written with {said} of {a} elements and read with {b}"
                for value, what in ((0, "zeros"), (9, "the zero point")):
                    wanted[f"{text}; {what} where nothing was written"] = move(x, run, stride, value)
                if place == "the output":
                    mask = move(np.arange(1, 31).reshape(x.shape), run, stride, 0).reshape(-1) == 0
                    values = np.unique(recorded.reshape(-1)[mask])
                    if len(values) > 1:
                        garbage = f"{text}; {mask.sum()} elements are left from earlier memory contents"
                        wanted[garbage] = np.where(mask.reshape(x.shape), recorded, move(x, run, stride, 0))
                        free[garbage] = mask
                    elif len(values) == 1 and values[0] not in (0, 9):
                        wanted[f"{text}; {values[0]} where nothing was written"] = move(x, run, stride, values[0])
    case = small_case(small, recorded)
    check("alignment", case, wanted)
    variants = found("alignment", case)
    assert {said for said, v in variants.items() if v.copied} == free.keys()
    assert all(np.array_equal(variants[said].free, mask) for said, mask in free.items())


def test_padding_that_is_read_as_data() -> None:
    x = generator(3).integers(1, 128, (2, 5)).astype(np.int8)
    small = Small("reshape", (), ("int8", 0.5, 9), (2, 5), x=(x, 0.5, 9))
    small.graph.tensors["y"] = replace(small.graph.tensors["y"], aligned_shape=(2, 8))
    raw = bytes(range(100, 116))
    case = Case(small.graph, units(small.graph)[0], small.inputs, "y", x, raw=raw)
    variants = found("alignment", case)
    made = [*x[0], 105, 106, 107, *x[1][:2]]
    assert variants["alignment: the output's padding is read as data"].make(case).reshape(-1).tolist() == made
    assert not [s for s in found("alignment", small_case(small, x)) if "padding" in s]


@pytest.mark.parametrize(
    ("shape", "aligned", "strides"),
    [
        ((6,), (8,), set()),
        ((1, 6), (1, 8), set()),
        ((4, 1), (4, 1), {2, 4, 8, 16, 32, 64, 128}),
        ((4, 1), (4, 200), {2, 4, 8, 16, 32, 64, 128}),
        ((4, 2), (4, 2), {1, 3, 4, 8, 16, 32, 64, 128}),
        ((4, 128), (4, 128), {130, 132, 136, 144, 160, 192, 256, 129, 127}),
        ((2, 40), (2, 160), {42, 44, 48, 64, 128, 41, 39, 160}),
        ((2, 40), (2, 161), {42, 44, 48, 64, 128, 41, 39}),
    ],
)
def test_the_strides_that_rows_may_have(shape: tuple[int, ...], aligned: tuple[int, ...], strides: set[int]) -> None:
    x = np.ones(shape, np.int8)
    small = Small("reshape", (), ("int8", 0.5, 9), shape, x=(x, 0.5, 9))
    small.graph.tensors["x"] = replace(small.graph.tensors["x"], aligned_shape=aligned)
    said = {s.partition("; ")[0] for s in found("alignment", small_case(small, x)) if "the input" in s}
    run, text = shape[-1], "alignment: the input is written with rows of {} elements and read with {}"
    assert said == {text.format(*ends) for s in strides for ends in ((s, run), (run, s))}


@pytest.mark.parametrize(
    ("rows", "tiles"),
    [
        ([4, 6], {"rows 4 to 7 repeat those 4 before", "rows 4 to 7 repeat those 4 after", "rows 0 to 7 repeat those 8 after"}),
        ([4, 7], {"rows 0 to 7 repeat those 8 after"}),
        ([6], {"rows 6 to 7 repeat those 2 before", "rows 6 to 7 repeat those 2 after",
               "rows 4 to 7 repeat those 4 before", "rows 4 to 7 repeat those 4 after",
               "rows 0 to 7 repeat those 8 after"}),
        ([9], {"rows 8 to 9 repeat those 2 before", "rows 8 to 9 repeat those 2 after",
               "rows 8 to 11 repeat those 4 before", "rows 8 to 11 repeat those 4 after",
               "rows 8 to 15 repeat those 8 before"}),
    ],
)  # fmt: skip
def test_a_tile_of_which_not_all_differs(rows: list[int], tiles: set[str]) -> None:
    unit = Table(1, 2, 16, 3)
    recorded = unit.y.copy()
    recorded[0, 0, rows, 0] ^= 1
    variants = found("dropped-or-repeated", unit.case(recorded))
    got = {s for s in variants if s.startswith("rows") and s.endswith(("before", "after"))}
    assert got == tiles


def test_vector_tail_of_three_axes() -> None:
    unit = Table(2, 4, 5)
    recorded = unit.y.copy()
    recorded[..., -1] = generator(9).integers(-128, 128, (2, 4))
    text = "the last 1 column of every row is not written: 8 elements are left from earlier memory contents"
    assert list(found("vector-tail", unit.case(recorded))) == [text]
    recorded = unit.y.copy()
    recorded[:, 2:] = generator(9).integers(-128, 128, (2, 2, 5))
    text = "the last 2 channels of every pixel are not written: 20 elements are left from earlier memory contents"
    assert text in found("vector-tail", unit.case(recorded))


@pytest.mark.parametrize(
    ("last", "left"), [(50, "50 where nothing was written"), (51, "2 elements are left from earlier memory contents")]
)
def test_two_values_between_rows_are_left_from_before(last: int, left: str) -> None:
    """Rows of five elements written with six: elements 5 and 11 are not written."""
    x = np.ones((3, 5), np.int8)
    recorded = x.copy()
    recorded.reshape(-1)[[5, 11]] = (50, last)
    small = Small("reshape", (), ("int8", 0.5, 9), (3, 5), x=(x, 0.5, 9))
    text = "alignment: the output is written with rows of 6 elements and read with 5; "
    said = {s for s in found("alignment", small_case(small, recorded)) if s.startswith(text)}
    assert said == {
        text + s for s in ("zeros where nothing was written", "the zero point where nothing was written", left)
    }


def test_one_float_between_rows_is_no_value_that_was_written() -> None:
    """Nor is it garbage."""
    x = np.ones((3, 5), np.float32)
    recorded = x.copy()
    recorded.reshape(-1)[[5, 11]] = 50
    small = Small("reshape", (), ("float32", 0, 0), (3, 5), x=(x,))
    text = "alignment: the output is written with rows of 6 elements and read with 5; "
    said = {s for s in found("alignment", small_case(small, recorded)) if s.startswith(text)}
    assert said == {f"{text}zeros where nothing was written"}


def test_how_long_a_vector_is() -> None:
    """Vectors of 2, 4, ..., 64 leave so many of 127 columns."""
    wide = Table(1, 2, 127)
    recorded = wide.y.copy()
    recorded[..., -1] = (5, 6)
    assert [int(s.split()[2]) for s in found("vector-tail", wide.case(recorded))] == [1, 3, 7, 15, 31, 63]
