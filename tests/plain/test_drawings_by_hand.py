"""The numbers of a drawing, worked out here: bins, bars, cells and pictures of small tensors."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from qverify.compare.drawings.add_drawings import _compute_rank
from qverify.compare.drawings.draw_tensor import compute_quantized_range, count_at_ends, draw_tensor
from qverify.compare.drawings.error_maps import map_errors
from qverify.compare.drawings.inputs import draw_inputs
from qverify.compare.options import Options
from qverify.compare.paired_values import FLOAT_BLOCK, PairedValues
from qverify.report.document import Forced
from qverify.report.drawings import DifferingElement, ErrorMaps, InputDrawing
from qverify.tensors.prepared import PreparedInput, PreparedInputs
from qverify.tensors.recording import Recording
from qverify.tensors.spec import TensorSpec

from tests.plain.test_drawings import draw
from tests.plain.three_sides import three, two, wrong_at

NAN, INF = np.nan, np.inf


def floats(*values: float) -> Any:
    return np.array(values, np.float32)


def nonzero(counts: Any) -> dict[Any, int]:
    found = np.argwhere(counts)
    return {tuple(map(int, at)) if counts.ndim > 1 else int(at[0]): int(counts[tuple(at)]) for at in found}


def test_values_are_counted_in_64_bins_and_pairs_in_48_by_48() -> None:
    drawn = draw(floats(0, 0, 0, 4), floats(4, 4, 1, 4))
    assert drawn.values is not None and drawn.density is not None
    assert (drawn.values.low, drawn.values.high, drawn.density.low, drawn.density.high) == (0, 4, 0, 4)
    assert drawn.values.a.shape == (64,) and nonzero(drawn.values.a) == {0: 3, 63: 1}
    assert drawn.values.b is not None and nonzero(drawn.values.b) == {16: 1, 63: 3}
    assert drawn.density.counts.shape == (48, 48)  # [b, a]
    assert nonzero(drawn.density.counts) == {(12, 0): 1, (47, 0): 2, (47, 47): 1}


def test_differences_of_floats_have_40_bars_named_by_their_middle() -> None:
    drawn = draw(floats(0, 0, 0, 0, 7), floats(-4, 1.25, 4, 4, 7))
    bars = [(name, n) for name, n in drawn.differences if n]
    assert len(drawn.differences) == 40 and drawn.others == 0
    assert bars == [("-3.9", 1), ("+1.3", 1), ("+3.9", 2)] and drawn.differing == 4


def test_equal_tensors_have_values_alone() -> None:
    drawn = draw(floats(2, 2), floats(2, 2))
    assert drawn.values is not None and nonzero(drawn.values.a) == {0: 2} and drawn.values.b is None
    assert (drawn.density, drawn.maps, drawn.differences, drawn.first) == (None, None, [], [])


def test_equal_bytes_of_another_meaning_are_no_equal_tensors() -> None:
    a = np.array([1, 2], np.int8)
    one, two_ = (TensorSpec("t", "int8", (2,), scale=(s,), zero_point=(0,)) for s in (1.0, 2.0))
    drawn = draw_tensor(lambda: PairedValues(a, a, one, two_), "conv", "differs")
    assert drawn.differing == 2 and drawn.values is not None and drawn.values.b is not None
    assert drawn.density is not None and (drawn.values.low, drawn.values.high) == (1, 4)


def test_what_is_the_same_nan_on_both_sides_is_no_zero() -> None:
    drawn = draw(floats(5, NAN, INF), floats(6, NAN, INF))
    assert drawn.values is not None and (drawn.values.low, drawn.values.high) == (5, 6)
    assert nonzero(drawn.values.a) == {0: 1} and nonzero(drawn.values.b) == {63: 1}
    assert drawn.density is not None and int(drawn.density.counts.sum()) == 1 and drawn.differing == 1
    assert [d.index for d in drawn.first] == [(0,)]
    equal = draw(floats(5, NAN), floats(5, NAN))
    assert equal.values is not None and (equal.values.low, int(equal.values.a.sum())) == (5, 1)


def test_what_one_side_alone_has_is_in_no_bar() -> None:
    drawn = draw(floats(NAN, 1), floats(1, 1))
    assert (drawn.differences, drawn.others, drawn.differing) == ([], 0, 1)
    assert drawn.density is not None and int(drawn.density.counts.sum()) == 1
    nothing = draw(floats(NAN), floats(INF))
    assert (nothing.values, nothing.density, nothing.differences) == (None, None, [])
    assert len(nothing.first) == 1 and nothing.first[0].index == (0,)


def test_only_the_41_most_frequent_differences_are_bars() -> None:
    b = np.concatenate([np.arange(1, 51), np.arange(1, 41), [-7, -7, -7]]).astype(np.int16)
    drawn = draw(np.zeros(b.shape, np.int16), b, 1.0)
    assert len(drawn.differences) == 41 and drawn.others == 10 and drawn.unit == "LSB"
    assert drawn.differences[:2] == [("-7", 3), ("+1", 2)] and drawn.differences[-1] == ("+40", 2)


def test_differences_of_one_sign_are_counted() -> None:
    zeros = np.zeros(3, np.int16)
    assert draw(zeros, zeros - np.int16(2), 1.0).differences == [("-2", 3)]
    assert draw(zeros, zeros + np.int16(2), 1.0).differences == [("+2", 3)]


def test_large_differences_are_counted_together() -> None:
    far = 1 << 15
    b = np.array([far - 1, far, far + 9, -far + 1, -far, -far - 9, 0, 1], np.int32)
    drawn = draw(np.zeros(b.shape, np.int32), b, 1.0)
    assert drawn.differences == [("<=-32768", 2), ("-32767", 1), ("+1", 1), ("+32767", 1), (">=32768", 2)]
    assert drawn.others == 0 and drawn.differing == 7


def test_the_first_twelve_that_differ_are_listed_though_blocks_end_between_them() -> None:
    a = np.zeros((2, FLOAT_BLOCK), np.int8)
    b = a.copy()
    b[0, -8:], b[1, :8] = 3, 4
    found = draw(a, b, 1.0).first
    assert found[:8] == [DifferingElement((0, FLOAT_BLOCK - 8 + i), 0, 3) for i in range(8)]
    assert found[8:] == [DifferingElement((1, i), 0, 4) for i in range(4)]
    (alone,) = draw(np.array(1.0, np.float32), np.array(2.0, np.float32)).first
    assert alone == DifferingElement((), 1.0, 2.0)


@pytest.mark.parametrize(
    ("dtype", "scale", "zero", "wanted"),
    [
        ("int8", (0.5,), (3,), (-65.5, 62.0)),
        ("uint16", (2.0,), (), (0.0, 131070.0)),
        ("int32", (0.5,), (0,), None),
        ("float32", (0.5,), (0,), None),
        ("int8", (), (), None),
        ("int8", (0.5, 0.5), (0, 0), None),
    ],
)
def test_the_range_of_a_type(dtype: str, scale: Any, zero: Any, wanted: Any) -> None:
    assert compute_quantized_range(TensorSpec("t", dtype, (2,), scale=scale, zero_point=zero)) == wanted


def test_what_is_at_the_ends_is_counted() -> None:
    assert count_at_ends(np.array([-128, -127, 127, 127, 126], np.int8)) == (1, 2)


def test_sides_without_specs_are_drawn_as_their_arrays_are() -> None:
    sides = [Recording(n, "test", finals=("y",), tensors={"y": v}) for n, v in SIDES.items()]
    (drawn,) = two(*sides, Options(dump_all=True, drawings=True)).pairs[0].drawings
    assert (drawn.name, drawn.op, drawn.dtype, drawn.shape) == ("y", "", "int32", (2,))
    assert drawn.why == "a final output that differs" or drawn.why == "the first that differs"
    assert drawn.first == [DifferingElement((1,), 2, 3)]


SIDES = {"reference": np.array([1, 2], np.int32), "board": np.array([1, 3], np.int32)}


def maps_of(a: Any, b: Any, scale: tuple[float, ...] = ()) -> ErrorMaps:
    zero = (0,) * len(scale)
    specs = [TensorSpec("t", v.dtype.name, v.shape, scale=scale, zero_point=zero) for v in (a, b)]
    return map_errors(PairedValues(a, b, *specs))


def test_the_three_worst_channels_have_maps_of_their_own() -> None:
    a = np.zeros((5, 2, 3), np.int16)
    b = a.copy()
    b[0, 1, 2], b[1, 0, 0], b[2, 0, 1], b[4] = 5, -9, 9, 1
    found = maps_of(a, b)
    assert (found.plane, found.folded, found.channels) == ((2, 3), False, 5)
    assert [(m.channel, m.total) for m in found.maps] == [(None, 29), (1, 9), (2, 9), (4, 6)]
    assert found.maps[0].cells.tolist() == [[9, 9, 1], [1, 1, 5]] and found.maps[1].cells.tolist() == [
        [9, 0, 0],
        [0] * 3,
    ]
    one = maps_of(a[:1], b[:1])
    assert [(m.channel, m.total) for m in one.maps] == [(None, 5)]
    assert [m.channel for m in maps_of(a[:4], b[:4]).maps] == [None, 1, 2, 0]
    assert [m.channel for m in maps_of(b[3:], a[3:]).maps] == [None, 1]  # a channel without differences has none
    near = maps_of(a.astype(np.float32), a + np.float32(2.0**-10))
    assert [(m.channel, m.total) for m in near.maps] == [(None, 30 / 1024), *((c, 6 / 1024) for c in range(3))]


@pytest.mark.parametrize(("size", "plane"), [(1, (1, 1)), (2, (1, 2)), (4, (2, 2)), (5, (2, 3)), (10, (3, 4))])
def test_one_dimension_is_folded_into_rows(size: int, plane: tuple[int, int]) -> None:
    a = np.zeros((1, size, 1), np.uint8)
    b = a.copy()
    b[0, -1, 0] = 200
    found = maps_of(a, b)
    assert found.folded and found.plane == plane and found.channels == 1
    cells = found.maps[0].cells
    assert cells.shape == plane and cells.reshape(-1)[size - 1] == cells.sum() == 200


def test_a_row_of_65536_is_the_longest_that_is_not_folded() -> None:
    for width, folded in ((1 << 16, False), ((1 << 16) + 1, True)):
        a = np.zeros((2, 1, width), np.int8)
        b = a.copy()
        b[1, 0, width - 1] = 1
        found = maps_of(a, b)
        assert (found.folded, found.maps[0].total) == (folded, 1)
        assert found.maps[0].cells[-1].max() == 1


def test_bands_of_many_rows_and_of_many_channels_are_whole() -> None:
    a = np.zeros((600, 96, 128), np.int8)
    b = a.copy()
    b[550, 95, 127], b[2, 1, 1] = 100, 7
    found = maps_of(a, b)
    assert [(m.channel, m.total) for m in found.maps] == [(None, 107), (550, 100), (2, 7)]
    assert nonzero(found.maps[1].cells) == {(47, 47): 100} and nonzero(found.maps[2].cells) == {(0, 0): 7}
    wide = np.zeros((100, 1 << 16), np.int8)
    assert maps_of(wide, wide).maps[0].cells.shape == (48, 48)  # a band is longer than one block


@pytest.mark.parametrize(
    ("a", "b", "apart"),
    [
        (np.array([-128, 5], np.int8), np.array([127, 7], np.int8), [255, 2]),
        (np.array([-(2**31), 5], np.int32), np.array([2**31 - 1, 7], np.int32), [2**32 - 1, 2]),
        (np.array([-(2**63), 2**60], np.int64), np.array([2**63 - 1, 2**60 + 1], np.int64), [2**64, 1]),
        (np.array([False, True]), np.array([True, True]), [1, 0]),
        (np.array([NAN, INF, 1, INF]), np.array([NAN, INF, NAN, -INF]), [0, 0, INF, INF]),
    ],
)
def test_distances_of_every_type(a: Any, b: Any, apart: list[float]) -> None:
    cells = maps_of(a.reshape(2, -1), b.reshape(2, -1)).maps[0].cells
    assert cells.reshape(-1)[: len(apart)].tolist() == apart


def test_integers_beside_floats_are_real_values() -> None:
    spec, other = TensorSpec("t", "int8", (2, 2), scale=(0.5,), zero_point=(1,)), TensorSpec("t", "float32", (2, 2))
    a, b = np.array([[1, 3], [5, 7]], np.int8), np.array([[0, 1], [2, 4]], np.float32)
    for values in (PairedValues(a, b, spec, other), PairedValues(b, a, other, spec)):
        assert map_errors(values).maps[0].cells.tolist() == [[0, 0], [0, 1]]


def input_drawn(value: Any) -> InputDrawing:
    spec = TensorSpec("x", value.dtype.name, value.shape)
    (drawn,) = draw_inputs(PreparedInputs((PreparedInput(spec, value.tobytes(), "random"),)))
    return drawn


@pytest.mark.parametrize(
    ("shape", "picture"),
    [
        ((1, 1, 8, 9), (8, 9, 3)),
        ((3, 8, 9), (8, 9, 3)),
        ((8, 9, 3), (8, 9, 3)),
        ((8, 8, 1), (8, 8, 3)),
        ((2, 3, 9, 8), (9, 8, 3)),
        ((1, 224, 8, 3), (224, 8, 3)),
        ((1, 225, 8, 3), (113, 4, 3)),
        ((1, 2, 8, 9), None),
        ((1, 1, 7, 9), None),
        ((1, 3, 9, 7), None),
        ((7, 9, 3), None),
        ((8, 9), None),
        ((1, 1, 1, 8, 9), None),
        ((0, 1, 8, 9), None),
    ],
)
def test_which_inputs_are_pictures(shape: tuple[int, ...], picture: tuple[int, ...] | None) -> None:
    value = np.arange(np.prod(shape, dtype=int), dtype=np.int64).astype(np.uint8).reshape(shape)
    drawn = input_drawn(value)
    assert (None if drawn.picture is None else drawn.picture.shape) == picture
    assert ("the first of" in drawn.shown) == (", the first of 2" in drawn.shown) == (shape[0] == 2)
    assert ("one pixel of 2 x 2" in drawn.shown) == (225 in shape) and "1 x 1" not in drawn.shown
    assert ("channels in the order" in drawn.shown) == (picture is not None and 3 in shape)
    if picture is not None:
        height, width = (n for n in shape[-4:] if n > 3) if len(shape) > 2 else (0, 0)
        assert drawn.shown.startswith(f"{width} x {height}")


def test_the_shades_of_a_picture() -> None:
    value = np.zeros((1, 1, 8, 8), np.float32)
    value[0, 0, 0, :4] = -1, 2, 3, NAN
    drawn = input_drawn(value)
    assert drawn.picture is not None and drawn.picture[0, :5].tolist() == [[v] * 3 for v in (0, 191, 255, 64, 64)]
    assert drawn.values is not None and nonzero(drawn.values.a) == {0: 1, 16: 60, 48: 1, 63: 1}
    flat = input_drawn(np.full((1, 1, 8, 8), 7, np.uint8))
    assert flat.picture is not None and not flat.picture.any()
    assert flat.values is not None and nonzero(flat.values.a) == {0: 64}
    near = np.full((1, 1, 8, 8), 3 * 2.0**51 - 2)  # a third of it, and of what is 3 more, are rounded differently
    near[0, 0, 7, 7] += 3
    shown = input_drawn(near).picture
    assert shown is not None and (shown[7, 7].tolist(), int(shown.sum())) == ([255] * 3, 3 * 255)
    assert input_drawn(np.full((2, 2), NAN, np.float32)).values is None
    assert input_drawn(np.zeros((1, 1, 8, 8), bool)).picture is None


def test_the_values_of_a_quantized_input() -> None:
    spec = TensorSpec("x", "int8", (4,), scale=(0.5,), zero_point=(0,))
    value = np.array([-128, 0, 127, 127], np.int8)
    prepared = PreparedInput(spec, value.tobytes(), "random")
    drawn = draw_inputs(PreparedInputs((prepared,) * 9))
    assert len(drawn) == 8 and drawn[0].values is not None
    assert (drawn[0].values.quantized, drawn[0].values.clipped_a) == ((-64.0, 63.5), (1, 2))
    assert nonzero(drawn[0].values.a) == {0: 1, 32: 1, 63: 2} and drawn[0].values.b is None


def test_in_which_order_tensors_are_drawn() -> None:
    pair = three(board=wrong_at("n2")).pairs[1]
    assert pair.first_divergence is not None and pair.first_divergence.tensor == "n2"
    row = replace(next(r for r in pair.tensors if r.name == "n2"), name="t", final=False, bit_equal=False)

    def rank(name: str, forced: Forced | None = None, **more: Any) -> Any:
        return _compute_rank(pair, name, replace(row, **more), forced, 7)

    passed = Forced("PASSED", 0, 0, 0.0, 40, "0 LSB", "reference", "board")
    assert rank("n2", replace(passed, verdict="FAILED")) == (0, 7) and rank("n2", passed) == rank("n2") == (1, 7)
    assert rank("t", final=True) == (2, 7) and rank("t", final=True, bit_equal=True) == (4, 7)
    assert rank("t", bit_equal=True) == (5, 7)
    assert rank("t", metrics={"sqnr_db": 30.0}) == (3, 30.0) and rank("t", metrics={"sqnr_db": -2}) == (3, -2.0)
    for unknown in ({}, {"sqnr_db": None}, {"sqnr_db": NAN}, {"sqnr_db": "inf"}):
        assert rank("t", metrics=unknown) == (3, -INF)
    assert _compute_rank(pair, "t", None, None, 7) == (3, -INF)
    pair.first_divergence = None
    assert rank("n2", final=True) == (2, 7)


@pytest.mark.parametrize(
    ("shape", "plane"), [((1, 1600, 4), (80, 80)), ((1, 160, 80), (160, 80)), ((3, 40, 2), (40, 2))]
)
def test_rows_of_boxes_are_no_map_that_is_a_line(shape: tuple[int, ...], plane: tuple[int, int]) -> None:
    a = np.zeros(shape, np.uint8)
    b = a.copy()
    b.flat[-1] = 9
    found = maps_of(a, b)
    assert (found.plane, found.folded) == (plane, shape[1] == 1600) and found.maps[0].total == 9


def test_a_bgr_picture_is_in_its_colours() -> None:
    spec = TensorSpec("x", "uint8", (1, 8, 8, 3))
    value = np.zeros(spec.shape, np.uint8)
    value[..., 0] = 255  # blue
    (drawn,) = draw_inputs(PreparedInputs((PreparedInput(spec, value.tobytes(), "p.png", is_bgr=True),)))
    assert drawn.picture is not None and drawn.picture[0, 0].tolist() == [0, 0, 255]
    assert "fed as BGR, shown in its colours" in drawn.shown
