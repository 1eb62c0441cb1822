"""What a node's page does not carry is carried through it: the smaller error of qverify's own sides, and lost elements."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from qverify.compare.error_bounds.bounded_values import BEYOND, BoundedValue, NoBound, Real, Whole, gamma
from qverify.compare.error_bounds.carry_through import SHARE, carry_through
from qverify.compare.error_bounds.chain import PAGES
from qverify.model_bin.graph import Graph, Node
from qverify.tensors.spec import TensorSpec

from tests.plain.error_pages import FLUSHED, U, g, real, rounded, whole

ADD, SIGMOID = (0, 0, 0), (18, 0, 0)
INT8 = TensorSpec("y", "int8", (2,), scale=(0.5,), zero_point=(0,))


def through(op: str, words: tuple[int, ...], *inputs: BoundedValue | None, y: TensorSpec | None = None) -> Any:
    """The output of one node of the op on these inputs, through `carry_through`."""
    names = "abc"[: len(inputs)]
    tensors = {
        n: replace(INT8, name=n) if isinstance(v, Whole) else _floats(n) for n, v in zip(names, inputs, strict=True)
    }
    graph = Graph([], tensors | {"y": y or _floats("y")}, {}, (), ())
    with np.errstate(all="ignore"):
        (made,) = carry_through(PAGES[op], Node("y", op, tuple(names), ("y",), words), [*inputs], graph)
    return made


def _floats(name: str) -> TensorSpec:
    return TensorSpec(name, "float32", (2,))


def lost(*elements: int) -> np.ndarray[Any, Any]:
    return np.array(elements, bool)


def test_what_has_no_error_of_its_own_gets_none() -> None:
    y = through("elementwise_float", ADD, real([1.0, -2.0], 0.5), real([4.0, 8.0], 0.25))
    assert y.ours is None and y.lost is None and not y.mixed
    assert y.error.tolist() == [rounded(5, 0.75), rounded(6, 0.75)]


def test_the_smaller_error_is_that_of_the_node_for_the_smaller_errors() -> None:
    """One input has a smaller error; the other has the error of every side."""
    own = replace(real([1.0, -2.0], 0.5), ours=np.array([0.125, 0.0]))
    for inputs in ((own, real([4.0, 8.0], 0.25)), (real([4.0, 8.0], 0.25), own)):
        y = through("elementwise_float", ADD, *inputs)
        assert y.error.tolist() == [rounded(5, 0.75), rounded(6, 0.75)]
        assert y.ours.tolist() == [rounded(5, 0.375), rounded(6, 0.25)]
        assert y.lost is None and not y.mixed


def test_a_node_with_a_smaller_error_of_its_own_adds_that_one() -> None:
    """A sigmoid of exact floats is rounded once by qverify's own sides."""
    x, y = real([0.5, -3.0]), 1 / (1 + np.exp(-np.array([0.5, -3.0])))
    once = (U * y + FLUSHED).tolist()
    assert through("elementwise_float", SIGMOID, x).ours.tolist() == pytest.approx(once, rel=1e-12)
    exact = through("elementwise_float", SIGMOID, replace(x, ours=np.array([0.0, 0.0])))
    assert exact.ours.tolist() == pytest.approx(once, rel=1e-12) and (exact.error > exact.ours).all()
    known = through("elementwise_float", SIGMOID, replace(real([0.5, -3.0], 0.25), ours=np.array([0.0, 0.0])))
    assert known.ours.tolist() == pytest.approx(once, rel=1e-12) and (known.error > 0.01).all()


