"""Contents in several pieces are the bytes of all, and sums of bytes are those of wider integers."""

from __future__ import annotations

import hashlib
from functools import partial

import numpy as np
import pytest
from qverify.arithmetic.byte_sums import sum_rows
from qverify.arithmetic.exact_matmul import largest_partial_sum
from qverify.onnx_model.saturated_constants import _at_ends
from qverify_agents.pieces import Pieces


def test_every_part_of_pieces() -> None:
    parts = [b"", b"abc", memoryview(b"d"), b"", memoryview(b"efgh"), b"i"]
    whole, pieces = b"abcdefghi", Pieces(parts)
    assert len(pieces) == len(whole) and bytes(pieces) == whole and len(Pieces([])) == 0 and bytes(Pieces([])) == b""
    assert pieces.sha256() == hashlib.sha256(whole).hexdigest()
    for start in range(len(whole) + 2):
        for stop in range(len(whole) + 3):
            assert bytes(pieces[start:stop]) == whole[start:stop], (start, stop)


@pytest.mark.parametrize("kind", [np.int8, np.uint8])
@pytest.mark.parametrize("rows", [1, 254, 255, 256, 1000])
def test_sums_of_the_ends_of_a_type(kind: type, rows: int) -> None:
    """A block never overflows, even if all its numbers are the largest or the smallest."""
    limits = np.iinfo(kind)
    for value in (limits.min, limits.max):
        values = np.full((rows, 3), value, kind)
        assert (sum_rows(values, lambda block: block) == rows * value).all()
        assert (sum_rows(values, partial(np.equal, value)) == rows).all()


@pytest.mark.parametrize("kind", [np.int8, np.uint8, np.int16, np.int64])
def test_the_largest_partial_sum(kind: type) -> None:
    random = np.random.default_rng(0)
    limits = np.iinfo(kind) if kind != np.int64 else np.iinfo(np.int16)
    for low, high in ((-128, 127), (0, 255), (-255, 0)):
        weights = random.integers(limits.min, limits.max + 1, (5, 700)).astype(kind)
        wide = weights.astype(object)
        most = max(
            max(
                sum(max(x * w for x in (low, 0, high)) for w in row),
                -sum(min(x * w for x in (low, 0, high)) for w in row),
            )
            for row in wide
        )
        assert largest_partial_sum((low, high), weights) == most


@pytest.mark.parametrize("shape, axis", [((600, 7), 1), ((7, 600), 0), ((3, 4, 5, 6), 2), ((700, 3), -1), ((9, 1), 1)])
@pytest.mark.parametrize("kind", [np.int8, np.uint8])
def test_weights_at_the_ends(kind: type, shape: tuple[int, ...], axis: int) -> None:
    limits = np.iinfo(kind)
    value = np.random.default_rng(0).integers(limits.min, limits.max + 1, shape).astype(kind)
    ends = (value == limits.max) | (value == limits.min) | (value == -127 if kind == np.int8 else False)
    channels = shape[axis]
    expected = np.moveaxis(ends, axis, 0).reshape(channels, -1).sum(1)
    assert (_at_ends(value, channels, axis) == expected).all()
    assert (_at_ends(value, 1, axis) == [ends.sum()]).all()
