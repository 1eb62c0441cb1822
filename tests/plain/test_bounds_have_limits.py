"""An element whose error has no limit is not judged by it, and what is masked has no error."""

from __future__ import annotations

import numpy as np
import pytest
from qverify.compare.error_bounds import rows
from qverify.compare.error_bounds.bounded_values import Real, bound_exactly
from qverify.compare.limits import Limit
from qverify.compare.node_by_node import find_after_float
from qverify.compiler.compile_model import compile_model
from qverify.model_bin.graph import Graph, Node
from qverify.model_bin.units import units
from qverify.tensors.spec import TensorSpec

from tests.ops.case_files import CASES
from tests.ops.qdq import Qdq
from tests.plain.test_tie_aware import bound

MASKED = float(np.finfo(np.float32).min)  # what attention adds to an element that it leaves out


@pytest.mark.parametrize("op", ["softmax_float", "log_softmax"])
@pytest.mark.parametrize("low", [MASKED, -np.inf])
def test_a_masked_element_has_no_error_and_gives_none_to_others(op: str, low: float) -> None:
    row = np.array([[0.5, -0.25, low, low]], np.float32)
    graph = Graph([], {"y": TensorSpec("y", "float32", row.shape)}, {}, (), ())
    with np.errstate(invalid="ignore"):
        (found,) = getattr(rows, op)(Node("y", op, ("x",), ("y",), (1, 4)), [bound_exactly(row)], graph)
    assert isinstance(found, Real)
    apart = found.error.reshape(-1)
    assert (apart[:2] < 1e-5).all() and (op == "log_softmax" or (apart < 1e-5).all())


def reciprocal_of_a_mean() -> Graph:
    """y = quantize(1 / mean(x)): a mean of what cancels may be 0."""
    tensors = {
        n: TensorSpec(n, "float32", s, interior=n in "md") for n, s in (("x", (1, 2)), ("m", (1, 1)), ("d", (1, 1)))
    }
    tensors["one"] = TensorSpec("one", "float32", (1, 1))
    tensors["y"] = TensorSpec("y", "uint16", (1, 1), scale=(1.0,), zero_point=(0,))
    nodes = [
        Node("m", "reduce_mean", ("x",), ("m",), (2, 0, 0), (), False),
        Node("d", "elementwise_float", ("one", "m"), ("d",), (3, 0, 0), (), False),
        Node("y", "quantize", ("d",), ("y",)),
    ]
    return Graph(nodes, tensors, {"one": np.ones((1, 1), np.float32)}, ("x",), ("y",))


def test_what_has_no_limit_keeps_the_plain_one() -> None:
    """Anything would be within an infinite error."""
    kept = bound(reciprocal_of_a_mean(), [[100]], [[60000]], [[2.0**20, -(2.0**20) + 2.0**-4]])
    assert isinstance(kept, Limit) and kept.text.endswith(
        "(no float64 evaluation of reduce_mean+elementwise_float at 1 element, whose error has no limit)"
    ), kept


@pytest.mark.parametrize("name", ["qgemm_to_float"])
def test_a_float_output_of_an_integer_operator_is_judged_as_floats_are(name: str) -> None:
    m = Qdq(seed=3)
    CASES[name][0](m)
    graph = compile_model(m.model().SerializeToString(), "q.onnx").graph
    made = [n.name for n in graph.nodes if n.op == "fully_connected"]
    assert made and find_after_float(graph, units(graph)) >= {*made} and not graph.spec(made[0]).integer_reference


def test_equal_infinities_are_no_difference_to_the_compiler() -> None:
    m = Qdq(seed=4)
    x = m.input((2, 5))
    low = m.constant("low", np.float32(-np.inf))
    kept = m.constant("kept", np.array([True, True, False, True, False]))
    m.output(m.op("Where", [kept, m.op("Relu", [x]), low]))
    check = compile_model(m.model().SerializeToString(), "q.onnx").graph.meta["check"]
    assert check["units"] and not check["over"], check


def test_nan_shows_the_compiler_nothing() -> None:
    """The root of negative numbers: a tensor that is NaN on both sides compares nothing: it is not checked."""
    m = Qdq(seed=4)
    below = m.op("Sub", [m.op("Neg", [m.op("Abs", [m.input((2, 5))])]), m.constant("one", np.float32(1.0))])
    m.output(m.op("Sqrt", [below]))
    compiled = compile_model(m.model().SerializeToString(), "q.onnx").graph
    check = compiled.meta["check"]
    assert len(check["not_checked"]) == 1 and not check["over"], check
    assert check["units"] == len(units(compiled)) - 1  # a unit of which nothing was compared is none that was checked
