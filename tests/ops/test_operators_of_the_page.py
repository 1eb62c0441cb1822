"""docs/reference/operators.md: each operator of its tables is in a model that is compiled, each of the others is refused."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx
import pytest
from qverify.compiler.compile_model import CompilerOptions, compile_model
from qverify.errors import QVerifyError

from scripts.documents import operators
from tests.ops.qdq import Qdq
from tests.ops.test_attributes_of_schemas import models
from tests.ops.test_onnx_node_cases import cases, quantized
from tests.plain.loop_models import loop, scan
from tests.plain.test_decompositions_of_forms import GOOD as FORMS
from tests.plain.test_written_sequences import changed_lists, joined_lists, parts_of_one

ELSEWHERE = {  # com.microsoft: tests/plain/test_decompositions.py, the loader's and the lowerings' tests of QOperator and 16 bits
    "DequantizeLinear", "EmbedLayerNormalization", "Pad", "QEmbedLayerNormalization", "QLinearConv", "QLinearWhere", "QuantizeLinear",
}  # fmt: skip
IN_A_UNIT = ("Acos", "Acosh", "Asin", "Atan", "Atanh", "Cos", "Cosh", "Reciprocal", "Sqrt", "Tan")


def functions(m: Qdq) -> None:
    for kind in IN_A_UNIT:
        low, high = (1.0, 3.0) if kind in ("Acosh", "Reciprocal", "Sqrt") else (-0.7, 0.7)
        m.output(m.quantize(m.op(kind, [m.op("Clip", [m.input((3, 4), low, high), *limits(m, low, high)])])))


def limits(m: Qdq, low: float, high: float) -> list[str]:
    return [m.constant(f"c{len(m.constants)}", np.float32(value)) for value in (low, high)]


def swish(m: Qdq) -> None:
    m.opset = 24
    m.output(m.op("Swish", [m.op("Neg", [m.input((3, 4))])]))


def constants(m: Qdq) -> None:
    """Adds operators whose inputs are constants or shapes, so that each becomes a constant."""
    x = m.op("Neg", [m.input((4, 6))])
    size = m.constant("six", np.array(6, np.int64))
    for kind in ("BlackmanWindow", "HammingWindow", "HannWindow"):
        m.output(m.op("Mul", [x, m.op(kind, [size])]))
    numbers = [m.constant(f"n{at}", np.array(v)) for at, v in enumerate((6, 8, 100, np.float32(1), np.float32(40)))]
    m.output(m.op("MatMul", [m.op("Neg", [m.input((3, 5))]), m.op("MelWeightMatrix", numbers)]))
    steps = m.op(
        "Range", [m.constant("zero", np.array(0)), m.op("Size", [m.op("Shape", [x])]), m.constant("one", np.array(1))]
    )
    m.output(m.op("Add", [x, m.op("ConstantOfShape", [m.op("Shape", [x])])]))
    value = onnx.helper.make_tensor("value", 7, [2], [3, 1])
    m.output(m.op("Gather", [m.op("Gather", [x, m.op("Constant", [], value=value)]), steps], axis=1))


def twins(m: Qdq) -> None:
    x = m.op("Neg", [m.input((4, 6))])
    y = m.op("GatherND", [x, m.constant("places", np.array([[0, 1], [2, 3]]))], 1, operators.MICROSOFT)
    for kind in ("Gelu", "Trilu"):
        z = m.op(kind, [x], 1, operators.MICROSOFT)
        m.kinds[z] = (4, 6)
        m.output(z)
    m.kinds[y] = (2,)
    m.output(y)


BUILDS: tuple[Callable[[Qdq], None], ...] = (
    functions, swish, constants, twins, loop, scan, changed_lists, joined_lists, parts_of_one
)  # fmt: skip


def types(model: onnx.ModelProto) -> set[operators.Key]:
    return {(node.domain, node.op_type) for node in model.graph.node}


@pytest.mark.parametrize("build", BUILDS, ids=lambda b: b.__name__)
def test_compiled(build: Callable[[Qdq], None]) -> None:
    m = Qdq()
    build(m)
    assert not compile_model(m.model().SerializeToString(), "m.onnx").graph.islands


def test_each_operator_of_the_tables_is_in_a_model() -> None:
    found = {("", "SwiGLU"), *((operators.MICROSOFT, kind) for kind in ELSEWHERE)}  # test_newest_operators.py
    for model, _ in models():
        found |= types(model)
    for build in (*BUILDS, *FORMS.values()):
        m = Qdq()
        build(m)
        found |= types(m.model())
    assert operators.compiled().keys() - found == set()


def test_each_other_operator_is_refused() -> None:
    """In every case that ONNX has of it."""
    others, tried = {kind for domain, kind in operators.on_the_host() if not domain}, set()
    for case in cases(others):
        kind = case.model.graph.node[0].op_type
        with pytest.raises(QVerifyError):
            compile_model(quantized(case.model, {}).SerializeToString(), case.name, CompilerOptions(check=False))
        tried.add(kind)
    assert len(tried) >= 15
