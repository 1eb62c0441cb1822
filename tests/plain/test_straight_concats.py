"""A Concat whose operands a board computed straight in the quantization of the result is right; one that is off is not."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from qverify.arithmetic.forms import Form, FormsOfOps
from qverify.compare.catalogue import HTP_SUMS
from qverify.compare.straight_concats import StraightConcats
from qverify.compiler.compile_model import CompilerOptions, compile_model
from qverify.model_bin.graph import Graph
from qverify.model_bin.units import units
from qverify.report.document import Forced

from tests.ops.qdq import Qdq
from tests.plain.test_forms_with_methods import simulate

Array = Any
FIRST, SECOND, JOINED = (0.031, 120), (0.023, 131), (0.037, 126)  # scales and zero points


def network(first: Any, second: Any, rounding: str = "ref-exact", relu: bool = False) -> Graph:
    """Two convolutions, the second of which may have a ReLU, and what joins them with the input."""
    m = Qdq("uint8", opset=18, seed=8)
    x = m.input((1, 3, 9, 9))
    made = []
    for scale, zero in (first, second):
        w = m.weight((4, 3, 3, 3))
        y = m.op("Conv", [x, w, m.bias(x, w, 4)], pads=[1] * 4)
        y = m.op("Relu", [y]) if relu and made else y
        made.append(m.pair(y, np.float32(scale), np.array(zero, np.uint8)))
    m.output(m.pair(m.op("Concat", made, axis=1), np.float32(JOINED[0]), np.array(JOINED[1], np.uint8)))
    stated = FormsOfOps("chip", {"conv": Form.parse(rounding)}) if rounding != "ref-exact" else None
    options = CompilerOptions(check=False, arithmetic=stated)
    return compile_model(m.model().SerializeToString(), "m.onnx", options).graph


def joined(graph: Graph) -> str:
    return next(n.outputs[0] for n in graph.nodes if n.op == "concat")


def recorded_by(relu: bool = False, second: Any = SECOND, rounding: str = HTP_SUMS) -> dict[str, Array]:
    """Returns what a board gives that computes both convolutions twice: for themselves, and for the joined tensor."""
    plain = simulate(network(FIRST, second, rounding, relu))
    straight = network(JOINED, JOINED, rounding, relu)
    return {**plain, joined(straight): simulate(straight)[joined(straight)]}


def judge(recorded: dict[str, Array], gives: Any = None, relu: bool = False, second: Any = SECOND) -> Forced:
    graph = network(FIRST, second, relu=relu)
    y = joined(graph)
    differing = int((simulate(graph)[y] != recorded[y]).sum())
    found = Forced("FAILED", 1, differing, elements=recorded[y].size, unexplained=differing, at_fault="board")
    forced, seen = {y: found}, units(graph)
    StraightConcats(seen, graph, recorded.get, gives or (lambda unit, name: None)).accept(forced)
    return forced[y]


@pytest.mark.parametrize("relu", [False, True])
def test_operands_that_are_computed_straight_are_right(relu: bool) -> None:
    found = judge(recorded_by(relu), relu=relu)
    assert found.verdict == "PASSED" and not found.unexplained and not found.at_fault
    assert found.limit.count(HTP_SUMS) == (1 if relu else 2)  # fewer values fit a shorter form, too
    assert "straight in the quantization of" in found.limit and "_q by " in found.limit


@pytest.mark.parametrize("by", [1, -1, 7])
def test_one_element_that_is_off_is_not(by: int) -> None:
    recorded = recorded_by()
    y = joined(network(FIRST, SECOND))
    wrong = recorded[y].copy()
    middle = np.flatnonzero((wrong > 10) & (wrong < 240))[40]
    wrong.reshape(-1)[middle] = int(wrong.reshape(-1)[middle]) + by
    assert judge({**recorded, y: wrong}).verdict == "FAILED"
    assert judge({**recorded, y: recorded[y][:, ::-1].copy()}).verdict == "FAILED"  # the operands in another order


def test_an_arithmetic_that_other_nodes_of_the_op_do_not_have_is_none() -> None:
    assert judge(recorded_by(), gives=lambda unit, name: name == "half even").verdict == "FAILED"
    assert judge(recorded_by(), gives=lambda unit, name: name == HTP_SUMS).verdict == "PASSED"


def test_an_operand_of_the_same_quantization_must_be_what_was_recorded() -> None:
    recorded = recorded_by(second=JOINED)
    assert judge(recorded, second=JOINED).verdict == "PASSED"
    name = next(n.inputs[1] or "" for n in network(FIRST, JOINED).nodes if n.op == "concat")
    other = recorded[name].copy()
    other[0, 0, 0, 0] ^= 1
    assert judge({**recorded, name: other}, second=JOINED).verdict == "FAILED"


def test_what_is_missing_shows_nothing() -> None:
    graph, recorded = network(FIRST, SECOND), recorded_by()
    for lost in (units(graph)[1].inputs[0], joined(graph)):
        left = {n: v for n, v in recorded.items() if n != lost}
        assert (
            StraightConcats(units(graph), graph, left.get, lambda unit, name: None)._describe(units(graph)[3]) is None
        )
    alone = [u for u in units(graph) if u.nodes[0].op == "concat"]
    assert StraightConcats(alone, graph, recorded.get, lambda unit, name: None)._describe(alone[0]) is None


def test_few_elements_that_differ_show_nothing() -> None:
    graph, recorded = network(FIRST, SECOND), recorded_by()
    y = joined(graph)
    forced = {y: Forced("FAILED", 1, 1, elements=4, unexplained=1, why="1 element", at_fault="board")}
    StraightConcats(units(graph), graph, recorded.get, lambda unit, name: None).accept(forced)
    assert forced[y].verdict == "INCONCLUSIVE" and "too few differ to tell this from a fault" in forced[y].why