def test_the_smaller_interval_of_integers_is_carried_too() -> None:
    x = replace(whole([1, 5], [3, 9]), ours=(np.array([2, 5]), np.array([2, 6])))
    y = through("reshape", (), x, y=INT8)
    assert [v.tolist() for v in (y.low, y.high, *y.ours)] == [[1, 5], [3, 9], [2, 5], [2, 6]]
    y = through("dequantize", (), x)
    assert y.error.tolist() == [rounded(1.0, 0.5, 2), rounded(3.5, 1.0, 2)]
    assert y.ours.tolist() == [rounded(1.0, 0.0, 2), rounded(2.75, 0.25, 2)]
    y = through("quantize", (), replace(real([1.2, 1.3], 0.5), ours=np.array([0.0, 0.01])), y=INT8)
    assert [v.tolist() for v in (y.low, y.high, *y.ours)] == [[1, 2], [3, 4], [2, 3], [2, 3]]


def test_lost_is_what_reads_lost_elements() -> None:
    x = replace(real([1.0, -2.0], 0.5), lost=lost(0, 1))
    y = through("elementwise_float", ADD, x, real([4.0, 8.0]))
    assert y.lost.tolist() == [False, True] and y.error.tolist() == [rounded(5, 0.5), rounded(6, 0.5)]
    y = through("reduce_mean", (1, 0, 0), x, y=TensorSpec("y", "float32", (1,)))
    assert y.lost.tolist() == [True]
    y = through("elementwise_float", ADD, x, real([np.nan, np.nan]))
    assert y.lost is None  # it is NaN on every side
    y = through("elementwise_float", ADD, x, replace(real([4.0, 8.0]), lost=lost(1, 0)))
    assert y.lost.tolist() == [True, True]


@pytest.mark.parametrize("own", [None, [2.0**-4, 2.0**-4], [2.0**-30, 2.0**-30]])
def test_where_it_is_lost_our_own_error_is_small(own: list[float] | None) -> None:
    """2^-18 of the largest finite value, or the own error where that is less; elsewhere it stays."""
    x = replace(real([8.0, 1.0, np.inf], 0.5), lost=lost(0, 1, 0), ours=None if own is None else np.array([*own, 0.5]))
    y = through("reshape", (), x, y=TensorSpec("y", "float32", (3,)))
    elsewhere, there = (0.5, 0.5) if own is None else own
    assert y.lost.tolist() == [False, True, False]
    assert y.ours.tolist() == [elsewhere, min(there, 2.0**-18 * 8 + FLUSHED), 0.5] and y.mixed == (own is None)
    assert SHARE == 2.0**-18


def test_of_zeros_the_small_error_is_what_flushing_loses() -> None:
    y = through("reshape", (), replace(real([0.0, 0.0], np.inf), lost=lost(0, 1)))
    assert y.ours.tolist() == [np.inf, FLUSHED]


@pytest.mark.parametrize("at", [0, 1])
def test_mixed_stays_with_what_is_computed_from_it(at: int) -> None:
    inputs = [real([1.0, -2.0], 0.5), real([4.0, 8.0])]
    inputs[at] = replace(inputs[at], mixed=True)
    assert through("elementwise_float", ADD, *inputs).mixed
    own = replace(real([8.0, 1.0], 0.5), lost=lost(0, 1), ours=np.array([0.25, 0.25]), mixed=True)
    assert through("reshape", (), own).mixed


def test_lost_integers_are_followed_to_no_element() -> None:
    x = replace(whole([1, 5]), lost=lost(0, 1))
    for y in (through("reshape", (), x, y=INT8), through("dequantize", (), x)):
        assert y.lost.tolist() == [True, True]
    y = through("reshape", (), whole([1, 5]), y=INT8)
    assert y.lost is None


def test_quantized_lost_elements_are_lost() -> None:
    x = replace(real([1.2, 1.3], 0.5), lost=lost(0, 1))
    y = through("quantize", (), x, y=INT8)
    assert y.lost.tolist() == [False, True] and y.low.tolist() == [1, 2]


