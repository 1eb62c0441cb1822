"""An LSTM written as one node for each step shows c after each, in simulator and reference; h and the last c have the bits of the whole LSTM."""

from __future__ import annotations

import numpy as np
import onnx
from qverify.compiler.compile_model import CompiledModel, CompilerOptions, compile_model
from qverify.inputs.random_inputs import random_inputs
from qverify.sides.reference import Reference
from qverify.sides.simulator import Simulator

from tests.ops.qdq import Qdq

STEPS, BATCH, INPUTS, HIDDEN = 4, 2, 5, 6


def compiled(step_by_step: bool) -> CompiledModel:
    m = Qdq("uint8", seed=4)
    x = m.input((STEPS, BATCH, INPUTS), -2.0, 2.0)
    shapes = {"w": (1, 4 * HIDDEN, INPUTS), "r": (1, 4 * HIDDEN, HIDDEN), "b": (1, 8 * HIDDEN)}
    weights = [m.constant(n, m.rng.normal(0, 0.5, s).astype(np.float32)) for n, s in shapes.items()]
    if not step_by_step:
        m.nodes.append(onnx.helper.make_node("LSTM", [x, *weights], ["y", "h", "c"], name="whole", hidden_size=HIDDEN))
        m.output("c")
        return compile_model(m.model().SerializeToString(), "m.onnx", CompilerOptions())
    h, c = (m.constant(n, np.zeros((1, BATCH, HIDDEN), np.float32)) for n in ("h", "c"))
    axis = m.constant("axis", np.array([0]))
    for t in range(STEPS):
        ends = [m.constant(f"{what}{t}", np.array([at])) for what, at in (("from", t), ("to", t + 1))]
        one, made = m.op("Slice", [x, *ends, axis]), [f"y{t}", f"h{t}", f"c{t}"]
        m.nodes.append(
            onnx.helper.make_node("LSTM", [one, *weights, "", h, c], made, name=f"step{t}", hidden_size=HIDDEN)
        )
        _, h, c = made
    m.output(c)
    return compile_model(m.model().SerializeToString(), "m.onnx", CompilerOptions())


def test_c_of_every_step_is_a_tensor_with_the_bits_of_the_whole():
    whole, steps = compiled(False), compiled(True)
    assert {f"c{t}" for t in range(STEPS)} <= {*steps.graph.observable()}
    assert steps.graph.meta["check"]["over"] == [] and not {"y/c"} & {*whole.graph.observable()}
    prepared = random_inputs(steps.graph, 3)
    for sides in (
        [Simulator(c.graph).run(prepared) for c in (whole, steps)],
        [Reference(c.integer_onnx, c.graph).run(prepared) for c in (whole, steps)],
    ):
        one, each = (side.tensors for side in sides)
        assert np.array_equal(one["c"], each[f"c{STEPS - 1}"])
        assert all(np.array_equal(one["y"][t], each[f"y{t}"][0]) for t in range(STEPS))
