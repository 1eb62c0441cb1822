"""How Qualcomm's HTP quantizes floats, against what its emulator gave (onnxruntime-qnn 2.7.0, onnxruntime 1.32.0): only
values whose nearest integer is another. In all, 0 of 229,376 elements at seven scales differ."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from qverify.arithmetic.float32 import quantize_in_float16
from qverify.arithmetic.forms import Form, FormsOfOps
from qverify.compare.arithmetics import Rounded
from qverify.compare.catalogue import HTP_QUANTIZE
from qverify.compare.find_arithmetics import find_arithmetics
from qverify.compare.stated_arithmetic import read_stated
from qverify.compiler.compile_model import CompilerOptions, compile_model
from qverify.compiler.forms_of_nodes import list_without_form
from qverify.model_bin.graph import Graph
from qverify.model_bin.units import units
from qverify.sides.simulator import Simulator

from tests.ops.qdq import Qdq
from tests.ops.runtime_library import COMPILER, binary
from tests.ops.test_runtime_equals_simulator import agree

# Type, scale and zero point; values and their codes
SEEN: list[Any] = [
    ('uint8', 0.00392156862745098, 0, [(0.9350724816322327, 239), (0.2136857807636261, 55), (0.18230409920215607, 47), (0.5429244637489319, 139), (0.9468671083450317, 242)]),
    ('int8', 0.0078125, 0, [(0.847602367401123, 109), (-0.8006345629692078, -103), (-0.6835524439811707, -88), (-0.9411985874176025, -121), (-0.7069488167762756, -91)]),
    ('int8', 0.0123, 10, [(1.2114651203155518, 109), (-0.8790937066078186, -62), (0.9038654565811157, 84), (0.35051319003105164, 39), (-0.8914011120796204, -63)]),
    ('uint8', 0.05, 128, [(5.424654960632324, 237), (-5.124061107635498, 25), (-4.3747358322143555, 40), (-6.0236711502075195, 7), (-4.524472713470459, 37)]),
    ('int8', 0.9440277, 0, [(102.42049407958984, 109), (-96.7451171875, -103), (-82.5974349975586, -88), (-113.7302474975586, -121), (-85.42455291748047, -91)]),
    ('uint8', 0.9440277, 131, [(99.58840942382812, 237), (-99.57720184326172, 25), (113.74981689453125, 252), (98.62916564941406, 236), (-88.25662994384766, 37)]),
    ('uint8', 3.7, 128, [(401.4244689941406, 237), (-379.1805419921875, 25), (-323.7304382324219, 40), (-445.7516784667969, 7), (-334.81097412109375, 37)]),
]  # fmt: skip
EVERY = np.concatenate(
    [np.linspace(-140, 140, 4001, dtype=np.float32), np.arange(-140, 140, dtype=np.float32) + np.float32(0.5)]
)


@pytest.mark.parametrize("case", SEEN)
def test_values_as_htp_was_seen_to_quantize_them(case: Any) -> None:
    dtype, scale, zero, seen = case
    x, codes = np.array([v for v, _ in seen], np.float32), [c for _, c in seen]
    assert quantize_in_float16(x, scale, zero, dtype).tolist() == codes
    assert (np.rint(x / np.float32(scale)) + zero != codes).all()


def test_what_is_not_finite_is_clipped() -> None:
    x = np.array([np.nan, np.inf, -np.inf, 3e38, -1e6], np.float32)
    assert quantize_in_float16(x, 0.5, 3, "int8").tolist() == [-128, 127, -128, 127, -128]


def compiled(dtype: str, form: str = HTP_QUANTIZE) -> Graph:
    m = Qdq(dtype, opset=18, seed=3)
    x = m.input((1, 1, 8, 9))
    m.output(m.quantize(m.op("MaxPool", [x], kernel_shape=[2, 2]), like=x))
    stated = FormsOfOps("chip", {"quantize": Form.parse(form)})
    return compile_model(m.model().SerializeToString(), "m.onnx", CompilerOptions(check=False, arithmetic=stated)).graph


def test_a_float16_that_halves_is_enlarged_by_less_than_its_step() -> None:
    """The simulator's float32 operations give every float16 quotient the integer of the formula."""
    bits = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
    quotients = bits[np.isfinite(bits) & (np.abs(bits) < 300)].astype(np.float32)
    for scale in (1.0, 0.9440277, 0.0123, 2.0**-7, 3.7):
        x = quotients * np.float32(scale)
        v = (x / np.float32(scale)).astype(np.float16).astype(np.float32)
        real = v * (np.float32(scale) * np.float32(1 + 2.0**-13))
        found = np.clip(np.rint(real / np.float32(scale)), -128, 127)
        assert found.tolist() == quantize_in_float16(x, scale, 0, "int8").tolist()


