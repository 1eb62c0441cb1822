"""Where two stages differ first, what is around it, how it is described, and what it tells of a cause."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper
from qverify.model_bin.units import Unit, units
from qverify.onnx_model.graph_view import GraphView
from qverify.report.document import Forced
from qverify.tensors.spec import TensorSpec
from qverify.triage.altered_kernels.memory_sources import memory_sources, output_from_all
from qverify.triage.case import Case, noise
from qverify.triage.difference_description import describe_difference, drawing
from qverify.triage.divergence import agreeing, first_of, forced_pieces, pieces
from qverify.triage.loss import nearest
from qverify.triage.neighbourhood import neighbourhoods, numbers

from tests.plain.fault_units import Table
from tests.plain.forensic_units import Small

Array = Any


def view() -> GraphView:
    """x -> Relu a -> Add(a, c) b -> Add(b, a) d -> y; c a constant; Add(d, z) y."""
    info = helper.make_tensor_value_info
    nodes = [helper.make_node("Relu", ["x"], ["a"]), helper.make_node("Add", ["a", "c"], ["b"]),
             helper.make_node("Add", ["b", "a"], ["d"]), helper.make_node("Add", ["d", "z"], ["y"])]  # fmt: skip
    const = helper.make_tensor("c", TensorProto.FLOAT, [1], [1.0])
    ends = [info(n, TensorProto.FLOAT, [4]) for n in "xzy"]
    return GraphView(helper.make_model(helper.make_graph(nodes, "g", ends[:2], ends[2:], [const])), "made")


@pytest.mark.parametrize(
    ("tensor", "known", "found"),
    [
        ("y", "xabdz", ["d", "z"]),
        ("y", "xz", ["z", "x"]),
        ("y", "xazc", ["z", "a"]),
        ("d", "xab", ["b", "a"]),
        ("d", "a", ["a"]),
        ("a", "ab", []),
        ("x", "xab", []),
        ("y", "y", []),
    ],
)
def test_the_nearest_known_tensors(tensor: str, known: str, found: list[str]) -> None:
    assert nearest(view(), tensor, known) == found


def test_which_tensors_agree() -> None:
    one = {"a": np.ones(4), "b": np.ones(4), "c": np.ones(4), "d": np.ones(4), "e": np.ones(4)}
    other = {"a": np.ones(4), "b": np.ones(4) + 1.01e-4, "c": np.ones(4) + 0.99e-4, "d": np.ones(5)}
    assert agreeing(one, other) == {"a": True, "b": False, "c": True}
    assert agreeing({"a": np.array([1e4])}, {"a": np.array([9999.0])}) == {"a": True}  # 80 dB


def test_each_tensor_on_the_other_files_values() -> None:
    parts = pieces(view(), {"a": True, "d": True, "y": False})
    assert [(u.name, u.op, u.inputs, u.outputs) for u in parts if u.integer_reference] == [
        ("a", "Relu", ("x",), ("a",)),
        ("d", "Add", ("a",), ("d",)),
        ("y", "Add", ("d", "z"), ("y",)),
    ]
    values = {n: np.ones(4, np.float32) for n in "xadzy"}
    asked: list[str] = []

    def alone(name: str, given: Any) -> Array:
        asked.append(name)
        assert set(given) == {"d", "z"}
        return np.float32([1, 1, 1.5, 1])

    found = forced_pieces(parts, {"a": True, "d": True, "y": False}, values, alone)
    assert asked == ["y"] and [f.verdict for f in found.values()] == ["PASSED", "PASSED", "FAILED"]
    assert (found["a"].mismatched, found["a"].max_abs, found["a"].elements, found["a"].limit) == (0, 0.0, 4, "80 dB")
    assert found["a"].why == "inputs and outputs agree"
    assert (found["y"].mismatched, found["y"].max_abs, found["y"].elements) == (1, 0.5, 4)
    same = forced_pieces(parts[2:], {"y": False}, values, lambda name, given: values["y"])
    assert same["y"].verdict == "PASSED"
    near = forced_pieces(
        parts[2:], {"y": False}, {n: v * 10_000 for n, v in values.items()}, lambda *_: values["y"] * 9999
    )
    assert near["y"].verdict == "PASSED"  # 80 dB
    other = forced_pieces(parts[2:], {"y": False}, values, lambda name, given: np.ones(5, np.float32))
    assert (other["y"].verdict, other["y"].mismatched, other["y"].max_abs) == ("FAILED", None, None)
    assert forced_pieces(parts[2:], {"y": False}, {n: values[n] for n in "dy"}, alone) == {}
    differing = forced_pieces(parts[1:2], {"a": False, "d": True}, values, lambda name, given: values["d"])
    assert differing["d"].why == ""  # it was computed


def test_the_first_that_differs() -> None:
    parts = pieces(view(), {"a": True, "d": True, "y": False})
    assert first_of(parts, []) is None
    found = first_of(parts, ["d", "y"])
    assert found is not None and (found.tensor, found.node, found.op, found.also) == ("d", "d", "Add", ["y"])


def test_what_is_around_a_tensor() -> None:
    def unit(name: str, op: str, *inputs: str) -> Unit:
        return Unit(name, op, (), inputs, (name,), True)

    around = [unit("a", "conv", "x"), unit("b", "add", "a", "k"), unit("c", "mul", "b"), unit("d", "mul", "b")]
    forced = {
        "b": Forced("FAILED", 3, 7, elements=9),
        "c": Forced("PASSED", 0, 0),
        "d": Forced("FAILED", None, None, why="?"),
    }
    states = {"a": True, "c": False}
    found = neighbourhoods(around, ("x",), states.get, forced, ["b", "a", "x"])
    marks = [[(n.tensor, n.op, n.mark, n.why) for n in [one.at, *one.above, *one.below]] for one in found]
    fails = ("b", "add", "fails forced", "7 of 9 elements, up to 3 LSB")
    assert marks == [
        [
            fails,
            ("a", "conv", "agree", ""),
            ("k", "input", "not known", ""),
            ("c", "mul", "differ", ""),
            ("d", "mul", "fails forced", "?"),
        ],
        [("a", "conv", "agree", ""), ("x", "input", "given", ""), fails],
        [("x", "input", "given", ""), ("a", "conv", "agree", "")],
    ]
    assert [(len(n.above), len(n.below)) for n in found] == [(2, 2), (1, 1), (0, 1)]
    assert len(neighbourhoods(around, (), states.get, {}, list("abcdab"))) == 4
    (made,) = neighbourhoods(around, ("x",), states.get, forced, ["b"], {"k"})
    assert [n.op for n in made.above] == ["conv", "on the host"]


def test_how_far_a_forced_tensor_is_off() -> None:
    assert numbers(Forced("FAILED", None, 2, 0.012345, 8)) == "2 of 8 elements, up to 0.0123"
    assert numbers(Forced("FAILED", None, 2, None, 8)) == "2 of 8 elements, up to 0"
    assert numbers(Forced("FAILED", 0, 2, 5.0, 8)) == "2 of 8 elements, up to 0 LSB"


def test_how_two_tensors_differ() -> None:
    made = np.full((1, 2, 6, 4), 20, np.int8)
    recorded = made.copy()
    recorded[0, 1, 1::2] = 23
    recorded[0, 1, 3, 2] = 15
    found = describe_difference(made, recorded, TensorSpec("y", "int8", made.shape, layout="NHWC"))
    assert (found.dtype, found.shape, found.elements, found.differing) == ("int8", (1, 2, 6, 4), 48, 12)
    assert (found.max_abs, found.up, found.steps, found.not_finite) == (5.0, 11 / 12, {3: 11, -5: 1}, 0)
    axes = [(a.name, a.size, a.first, a.last, a.touched, a.whole, a.period) for a in found.axes]
    assert axes == [
        ("N", 1, 0, 0, 1, (), 0),
        ("H", 2, 1, 1, 1, (), 0),
        ("W", 6, 1, 5, 3, (), 2),
        ("C", 4, 0, 3, 4, (), 0),
    ]
    assert found.drawing == tuple((0.5 * (row % 2),) * 4 for row in range(6))
    whole = describe_difference(made, made + np.int8(1), TensorSpec("y", "int8", made.shape))
    assert [(a.name, a.whole, a.period) for a in whole.axes] == [
        ("N", (0,), 0), ("C", (0, 1), 0), ("H", (0, 1, 2, 3, 4, 5), 0), ("W", (0, 1, 2, 3), 0)
    ]  # fmt: skip
    same = describe_difference(made, made, TensorSpec("y", "int8", made.shape))
    assert (same.differing, same.axes, same.drawing, same.up, same.max_abs) == (0, (), (), 0.0, 0.0)


def test_how_floats_differ() -> None:
    made, recorded = np.float32([0, 1, 2, 3, 4]), np.float32([-0.0, np.nan, np.inf, 2.5, 4])
    found = describe_difference(made, recorded, TensorSpec("y", "float32", (5,)))
    assert (found.differing, found.max_abs, found.steps, found.not_finite, found.up) == (4, 0.5, {}, 2, 0.25)
    assert [a.name for a in found.axes] == ["W"]
    for shape, names in (((2, 2), "NC"), ((1, 2, 2), "NCW"), ((1, 1, 1, 2, 2), "abcde")):
        a = np.zeros(shape, np.float32)
        assert "".join(x.name for x in describe_difference(a, a + 1, TensorSpec("y", "float32", shape)).axes) == names


def test_many_steps_are_counted_by_the_commonest() -> None:
    made, recorded = np.zeros(400, np.int16), np.repeat(np.arange(1, 21), 20).astype(np.int16)
    recorded[:5] = 9
    found = describe_difference(made, recorded, TensorSpec("y", "int16", (400,)))
    assert len(found.steps) == 16 and next(iter(found.steps.items())) == (9, 25)
    assert found.axes[0].whole == tuple(range(16))


@pytest.mark.parametrize(
    ("shape", "cells"),
    [
        ((7,), (1, 7)),
        ((3, 5), (3, 5)),
        ((2, 30, 100), (12, 48)),
        ((1, 9, 1, 1), (1, 9)),
        ((), (1, 1)),
        ((2, 30, 1), (12, 1)),
        ((2, 1, 2), (1, 2)),
        ((4, 2, 1), (2, 1)),
        ((1,), (1, 1)),
    ],
)
def test_the_size_of_a_drawing(shape: tuple[int, ...], cells: tuple[int, int]) -> None:
    found = drawing(np.ones(shape, bool))
    assert (len(found), len(found[0])) == cells and {v for row in found for v in row} == {1.0}


def test_a_drawing_folds_what_is_before_the_last_two_axes() -> None:
    apart = np.zeros((2, 2, 2, 3), bool)
    apart[0, 1, 0, 2] = True
    assert drawing(apart) == ((0.0, 0.0, 0.25), (0.0, 0.0, 0.0))


@pytest.mark.parametrize(
    ("touched", "period"),
    [([0, 2, 4], 2), ([1, 4], 0), ([0, 1, 2], 0), ([0, 2, 5], 0), ([0, 2, 3], 0), ([1, 4, 7], 3), ([5], 0)],
)
def test_how_often_a_difference_returns(touched: list[int], period: int) -> None:
    made = np.zeros((2, 9), np.int8)
    recorded = made.copy()
    recorded[0, touched] = 1
    axis = describe_difference(made, recorded, TensorSpec("y", "int8", (2, 9))).axes[1]
    assert (axis.first, axis.last, axis.touched, axis.period) == (touched[0], touched[-1], len(touched), period)


@pytest.mark.parametrize(
    ("layout", "shape", "names"),
    [("NHWC", (1, 2, 2, 2), "NHWC"), ("NHWC", (1, 2, 2), "NCW"), ("NCW", (1, 2, 2), "NCW"), ("NC", (2, 2), "NC")],
)
def test_what_axes_are_called(layout: str, shape: tuple[int, ...], names: str) -> None:
    a = np.zeros(shape, np.int8)
    found = describe_difference(a, a + np.int8(1), TensorSpec("y", "int8", shape, layout=layout))
    assert "".join(axis.name for axis in found.axes) == names


def test_noise_keeps_what_it_must() -> None:
    index = np.arange(5, dtype=np.int32)
    assert noise(index, "x", 1) is index
    a, b = noise(np.zeros(1000, np.int8), "x", 1), noise(np.zeros(1000, np.int8), "y", 1)
    assert a.dtype == np.int8 and (a.min(), a.max()) == (-128, 127) and (a != b).any()
    assert (
        np.array_equal(a, noise(np.zeros(1000, np.int8), "x", 1))
        and (a != noise(np.zeros(1000, np.int8), "x", 2)).any()
    )
    floats = noise(np.float32([2, 5, np.nan, np.inf] * 100), "x", 1)
    assert floats.dtype == np.float32 and 2 <= floats.min() < 2.5 and 4.5 < floats.max() <= 5
    below = noise(np.float32([-5, 0] * 200), "x", 1)  # whose largest is zero: up to one
    assert -5 <= below.min() < -4 and 0.5 < below.max() <= 1
    none = noise(np.full(400, np.nan, np.float32), "x", 1)
    assert -1 <= none.min() < -0.5 and 0.5 < none.max() <= 1


def test_noise_of_a_case_is_of_every_tensor() -> None:
    """Those of the board and of the frame before by their own names; none where there is none."""
    unit, tensors = Table(4, 10), {"k": np.zeros(1000, np.int8)}
    case = unit.case(unit.y, board=tensors.get, previous=tensors.get, raw=b"raw")
    assert case.differing.size == 0  # kept, but not for the noise
    other = case.on_noise(1)
    assert "kept" not in repr(case) and "states" not in repr(case)  # long, and of no interest
    assert other.raw is None and other.cache == {} and np.array_equal(other.inputs["x"], noise(unit.x, "x", 1))
    assert np.array_equal(other.board("k"), noise(tensors["k"], "boardk", 1))
    assert np.array_equal(other.previous("k"), noise(tensors["k"], "previousk", 1))
    assert other.board("absent") is None and other.previous("absent") is None
    assert np.array_equal(other.healthy, unit.read(other.inputs["x"]))


def test_places_of_a_unit() -> None:
    unit = Table(4, 10)
    case = unit.case(unit.y)
    assert [(p.name, p.kind, p.label) for p in memory_sources(case)] == [
        ("y", "output", "the output"), ("x", "input", "the input"), ("c_table", "constant", "the table")
    ]  # fmt: skip
    assert [p.name for p in memory_sources(case, "constant", "output")] == ["y", "c_table"]
    a, b = np.array([8, 20], np.int8), np.array([-6, 10], np.int8)
    rq = np.array([0.25, 0.5])
    small = Small("add", (0, -128, 127), ("int8", 1.0, 3), (2,), a=(a, 0.25, 4), b=(b, 0.5, -6), c_rq=(rq,))
    two = Case(small.graph, units(small.graph)[0], small.inputs, "y", a)
    assert [p.label for p in memory_sources(two)] == ["the output", "the input a", "the input b", "the scales"]
    assert two.healthy.tolist() == [4, 15] and output_from_all(two, lambda v: v[::-1])(two).tolist() == [15, 4]
