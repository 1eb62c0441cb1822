"""Ops that move values: what is known of a value goes where numpy puts the value, for floats and for integers."""

from __future__ import annotations

import numpy as np
import pytest
from qverify.compare.error_bounds.bounded_values import NoBound, Whole
from qverify.tensors.spec import TensorSpec

from tests.plain.error_pages import page, real, whole, word


def counted(*shape):
    return np.arange(np.prod(shape)).reshape(shape)


def moves(op, words, x, y, *more, fill=0):
    """x goes to the elements y of it; -1 in y: nothing of x, fill."""
    values = counted(*x)
    taken, outside = np.maximum(y, 0), np.asarray(y) < 0

    def wanted(of, otherwise):
        return np.where(outside, otherwise, of.reshape(-1)[taken])

    (found,) = page(op, [real(values + 0.5, values / 8), *more], words, np.shape(y))
    assert np.array_equal(found.value, wanted(values + 0.5, fill)) and np.array_equal(
        found.error, wanted(values / 8, 0)
    )
    bits = words if op != "pad" or words[0] else (0, int(fill), *words[2:])
    for low, high in ((values, values + 3), (values, None)):
        held = TensorSpec("y", "int32", np.shape(y))
        (found,) = page(op, [whole(low, high), *more], bits, held)
        assert np.array_equal(found.low, wanted(values, fill))
        assert np.array_equal(found.high, wanted(values if high is None else high, fill))


def test_reshape():
    moves("reshape", (), (2, 3), counted(3, 2))

    with pytest.raises(NoBound, match="absent input"):
        page("reshape", [None], (), (3, 2))


def test_transpose():
    moves("transpose", (2, 0, 1), (2, 3, 4), counted(2, 3, 4).transpose(2, 0, 1))


def test_slice():
    moves("slice", (1, 5, 2, -2), (3, 6), counted(3, 6)[1::2, 5::-2][:, :2])


def test_split_gives_every_part():
    x = real(counted(2, 6), counted(2, 6) / 8)
    parts = page("split", [x], (1,), (2, 1), (2, 3), (2, 2))
    for part, (start, end) in zip(parts, ((0, 1), (1, 4), (4, 6)), strict=True):
        assert np.array_equal(part.value, x.value[:, start:end]) and np.array_equal(part.error, x.error[:, start:end])


def test_gather():
    moves("gather", (1,), (2, 5), counted(2, 5)[:, [3, 0, -1]], whole([3, 0, -1]))
    with pytest.raises(NoBound, match="integers that depend on floats"):
        page("gather", [real(counted(2, 5)), whole([3], [4])], (1,), (2, 1))


def test_resize_nearest():
    moves("resize_nearest", (), (1, 2, 3), counted(1, 2, 3)[:, [0, 0, 1]][:, :, [0, 2]], whole([0, 0, 0, 1, 0, 2]))


def test_pad():
    inside = np.full((4, 6), -1)
    inside[1:3, 2:5] = counted(2, 3)
    moves("pad", (0, word(7.0), 1, 2), (2, 3), inside, fill=7)
    for mode, name in ((1, "reflect"), (2, "edge")):
        moves("pad", (mode, 0, 1, 2), (2, 3), np.pad(counted(2, 3), ((1, 1), (2, 1)), name))


def test_pad_with_too_few_widths():
    with pytest.raises(ValueError, match="longer"):
        page("pad", [real([[1.0, 2.0]])], (0, 0, 1), (1, 4))


def test_depth_to_space():
    """ONNX: DCR takes the block out of the channels first, CRD last."""
    x = counted(1, 8, 2, 3)
    dcr = x.reshape(1, 2, 2, 2, 2, 3).transpose(0, 3, 4, 1, 5, 2).reshape(1, 2, 4, 6)
    crd = x.reshape(1, 2, 2, 2, 2, 3).transpose(0, 1, 4, 2, 5, 3).reshape(1, 2, 4, 6)
    assert dcr[0, 0, 0, :2].tolist() == [0, 12] and crd[0, 0, 0, :2].tolist() == [0, 6]
    moves("depth_to_space", (2, 0), (1, 8, 2, 3), dcr)
    moves("depth_to_space", (2, 1), (1, 8, 2, 3), crd)


POOL = (2, 2, 1, 1, 0, 1, 0, 0, 1, 1)  # 2 x 2, one column of padding on the left