@pytest.mark.parametrize("dtype", ["uint8", "int8"])
def test_the_simulator_quantizes_as_htp(dtype: str) -> None:
    graph = compiled(dtype)
    assert "without_form" not in graph.meta
    unit = next(u for u in units(graph) if u.nodes[-1].op == "quantize")
    y = graph.spec(unit.outputs[0])
    assert unit.op == "quantize" and len(unit.nodes) == 4 and unit.inputs == graph.inputs
    assert "quantize" not in list_without_form(graph, FormsOfOps("chip", {"quantize": Form.parse(HTP_QUANTIZE)}))
    stated = read_stated(graph)
    assert stated is not None and stated.states(unit, graph)
    rng = np.random.default_rng(1)
    for _ in range(20):
        x = (EVERY[rng.choice(len(EVERY), 72)] * np.float32(y.scale[0])).reshape(1, 1, 8, 9)
        made = Simulator(graph).run_unit(unit, {graph.inputs[0]: x})[y.name]
        assert made.tolist() == quantize_in_float16(x, y.scale[0], y.zero_point[0], dtype).tolist()


def test_the_catalogue_names_it_and_nothing_else() -> None:
    plain = compiled("uint8", "ref-exact")
    unit = next(u for u in units(plain) if u.nodes[-1].op == "quantize")
    y = plain.spec(unit.outputs[0])
    x = (EVERY[:72] * np.float32(y.scale[0])).reshape(1, 1, 8, 9)
    x[0, 0, 0, 0] = np.float32(64.48568) * np.float32(y.scale[0])
    right = Simulator(plain).run_unit(unit, {plain.inputs[0]: x})[y.name]
    theirs = quantize_in_float16(x, y.scale[0], y.zero_point[0], "uint8")
    assert (right != theirs).any()
    rounded = Rounded(unit, y.name, plain, {plain.inputs[0]: x})
    assert find_arithmetics(rounded, right, theirs) == [HTP_QUANTIZE]
    off = theirs.copy()
    off.reshape(-1)[5] += 1
    assert find_arithmetics(rounded, right, off) == []


def test_a_quantization_within_the_network_has_no_form() -> None:
    m = Qdq("uint8", opset=18, seed=3)
    real = m.op("Erf", [m.input((1, 4, 3, 3))])
    m.output(m.quantize(real))
    stated = FormsOfOps("chip", {"quantize": Form.parse(HTP_QUANTIZE)})
    options = CompilerOptions(check=False, arithmetic=stated)
    graph = compile_model(m.model().SerializeToString(), "m.onnx", options).graph
    quantized = [n for n in graph.nodes if n.op == "quantize"]
    without = graph.meta.get("without_form") or {}
    assert {n.name for n in quantized if n.name in without} == {n.name for n in quantized[1:]}


@pytest.mark.skipif(COMPILER is None, reason="no C compiler on this machine")
@pytest.mark.parametrize("dtype", ["uint8", "int8"])
def test_qvrt_gives_the_same(dtype: str, tmp_path: Path) -> None:
    graph = compiled(dtype)
    unit = next(u for u in units(graph) if u.nodes[-1].op == "quantize")
    scale = np.float32(graph.spec(unit.outputs[0]).scale[0])
    values = dict(graph.constants) | {unit.inputs[0]: (EVERY[-280:][:72] * scale).reshape(1, 1, 8, 9)}
    for node in unit.nodes:
        tensors = {n: replace(graph.tensors[n], interior=False) for n in (*node.inputs, *node.outputs) if n is not None}
        constants = {n: v for n, v in graph.constants.items() if n in tensors}
        given = tuple(n for n in node.inputs if n is not None and n not in constants)
        part = Graph([node], tensors, constants, given, node.outputs, meta={"source_sha256": "0" * 64})
        case: Any = SimpleNamespace(graph=lambda part=part: part, values={n: values[n] for n in given})
        values |= agree(case, (binary(),), tmp_path, f"quantize as htp, {dtype}: {node.op}")
    y = graph.spec(unit.outputs[0])
    wanted = quantize_in_float16(values[unit.inputs[0]], y.scale[0], y.zero_point[0], dtype)
    assert values[y.name].tolist() == wanted.tolist()
