"""Forensics of memory that was not written: what nothing predicts is taken from the record, and the rest must tell enough."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from qverify.plural import count
from qverify.renderers.fault_explanation import verdict
from qverify.triage.forensics import FaultExplanation

from tests.plain.forensic_units import Conv, Small, families, generator

Array = Any


def _rows_apart(y: Array, run: int, stride: int) -> Array:
    """Runs written at a distance of `stride` into memory full of garbage, read dense."""
    rows = y.reshape(-1, run)
    buffer = generator(20).integers(-128, 128, (len(rows), stride)).astype(np.int8)
    buffer[:, :run] = rows
    return buffer.reshape(-1)[: y.size].reshape(y.shape)


def _read_apart(y: Array, run: int, stride: int) -> Array:
    """Dense runs read at a distance of `stride`; garbage follows."""
    memory = np.concatenate([y.reshape(-1), generator(21).integers(-128, 128, stride * y.size // run).astype(np.int8)])
    return np.stack([memory[i * stride : i * stride + run] for i in range(y.size // run)]).reshape(y.shape)


def _garbage(y: Array, *where: Any) -> Array:
    y[where] = generator(25).integers(-128, 128, y[where].shape)
    return y


FAULTS: dict[str, tuple[str, Callable[[Conv], Array]]] = {
    "rows of 16 in garbage": ("alignment", lambda c: _rows_apart(c.out(), 11, 16)),
    "planes of 128 in garbage": ("alignment", lambda c: _rows_apart(c.out(), 99, 128)),
    "rows read 12 apart": ("alignment", lambda c: _read_apart(c.out(), 11, 12)),
    "planes read 112 apart": ("alignment", lambda c: _read_apart(c.out(), 99, 112)),
    "the columns after whole fours are not written": ("vector-tail", lambda c: _garbage(c.out(), ..., np.s_[8:])),
    "the channels after whole eights are not written": ("vector-tail", lambda c: _garbage(c.out(), 0, np.s_[8:])),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_planted_fault_is_named(name: str):
    family, plant = FAULTS[name]
    c = Conv(low=-60, high=90)
    found = c.explained(plant(c))
    assert found.exact and family in families(found)[0], (found.exact, found.partial)
    assert len(found.kinds) <= 2 and not found.not_tried


def test_a_stride_where_a_row_is_whole_vectors_already():
    x = generator(23).integers(-128, 128, (1, 4, 6, 16)).astype(np.int8)
    small = Small("transpose", (0, 1, 2, 3), ("int8", 0.1, 0), x.shape, x=(x, 0.1, 0))
    found = small.explained(_rows_apart(x, 16, 32))
    assert families(found) == [{"alignment"}] and "rows of 32" in found.exact[0][0].said


def test_what_is_taken_from_the_record_is_said():
    c = Conv()
    found = c.explained(_rows_apart(c.out(), 11, 16))
    (cause,) = found.exact[0]
    assert cause.taken == 990 - 990 // 16 * 11 - min(11, 990 % 16) and cause.bits > 8 * cause.taken
    assert f"except {count(cause.taken, 'element')} that nothing predicts" in verdict(found)
    other = verdict(c.explained(c.out(c.acc(zero=0))))
    same = "; or the input is used without subtracting its zero point; or each of the two operands is used without"
    assert other.startswith(
        f"CANDIDATE: zero point of the input: 0 instead of -7{same} subtracting its zero point (all the same at this node)"
    )
    assert "nothing predicts" not in other


def _unexplained(found: FaultExplanation) -> bool:
    return found.unexplained and not found.exact and not found.general


@pytest.mark.parametrize("seed", range(3))
def test_what_goes_with_the_computed_is_no_garbage(seed: int):
    c, rng = Conv(), generator(seed)
    near, half, every = c.out(), c.out(), c.out()
    near[..., 8:] = np.clip(near[..., 8:].astype(int) // 2 + rng.integers(-9, 10, (1, 10, 9, 3)), -128, 127)
    some = rng.random(half[..., 8:].shape) < 0.5
    half[..., 8:][some] = rng.integers(-128, 128, int(some.sum()))
    every[..., 1:] = rng.integers(-128, 128, every[..., 1:].shape)
    for recorded in (near, half, every):
        found = c.explained(recorded)
        assert _unexplained(found), found.exact


@pytest.mark.parametrize("seed", range(3))
def test_a_stride_must_predict_something(seed: int):
    """Three elements of a value that stands everywhere tell nothing."""
    x = np.full((1, 1, 2, 24), 7, np.int8)
    x[..., :3] = 9
    small = Small("transpose", (0, 1, 2, 3), ("int8", 0.1, 0), x.shape, x=(x, 0.1, 0))
    spoiled = generator(seed).integers(-128, 128, x.shape).astype(np.int8)
    spoiled[0, 0, 0] = x[0, 0, 0]
    assert _unexplained(small.explained(spoiled))


def test_ten_elements_of_the_frame_before():
    """What stands nowhere among the computed elements is rare, though there are few of them."""
    x = np.array([[0, 0, 0, 0, 248, 0, 0, 6, 0, 0]], np.uint8)
    old = np.array([[0, 0, 0, 19, 0, 23, 0, 30, 0, 0]], np.uint8)
    small = Small("transpose", (0, 1), ("uint8", 1.0, 0), x.shape, x=(x, 1.0, 0))
    assert families(small.explained(old, previous=lambda n: old if n == "y" else None)) == [{"stale-buffer"}]
    near = np.where(x == 248, 0, x).astype(np.uint8)
    assert "stale-buffer" not in str(families(small.explained(near, previous=lambda n: near if n == "y" else None)))


@pytest.mark.parametrize(("value", "paid"), [(0, 0), (4, 0), (77, 8)])
def test_a_value_that_the_rest_keeps_is_paid_for_unless_it_is_zero(value: int, paid: int):
    x = generator(27).integers(-128, 0, (1, 40)).astype(np.int8)
    small = Small("transpose", (0, 1), ("int8", 0.1, 4), x.shape, x=(x, 0.1, 4))
    half = x.copy()
    half[0, 20:] = value
    cause = next(c for group in small.explained(half).exact for c in group if "the first half only" in c.said)
    assert cause.said.endswith(f"the rest keeps what was in memory, {value} everywhere") and cause.bits == 2 + paid


@pytest.mark.parametrize(("value", "paid"), [(0, 0), (3, 0), (77, 8)])
def test_a_value_between_the_parts_of_a_concat_is_paid_for_unless_it_is_zero(value: int, paid: int):
    """Every operand is written one slice too late: nothing is written to the first one."""
    a, b = (generator(n).integers(100, 256, (1, n, 5)).astype(np.uint8) for n in (2, 4))
    small = Small("concat", (1,), ("uint8", 0.5, 3), (1, 6, 5), a=(a, 0.5, 3), b=(b, 0.5, 3))
    late = np.concatenate([np.full((1, 1, 5), value, np.uint8), a, b], 1)[:, :6]
    (cause,) = (c for group in small.explained(late).exact for c in group if "one slice too late" in c.said)
    assert cause.said.endswith(f"; what is not written is {value}") and cause.bits == 1.5 + paid