def test_max_pool_is_the_largest_of_both_ends():
    x, d = np.array([[[[-5.0, -1.0], [-2.0, -8.0]]]]), np.array([[[[0.5, 0.25], [2.0, 1.0]]]])
    (y,) = page("max_pool", [real(x, d)], POOL, (1, 1, 1, 2))
    assert y.value.ravel().tolist() == [-2, -1] and y.error.ravel().tolist() == [
        2.0,
        1.0,
    ]  # 0 reached, from -2 and from -1
    (y,) = page("max_pool", [real(x)], POOL, (1, 1, 1, 2))
    assert y.value.ravel().tolist() == [-2, -1] and not y.error.any() and y.error.shape == (1, 1, 1, 2)
    (y,) = page("max_pool", [real(x, [[[[0.0, 3.0], [0.5, 0.0]]]])], POOL, (1, 1, 1, 2))
    assert y.error.ravel().tolist() == [0.5, 3.0]
    (y,) = page("max_pool", [whole(x, x + d * 8)], POOL, TensorSpec("y", "int32", (1, 1, 1, 2)))
    assert y.low.ravel().tolist() == [-2, -1] and y.high.ravel().tolist() == [14, 14]


def test_where_and_concat_join_what_is_known_of_each_branch():
    a, b = real([1.0, 2.0], [0.1, 0.2]), real([3.0, 4.0], [0.3, 0.4])
    (y,) = page("concat", [a, b], (0,), (4,))
    assert y.value.tolist() == [1, 2, 3, 4] and y.error.tolist() == [0.1, 0.2, 0.3, 0.4]
    (y,) = page("where", [whole([0, 2]), a, b], (), (2,))
    assert y.value.tolist() == [3, 2] and y.error.tolist() == [0.3, 0.2]
    with pytest.raises(NoBound, match="integers that depend on floats"):
        page("where", [whole([0, 1], [0, 2]), a, b], (), (2,))


def test_branches_of_other_scales_are_requantized():
    fine = TensorSpec("a", "int8", (2,), scale=(0.25,), zero_point=(0,))
    y = TensorSpec("y", "int8", (4,), scale=(0.5,), zero_point=(1,))
    coarse = TensorSpec("b", "int8", (2,), scale=(0.5,), zero_point=(1,))
    (found,) = page("concat", [whole([4, 6]), whole([7, 8], [7, 9])], (0,), y, a=fine, b=coarse)
    assert isinstance(found, Whole)
    assert found.low.tolist() == [3, 4, 7, 8] and found.high.tolist() == [3, 4, 7, 9]
    assert (found.error[:2] > 0).all() and not found.error[2:].any()
    with pytest.raises(NoBound, match="floats and integers together"):
        page("concat", [whole([4, 6]), real([1.0, 2.0])], (0,), y, a=fine)


@pytest.mark.parametrize("axis", [0, 1])
def test_gather_elements(axis):
    """The indices may be shorter than the tensor along the other axes."""
    indices = np.array([[1, -1], [0, 1]])
    wanted = np.take_along_axis(counted(2, 3)[:, :2] if axis == 0 else counted(2, 3)[:2], indices, axis)
    assert wanted.tolist() == ([[3, 4], [0, 4]] if axis == 0 else [[1, 2], [3, 4]])
    moves("gather_elements", (axis,), (2, 3), wanted, whole(indices))


def test_gather_elements_of_a_part():
    moves("gather_elements", (2,), (2, 3, 4), counted(2, 3, 4)[:1, :2, 3:], whole([[[3], [3]]]))


def test_gather_nd():
    x = counted(2, 3, 4)
    moves("gather_nd", (0,), (2, 3, 4), np.array([x[1, 2], x[0, 1]]), whole([[1, 2], [0, 1]]))
    moves("gather_nd", (0,), (2, 3, 4), np.array([[23], [0]]), whole([[[1, 2, 3]], [[0, 0, 0]]]))
    moves("gather_nd", (1,), (2, 3, 4), np.array([x[0, 2], x[1, 1]]), whole([[2], [1]]))
    moves("gather_nd", (1,), (2, 3, 4), np.array([[x[0, 2, 3]], [x[1, 1, 0]]]), whole([[[2, 3]], [[1, 0]]]))
    x = counted(2, 2, 3)
    moves(
        "gather_nd",
        (2,),
        (2, 2, 3),
        np.array([[x[0, 0, 2], x[0, 1, 1]], [x[1, 0, 0], x[1, 1, 2]]]),
        whole([[[2], [1]], [[0], [2]]]),
    )


def test_tile():
    moves("tile", (), (2, 3), np.tile(counted(2, 3), (2, 1)))
    moves("tile", (), (2, 3), np.tile(counted(2, 3), (1, 3)))
    moves("tile", (), (3,), np.tile(counted(3), (2, 2)))


def test_blocks_of_three():
    x = counted(1, 18, 1, 2)
    dcr = x.reshape(1, 3, 3, 2, 1, 2).transpose(0, 3, 4, 1, 5, 2).reshape(1, 2, 3, 6)
    crd = x.reshape(1, 2, 3, 3, 1, 2).transpose(0, 1, 4, 2, 5, 3).reshape(1, 2, 3, 6)
    moves("depth_to_space", (3, 0), (1, 18, 1, 2), dcr)
    moves("depth_to_space", (3, 1), (1, 18, 1, 2), crd)
