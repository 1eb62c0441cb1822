"""Loops that are written out beside what surrounds them: others that read their results, parts without a kernel, float16."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto
from qverify.compiler.compile_model import CompilerOptions, compile_model
from qverify.onnx_model import written_loops
from qverify.onnx_model.loop_copies import StepCopies

from tests.ops.qdq import Qdq
from tests.plain.loop_models import (
    ALWAYS,
    BATCH,
    FLOAT,
    WIDTH,
    declared,
    finish,
    loop_body,
    node,
    start,
    trips,
    true,
)
from tests.plain.test_unrolled_loops import an_if_by_value
from tests.plain.verified_model import verified


def a_loop_over_constants_before_another(m: Qdq) -> None:
    """The second loop reads the first one's result in a node that is the same in all steps."""
    doubled = loop_body([ALWAYS, node("Mul", ["h", "h"], ["h2"])], ["h"], ["go2", "h2"])
    first = m.op("Loop", [trips(m), true(m), start(m)], body=doubled)
    nodes = [ALWAYS, node("Sin", [first], ["c"]), node("Add", ["h", "c"], ["h2"])]
    x = m.op("Tanh", [m.input((BATCH, WIDTH))])
    finish(m, m.op("Loop", ["trips", "true", x], body=loop_body(nodes, ["h"], ["go2", "h2"])))


def test_a_loop_over_constants_may_feed_another(tmp_path: Path) -> None:
    m = Qdq(seed=2)
    a_loop_over_constants_before_another(m)
    assert not verified(m.model(), tmp_path).islands


def test_float16_products_in_a_loop_are_close_enough() -> None:
    """Both the loop and its steps compute in float16; they may differ by an ulp."""
    m = Qdq(seed=3)
    nodes = [ALWAYS, node("Mul", ["h", "w"], ["p"]), node("Tanh", ["p"], ["h2"])]
    state = declared("h", TensorProto.FLOAT16, (BATCH, WIDTH))
    body = loop_body(nodes, [], ["go2"], w=np.float16(1.7))
    body.input.append(state)
    body.output.append(declared("h2", TensorProto.FLOAT16, (BATCH, WIDTH)))
    x = m.op("Cast", [m.op("Tanh", [m.input((BATCH, WIDTH))])], to=int(TensorProto.FLOAT16))
    y = m.op("Loop", [trips(m), true(m), x], body=body)
    m.output(m.quantize(m.op("Cast", [y], to=int(FLOAT))))
    assert not compile_model(m.model().SerializeToString(), "q.onnx").graph.islands


def before_the_host(m: Qdq) -> None:
    nodes = [ALWAYS, node("Mul", ["h", "h"], ["s"]), node("Tanh", ["s"], ["h2"])]
    body = loop_body(nodes, ["h"], ["go2", declared("h2", FLOAT, (1, 3, 3))])
    y = m.op("Loop", [trips(m, 20), true(m), m.op("Tanh", [m.input((1, 3, 3))])], body=body)
    m.kinds[y] = (1, 3, 3)
    m.output(m.quantize(m.op("Det", [y])))
    m.output(m.quantize(m.op("Neg", [m.input((2, 3))])))


@pytest.mark.parametrize(("most", "operators"), [(10, {"Loop", "Det"}), (100, {"Det"})])
def test_a_long_loop_before_a_part_without_a_kernel_stays(
    most: int, operators: set[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A board runs only some thousand nodes before a part that the host computes."""
    monkeypatch.setattr(written_loops, "MAX_BEFORE_HOST", most)
    m = Qdq(seed=4)
    before_the_host(m)
    compiled = compile_model(m.model().SerializeToString(), "q.onnx", CompilerOptions(host=True)).graph
    why = {n.op: n.why for island in compiled.islands for n in island.nodes}
    assert why.keys() == operators
    assert "Loop" not in why or "nodes would come before" in why["Loop"]


def test_a_branch_on_values_is_seen_before_anything_is_copied(monkeypatch: pytest.MonkeyPatch) -> None:
    """5 loops of 2,000 steps, each with an If on what it reads, would take minutes to write out."""
    monkeypatch.setattr(StepCopies, "write", lambda *_: pytest.fail("the steps were written"))
    m = Qdq(seed=5)
    an_if_by_value(m)
    m.output(m.quantize(m.op("Neg", [m.input((2, 3))])))
    compiled = compile_model(m.model().SerializeToString(), "q.onnx", CompilerOptions(host=True)).graph
    assert "choice (If): its branch depends on values" in compiled.islands[0].nodes[0].why
