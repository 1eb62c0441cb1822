"""What the tests of the loader do with a model: compile it, and hold reference, simulator and board against it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import onnx
import pytest
from onnx import numpy_helper
from qverify.compare.options import Options
from qverify.compiler.compile_model import compile_model
from qverify.errors import UnsupportedError
from qverify.model_bin.graph import Graph
from qverify.session.job import verify
from qverify.session.request import Request

from tests.exact_default import exact_default
from tests.ops.qdq import Qdq


def passes(model: onnx.ModelProto, tmp_path: Path, plain: bool = True) -> Graph:
    """Asserts that the model's nodes are equal on all sides bit for bit; plain: and the untouched file's outputs with
    them. Returns the compiled graph."""
    path = tmp_path / "q.onnx"
    path.write_bytes(model.SerializeToString())
    graph = compile_model(path.read_bytes(), "q.onnx").graph
    check = graph.meta["check"]
    assert check["units"] and not check["over"] and check["worst_lsb"] == 0, check
    with exact_default():
        report = verify(Request([str(path)], "local", options=Options(dump_all=True))).report
    assert report.verdict == "PASSED" and all(p.bit_equal for p in report.pairs)
    assert not plain or all(o["equal"] for o in report.plain_onnxruntime["outputs"])
    return graph


def verified(model: onnx.ModelProto, tmp_path: Path) -> Graph:
    """Asserts PASSED, every node forced, and the untouched file's outputs close to these. Returns
    the compiled graph."""
    path = tmp_path / "q.onnx"
    path.write_bytes(model.SerializeToString())
    graph = compile_model(path.read_bytes(), "q.onnx").graph
    check = graph.meta["check"]
    assert check["units"] and not check["over"] and not check["not_checked"], check
    with exact_default():
        report = verify(Request([str(path)], "local", options=Options(dump_all=True))).report
    pairs = {(p.a, p.b): p for p in report.pairs}
    assert report.verdict == "PASSED" and pairs["simulator", "board"].bit_equal
    assert all(t.forced is not None and t.forced.verdict == "PASSED" for p in report.pairs for t in p.tensors)
    apart = [o["max_abs"] for o in report.plain_onnxruntime["outputs"]]
    assert all(a is not None and a < 0.05 for a in apart)
    return graph


def refused(build: Callable[[Qdq], None], pattern: str) -> None:
    """Asserts that the compiler refuses the model that build() makes, with a text that this pattern finds."""
    m = Qdq()
    build(m)
    with pytest.raises(UnsupportedError, match=pattern):
        compile_model(m.model().SerializeToString(), "unit.onnx")


def small(seed: int = 3) -> onnx.ModelProto:
    """Conv, Relu, Conv, Add between quantized tensors, u8s8."""
    m = Qdq(seed=seed)
    x = m.input((1, 3, 7, 5))
    w = m.weight((3, 3, 3, 3), axis=0)
    first = m.quantize(m.op("Relu", [m.op("Conv", [x, w, m.bias(x, w, 3)], pads=[1, 1, 1, 1])]))
    w2 = m.weight((3, 3, 1, 1))
    second = m.quantize(m.op("Conv", [first, w2, m.bias(first, w2, 3)]))
    m.output(m.quantize(m.op("Add", [first, second])))
    return m.model()


def constant(model: onnx.ModelProto, name: str) -> onnx.TensorProto:
    """Returns an initializer by name."""
    return next(i for i in model.graph.initializer if i.name == name)


def take(model: onnx.ModelProto, name: str) -> onnx.TensorProto:
    """Removes an initializer and returns it."""
    taken = onnx.TensorProto.FromString(constant(model, name).SerializeToString())
    kept = [onnx.TensorProto.FromString(i.SerializeToString()) for i in model.graph.initializer if i.name != name]
    del model.graph.initializer[:]
    model.graph.initializer.extend(kept)
    return taken


def put_first(model: onnx.ModelProto, *nodes: onnx.NodeProto) -> None:
    """Adds nodes before all others."""
    rest = [onnx.NodeProto.FromString(n.SerializeToString()) for n in model.graph.node]
    del model.graph.node[:]
    model.graph.node.extend([*nodes, *rest])


def array(model: onnx.ModelProto, name: str):
    """Returns the value of an initializer."""
    return numpy_helper.to_array(constant(model, name))
