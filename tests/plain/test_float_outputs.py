"""Conv, ConvTranspose, Gemm and MatMul on quantized operands with a float result: what is compiled, and what passes."""

from __future__ import annotations

import numpy as np
import pytest
from qverify.compare.limits import limit_for
from qverify.compare.tie_aware import ExactUnit, TieAwareResult, check_both
from qverify.compiler.compile_model import CompilerOptions, compile_model
from qverify.inputs.random_inputs import random_inputs
from qverify.model_bin.graph import Graph
from qverify.model_bin.units import units
from qverify.sides.reference import Reference
from qverify.sides.simulator import Simulator

from tests.ops.qdq import Qdq


def conv(act: str = "uint8", bias: str = "int32") -> Qdq:
    """A Conv whose result a Tanh reads."""
    m = Qdq(act, seed=5)
    x, w = m.input((1, 3, 9, 8)), m.weight((4, 3, 3, 2), axis=0)
    b = m.bias(x, w, 4) if bias == "int32" else m.constant("b", np.linspace(-1, 1, 4, dtype=np.float32))
    m.output(m.op("Tanh", [m.op("Conv", [x, w, b])]))
    return m


def compiled(m: Qdq, rounding: str = "ref-exact") -> Graph:
    return compile_model(m.model().SerializeToString(), "m", CompilerOptions(rounding)).graph


@pytest.mark.parametrize("rounding", ["ref-exact", "gemmlowp", "pow2-floor"])
def test_no_dequantize_stays_and_the_rounding_mode_does_not_matter(rounding: str):
    graph = compiled(conv(), rounding)
    assert [n.op for n in graph.nodes] == ["quantize", "conv", "elementwise_float"]
    node = graph.nodes[1]
    assert node.words[-2:] == (0, 0) and graph.spec(node.name).dtype == "float32"
    x, w, bias, rq = (graph.spec(n or "") for n in node.inputs)
    assert (bias.dtype, rq.dtype) == ("float32", "float64")
    want = np.float64(np.float32(x.scale[0])) * np.array(w.scale, np.float32).astype(np.float64)
    assert np.array_equal(graph.constants[rq.name], want)


def formula(graph: Graph, x: np.ndarray) -> np.ndarray:
    """NUMERICS.md section 1 for the conv of this graph, in plain numpy."""
    node = graph.nodes[1]
    spec, w = graph.spec(node.inputs[0] or ""), graph.spec(node.inputs[1] or "")
    weight = graph.constants[w.name].astype(np.int64) - np.array(w.zero_point)[:, None, None, None]
    patch = np.lib.stride_tricks.sliding_window_view(x.astype(np.int64) - spec.zero_point[0], (3, 2), (2, 3))
    acc = np.einsum("nchwab,ocab->nohw", patch, weight)
    along = (1, -1, 1, 1)
    scaled = acc.astype(np.float64) * graph.constants[node.inputs[3] or ""].reshape(along)
    return (scaled + graph.constants[node.inputs[2] or ""].astype(np.float64).reshape(along)).astype(np.float32)


@pytest.mark.parametrize("bias", ["int32", "float"])
@pytest.mark.parametrize("act", ["uint8", "int8", "int16"])
def test_the_simulator_follows_the_formula(act: str, bias: str):
    graph = compiled(conv(act, bias))
    made = Simulator(graph).run(random_inputs(graph, 1)).tensors
    node = graph.nodes[1]
    assert np.array_equal(made[node.name], formula(graph, made[node.inputs[0] or ""]))


def test_one_unit_in_the_last_place_is_too_much_for_us_and_not_for_the_reference():
    m = conv()
    built = compile_model(m.model().SerializeToString(), "m")
    graph, unit = built.graph, next(u for u in units(built.graph) if u.op == "conv")
    prepared = random_inputs(graph, 2)
    made = Reference(built.integer_onnx, graph).run(prepared).tensors
    given = {n: made[n] for n in unit.inputs}
    ours, theirs = Simulator(graph).run_unit(unit, given)[unit.name], made[unit.name]
    plain = limit_for(unit, unit.name, graph)

    def holds(reference: np.ndarray, recorded: np.ndarray) -> bool:
        result = check_both(ExactUnit(unit, unit.name, graph, given), reference, recorded, plain, plain)
        assert isinstance(result, TieAwareResult)
        return result.holds

    up = np.nextafter(ours, np.float32(np.inf))
    assert not np.array_equal(theirs, ours) and holds(theirs, ours)
    assert holds(up, ours) and not holds(theirs, np.nextafter(up, np.float32(np.inf)))
    assert not holds(ours + np.float32(0.01), ours) and not holds(np.full_like(ours, np.nan), ours)


def test_a_float_output_has_no_activation_to_make_a_node_of():
    m = conv()
    graph = compile_model(m.model().SerializeToString(), "m", CompilerOptions(fuse=False)).graph
    assert [n.op for n in graph.nodes] == ["quantize", "conv", "elementwise_float"]


def test_both_results_of_one_conv():
    """One that is quantized and one that is not: two nodes of the same sums."""
    m = Qdq(seed=3)
    made = m.op("Conv", [m.input((1, 3, 7, 7)), m.weight((5, 3, 3, 3), axis=0)])
    m.output(m.quantize(made))
    m.output(made)
    graph = compiled(m)
    assert sorted(graph.spec(n.name).dtype for n in graph.nodes if n.op == "conv") == ["float32", "uint8"]
