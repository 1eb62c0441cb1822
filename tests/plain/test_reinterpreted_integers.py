"""Integers that are read with another scale or zero point than they were written with verify, as onnxruntime takes them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import qverify
from onnx import TensorProto, helper
from qverify.compiler.compile_model import CompilerOptions, compile_model
from qverify.onnx_model.open_exposed import open_exposed

from tests.ops.qdq import Qdq

SHAPE = (1, 4, 5, 7)


class Model(Qdq):
    """A model whose parts state scale and zero point one by one."""

    def stated(self, scale: float, zero: int) -> list[str]:
        """Names of two constants."""
        name = f"p{len(self.constants)}"
        kind = np.dtype(self.act)
        return [self.constant(f"{name}_s", np.float32(scale)), self.constant(f"{name}_z", np.array(zero, kind))]

    def floats(self, shape: tuple[int, ...] = SHAPE) -> str:
        name = f"in{len(self.inputs)}"
        self.inputs.append(helper.make_tensor_value_info(name, TensorProto.FLOAT, shape))
        self.feed[name] = self.rng.uniform(-2, 3, shape).astype(np.float32)
        return name

    def q(self, name: str, scale: float, zero: int = 100) -> str:
        return self.op("QuantizeLinear", [name, *self.stated(scale, zero)])

    def dq(self, name: str, scale: float, zero: int = 100) -> str:
        return self.op("DequantizeLinear", [name, *self.stated(scale, zero)])


def one_reader(m: Model) -> None:
    m.output(m.dq(m.q(m.floats(), 0.03), 0.05, 90))


def other_zero_point(m: Model) -> None:
    m.output(m.op("Relu", [m.dq(m.q(m.floats(), 0.03), 0.03, 90)]))


def both_readings(m: Model) -> None:
    t = m.q(m.floats(), 0.03)
    m.output(m.quantize(m.op("Add", [m.dq(t, 0.03), m.dq(t, 0.05, 90)])))
    m.output(m.op("Sigmoid", [m.dq(t, 0.05, 90)]))


def conv(m: Model) -> None:
    m.output(m.quantize(m.op("Conv", [m.dq(m.q(m.floats(), 0.03), 0.05, 90), m.weight((6, 4, 3, 3), axis=0)])))


def behind_a_movement(m: Model) -> None:
    m.output(m.dq(m.op("Transpose", [m.q(m.floats(), 0.03)]), 0.05, 90))


def input_that_movements_read(m: Model) -> None:
    x = m.integers((4, 5), 200, m.act)
    m.output(m.dq(m.op("Transpose", [x]), 0.05, 90))
    m.output(m.dq(m.op("Identity", [x]), 0.02, 90))


def joined_integers(m: Model) -> None:
    parts = [m.q(m.floats(), 0.03), m.q(m.floats(), 0.02, 70)]
    m.output(m.dq(m.op("Concat", parts, axis=1), 0.05, 90))


def chosen_integers(m: Model) -> None:
    a, b = m.floats(), m.floats()
    m.output(m.dq(m.op("Where", [m.op("Greater", [a, b]), m.q(a, 0.03), m.q(b, 0.02, 70)]), 0.02, 90))


def sigmoid_of_qoperator(m: Model) -> None:
    given = [m.q(m.floats(), 0.03), *m.stated(0.04, 90), *m.stated(0.01, 3)]
    m.output(m.dq(m.op("QLinearSigmoid", given, domain="com.microsoft"), 0.02, 7))


def joined_by_qoperator(m: Model) -> None:
    t = m.q(m.floats(), 0.03)
    given = [*m.stated(0.05, 90), t, *m.stated(0.03, 100), t, *m.stated(0.04, 80)]
    m.output(m.dq(m.op("QLinearConcat", given, domain="com.microsoft", axis=1), 0.06, 90))


def convs_of_qoperator(m: Model) -> None:
    def layer(x: str, scale: float, zero: int) -> str:
        w = m.constant(f"w{len(m.constants)}", m.rng.integers(-99, 99, (4, 4, 3, 3)).astype(np.int8))
        small, none = m.constant(f"{w}_s", np.float32(0.01)), m.constant(f"{w}_z", np.int8(0))
        return m.op("QLinearConv", [x, *m.stated(scale, zero), w, small, none, *m.stated(0.05, 120)])

    m.output(m.dq(layer(layer(m.q(m.floats((1, 4, 9, 9)), 0.03), 0.03, 100), 0.08, 111), 0.1, 100))


def constant_operands(m: Model) -> None:
    w = m.constant("w", m.rng.integers(0, 255, (7, 7)).astype(np.uint8))
    x = m.dq(m.q(m.floats((7, 7)), 0.03), 0.03)
    m.output(m.quantize(m.op("MatMul", [x, m.dq(w, 0.01, 120)])))
    m.output(m.quantize(m.op("Mul", [m.dq(w, 0.02, 130), x])))


CASES: list[Callable[[Model], None]] = [
    one_reader, other_zero_point, both_readings, conv, behind_a_movement, input_that_movements_read, joined_integers,
    chosen_integers, sigmoid_of_qoperator, joined_by_qoperator, convs_of_qoperator, constant_operands,
]  # fmt: skip


@pytest.mark.parametrize("build", CASES, ids=lambda build: build.__name__)
def test_verified_as_onnxruntime_computes_it(build: Callable[[Model], None], tmp_path: Path) -> None:
    m = Model()
    build(m)
    path = tmp_path / "m.onnx"
    path.write_bytes(m.model().SerializeToString())
    report = qverify.verify([str(path)], board="local", inputs=m.feed, dump_all_nodes_results=True, keep_tensors=True)
    assert report.verdict == "PASSED", str(report)
    assert all(t.forced is not None and t.forced.verdict == "PASSED" for p in report.document.pairs for t in p.tensors)
    theirs = open_exposed(m.model(), []).run(m.feed)  # with products that do not saturate
    for name in m.outputs:
        np.testing.assert_allclose(report.tensor("board", name), theirs[name], rtol=1e-6, atol=1e-6)


def test_a_wrong_copy_is_found(tmp_path: Path) -> None:
    m = Model("uint8")
    conv(m)
    path = tmp_path / "q.onnx"
    path.write_bytes(m.model().SerializeToString())
    graph = compile_model(path.read_bytes(), "q.onnx").graph
    copy = next(node.name for node in graph.nodes if "reinterpreted" in node.name)
    report = qverify.verify(str(path), board=f"faulty:local?fault=bitflip@{copy}")
    assert report.verdict == "FAILED" and report.blame is not None
    assert (report.blame.side, report.blame.node) == ("board", copy)


@pytest.mark.parametrize("act", ["int16", "uint16"])
def test_of_16_bits(act: str) -> None:
    m = Model(act)
    zero = 0 if act == "int16" else 30000
    m.output(m.dq(m.q(m.floats(), 2e-4, zero), 3e-4, zero))
    check = compile_model(m.model().SerializeToString(), "m").graph.meta["check"]
    assert check["units"] == 3 and not check["over"] and not check["not_checked"]


def test_each_tensor_has_the_quantization_that_its_reader_states() -> None:
    m = Model()
    both_readings(m)
    graph = compile_model(m.model().SerializeToString(), "m").graph
    copies = [n for n in graph.nodes if n.op == "cast"]
    assert [n.outputs for n in copies] == [("quantizelinear0/reinterpreted",)]  # both readers share it
    specs = [graph.spec(n) for n in (copies[0].inputs[0] or "", copies[0].outputs[0])]
    assert [(s.dtype, s.zero_point) for s in specs] == [("uint8", (100,)), ("uint8", (90,))]
    assert [round(s.scale[0], 6) for s in specs] == [0.03, 0.05] and not any(s.interior for s in specs)


def test_stripped_ends_keep_both_quantizations() -> None:
    m = Model()
    conv(m)
    graph = compile_model(m.model().SerializeToString(), "m", CompilerOptions(strip_io_quant=True)).graph
    assert round(graph.spec(graph.inputs[0]).scale[0], 6) == 0.03
    m = Model()
    one_reader(m)
    graph = compile_model(m.model().SerializeToString(), "m", CompilerOptions(strip_io_quant=True)).graph
    ends = [graph.spec(n) for n in (*graph.inputs, *graph.outputs)]
    assert [(round(s.scale[0], 6), s.zero_point) for s in ends] == [(0.03, (100,)), (0.05, (90,))]


def test_a_shared_bias_stays_one_constant() -> None:
    m = Model()
    m.constant("bias", np.arange(6, dtype=np.int32))
    for scale in (0.03, 0.05):
        x, w = m.dq(m.q(m.floats(), scale), scale), m.weight((6, 4, 1, 1))
        s = m.constant(f"{w}_b", np.float32(np.float32(scale) * m.constants[w.removesuffix("_dq") + "_scale"]))
        m.output(m.quantize(m.op("Conv", [x, w, m.op("DequantizeLinear", ["bias", s])])))
    assert not [n for n in compile_model(m.model().SerializeToString(), "m").graph.tensors if "reinterpreted" in n]


def test_a_model_of_one_reading_is_as_before() -> None:
    m = Model()
    m.output(m.dq(m.q(m.floats(), 0.03), 0.03))
    graph = compile_model(m.model().SerializeToString(), "m").graph
    assert [n.op for n in graph.nodes] == ["quantize", "dequantize"]
