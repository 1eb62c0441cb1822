"""Forms of dynamic quantization that are refused by name, and names in the file that the loader would give to its own tensors."""

from __future__ import annotations

import numpy as np
import pytest
from qverify.compiler.compile_model import compile_model
from qverify.errors import UnsupportedError

from tests.ops.cases.matmul_integer import dynamic, integers
from tests.ops.qdq import Build, Qdq


def _zero_points_of_rows(m: Qdq) -> None:
    zeros = m.constant("za", np.zeros(5, np.uint8))
    m.output(m.op("MatMulInteger", [dynamic(m, (5, 13)), integers(m, (13, 7), "uint8"), zeros]))


def _cast_to_float64(m: Qdq) -> None:
    m.output(m.op("Cast", [m.op("Cast", [m.input((2, 3))], to=11)], to=1))


REFUSED = {
    "rows": (_zero_points_of_rows, r"MatMulInteger\): zero points 'za' of shape \[5\]"),
    "cast": (_cast_to_float64, "is double; a tensor may be float32, "),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused_by_name(name: str) -> None:
    build, said = REFUSED[name]
    with pytest.raises(UnsupportedError, match=said):
        _compiled(build)


def test_names_that_the_split_operator_would_get() -> None:
    def build(m: Qdq) -> None:
        x = m.op("Tanh", [m.input((2, 13))])
        taken = m.op("Relu", [x], f"{x}_quantized")
        inputs = [x, integers(m, (13, 7), "int8"), m.constant("s", np.float32(0.1))]
        m.kinds["y"] = (2, 7)
        m.output(taken)
        m.output(m.op("DynamicQuantizeMatMul", inputs, "y", domain="com.microsoft"))

    node = next(n for n in _compiled(build).graph.nodes if n.op == "dynamic_quantize")
    assert node.outputs == ("tanh2_quantized~", "tanh2_scale", "tanh2_zero_point")


def _compiled(build: Build):  # type: ignore[no-untyped-def]
    m = Qdq("uint8")
    build(m)
    return compile_model(m.model().SerializeToString(), "dynamic")
