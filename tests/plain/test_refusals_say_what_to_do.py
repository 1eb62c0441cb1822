"""Refusals that name a next step, once for each tensor."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from onnx import TensorProto
from qverify.compiler.compile_model import compile_model
from qverify.errors import QVerifyError

from tests.ops.qdq import Qdq


def cast_of(kind: int) -> Callable[[Qdq], str]:
    def build(m: Qdq) -> str:
        y = m.op("Cast", [m.op("Relu", [m.input((2, 3))])], to=kind)
        return m.op("Cast", [m.op("Transpose", [y])], to=TensorProto.FLOAT)

    return build


def second_output(m: Qdq) -> str:
    y = m.op("SimplifiedLayerNormalization", [m.input((2, 6)), m.constant("scale", np.ones(6, np.float32))], 2)
    m.kinds[y], m.kinds[f"{y}_1"] = (2, 6), (2, 1)
    m.output(y)
    return f"{y}_1"


def padded(m: Qdq, pads: str) -> str:
    return m.op("Pad", [m.input((2, 3)), pads])


SAID: dict[str, tuple[Callable[[Qdq], str], str]] = {
    "double": (cast_of(TensorProto.DOUBLE), r"is double; .* Export it as float32, or cut .* \(2 tensors in all\)"),
    "uint32": (cast_of(TensorProto.UINT32), r"is uint32; .* Export it as int32 or int64, or cut"),
    "cum sum": (lambda m: m.op("CumSum", [m.input((2, 3)), m.integers(())]), "one constant number; make it a constant"),
    "pads at run time": (lambda m: padded(m, m.integers((4,))), "computed at run time; make them a constant"),
    "diagonal": (lambda m: m.op("Einsum", [m.input((3, 3))], equation="ii->i"), "a diagonal.*, or cut the model"),
    "second output": (second_output, "only the first can be compiled. Remove what reads it, or cut"),
    "tile": (lambda m: m.op("Tile", [m.input((2, 3)), m.integers((2,))]), "values of input 'in2'. Make that input a const"),
    "slice": (
        lambda m: m.op("Slice", [m.input((5,)), m.integers((1,)), m.integers((1,))]),
        "values of input 'in2'. Make that input a constant",
    ),
    "expand": (
        lambda m: m.op("Expand", [m.input((4, 1)), m.op("Add", [m.integers((3,)), m.constant("minus", np.array(-2))])]),
        "shape of 'expand.*' depends on the values of input 'in2'; make that input a constant",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", SAID)
def test_says_what_to_do_once(name: str) -> None:
    build, said = SAID[name]
    m = Qdq("uint8", opset=18)
    m.output(m.input((2, 2)))
    m.output(build(m))
    with pytest.raises(QVerifyError, match=said) as refusal:
        compile_model(m.model().SerializeToString(), "m")
    lines = str(refusal.value).splitlines()
    assert len(lines) == len(set(lines)) == 1, lines