def test_integers_of_lost_floats_without_an_error_are_all_lost() -> None:
    x = replace(real([1.2, 1.3]), lost=lost(0, 1))
    graph = Graph([], {}, {}, (), ())
    for before in (None, lost(1, 0)):

        def page(node: Node, inputs: list[BoundedValue | None], graph: Graph, error: Any = None) -> list[BoundedValue]:
            (of,) = inputs
            assert isinstance(of, Real)
            return [Whole(np.array([1, 1]), np.array([1, 1]), of.error if error else None, None, before)]  # noqa: B023

        (y,) = carry_through(page, Node("y", "reshape", ("a",), ("y",), ()), [x], graph)
        assert y.lost is not None and y.lost.tolist() == [True, True]
        (y,) = carry_through(lambda *of: page(*of, error=True), Node("y", "reshape", ("a",), ("y",), ()), [x], graph)
        assert y.lost is not None and y.lost.tolist() == [before is not None, True]


LARGEST = float(np.finfo(np.float32).max)


@pytest.mark.parametrize(
    ("value", "error", "wanted"),
    [
        (LARGEST, 0.0, (LARGEST, 0.0, False)),
        (BEYOND, 0.0, (np.inf, 0.0, False)),
        (-BEYOND, 0.0, (-np.inf, 0.0, False)),
        (-2 * BEYOND, BEYOND, (-np.inf, 0.0, False)),
        (2 * BEYOND, 1.25 * BEYOND, (2 * BEYOND, 1.25 * BEYOND, True)),
        (BEYOND / 2, BEYOND / 2, (BEYOND / 2, BEYOND / 2, True)),
        (-BEYOND / 2, BEYOND / 2, (-BEYOND / 2, BEYOND / 2, True)),
        (BEYOND / 2, BEYOND / 4, (BEYOND / 2, BEYOND / 4, False)),
        (1.0, np.inf, (1.0, np.inf, False)),
        (np.inf, 0.0, (np.inf, 0.0, False)),
    ],
)
def test_a_value_that_float32_does_not_hold(value: float, error: float, wanted: tuple[float, float, bool]) -> None:
    y = real([value, 1.0], [error, 0.25]).as_float32()
    assert (y.value[0], y.error[0], y.lost is not None) == wanted
    assert (y.value[1], y.error[1]) == (1.0, 0.25) and (y.lost is None or not y.lost[1])


def test_roundings_are_counted() -> None:
    y = replace(real([-3.0, 0.0], [0.25, 0.0]), lost=lost(1, 0)).rounded(4)
    assert (
        y.error.tolist() == [rounded(-3, 0.25, 4), FLUSHED] and y.lost is not None and y.lost.tolist() == [True, False]
    )
    assert y.ours is None and real([1.0]).rounded().error.tolist() == [rounded(1.0, 0.0)]
    assert gamma(0) == 0 and gamma(7) == g(7)


def test_lost_where_any_says_so() -> None:
    x = real([1.0, 2.0, 3.0])
    assert x.mark_lost(lost(0, 0, 0)).lost is None and x.mark_lost().lost is None
    once = x.mark_lost(lost(0, 1, 0), np.array(False))
    assert once.lost is not None and once.lost.tolist() == [False, True, False]
    twice = once.mark_lost(lost(0, 0, 1)).lost
    assert twice is not None and twice.tolist() == [False, True, True]
    large = x.mark_lost_if_large(np.array([2.0**127, -(2.0**127), 2.0**126])).lost
    assert large is not None and large.tolist() == [True, True, False]
    shaped = replace(once, ours=np.array([1.0, 2.0, 3.0])).shaped((3, 1))
    assert shaped.ours is not None and shaped.lost is not None
    assert shaped.ours.tolist() == [[1.0], [2.0], [3.0]] and shaped.lost.tolist() == [[False], [True], [False]]


def test_integers_where_floats_are_wanted() -> None:
    with pytest.raises(NoBound, match="integers where floats"):
        through("elementwise_float", ADD, whole([1, 2]), real([1.0, 2.0]))
