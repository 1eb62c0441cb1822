"""Forms of Gemm, Conv and MatMul that no integer unit has are float nodes of the same result, or are refused by name."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from qverify.compare.options import Options
from qverify.compiler.compile_model import compile_model
from qverify.errors import UnsupportedError
from qverify.inputs.random_inputs import random_inputs
from qverify.session.job import verify
from qverify.session.request import Request
from qverify.sides.simulator import Simulator

from tests.ops.qdq import Qdq
from tests.ops.test_operators_refused import held, out, stored, weights
from tests.plain.verified_model import verified


def gemm(m: Qdq, bias: np.ndarray | None = None, shape: tuple[int, int] = (3, 4), **attributes: float) -> str:
    more = [] if bias is None else [held(m, bias.astype(np.float32))]
    return m.op("Gemm", [m.input(shape), m.weight((4, 5)), *more], **attributes)


def q_gemm(m: Qdq, bias: list[int], scales: int = 1) -> str:
    inputs = [*stored(m, (3, 4)), *weights(m, (4, 3), scales), held(m, np.int32(bias)), "in0_scale", "in0_zp"]
    return out(m, "QGemm", inputs, (3, 3), "com.microsoft")


def q_where(m: Qdq) -> str:
    """QLinearWhere of a computed mask, an input and a constant of another scale."""
    mask = m.op("Greater", [m.input((2, 3)), held(m, np.float32(0.5))])
    other = [held(m, np.uint8([[9]])), held(m, np.float32(0.5)), held(m, np.uint8(4))]
    return out(
        m,
        "QLinearWhere",
        [mask, "in0_q", "in0_scale", "in0_zp", *other, "in0_scale", "in0_zp"],
        (2, 3),
        "com.microsoft",
    )


ROWS = np.array([[0.5], [-1.0], [2.0]])
FORMS: dict[str, tuple[Callable[[Qdq], str], str]] = {
    "a bias by rows": (lambda m: m.quantize(gemm(m, ROWS)), "matmul_float"),
    "a bias by rows of a float output": (lambda m: gemm(m, ROWS), "matmul_float"),
    "a bias of one number": (lambda m: m.quantize(gemm(m, np.array([0.7]))), "fully_connected"),
    "half of a bias": (lambda m: m.quantize(gemm(m, np.full(5, 0.7), beta=0.5)), "fully_connected"),
    "a transposed first operand": (lambda m: m.quantize(gemm(m, shape=(4, 3), transA=1)), "matmul_float"),
    "a negative factor": (lambda m: m.quantize(gemm(m, alpha=-1.5)), "matmul_float"),
    "scales along the input channels": (
        lambda m: m.op("Conv", [m.input((1, 2, 5, 5)), m.weight((3, 2, 1, 1), axis=1)]), "conv_float"
    ),
    "QGemm with one bias": (lambda m: q_gemm(m, [7]), "fully_connected"),
    "QGemm with scales by columns": (lambda m: q_gemm(m, [7, 8, 9], 3), "fully_connected"),
    "QLinearWhere": (q_where, "where"),
}  # fmt: skip


@pytest.mark.parametrize("name", FORMS)
def test_computed_as_onnxruntime_does(name: str, tmp_path: Path) -> None:
    build, op = FORMS[name]
    m = Qdq("uint8", opset=18)
    m.output(build(m))
    assert op in [node.op for node in verified(m.model(), tmp_path).nodes]


@pytest.mark.parametrize(
    ("build", "said"),
    [
        (lambda m: m.op("Gemm", [m.input((3, 4)), m.weight((4, 5), axis=0)]), r"Gemm\): weights quantized along axis 0; wanted the output axis 1"),
        (lambda m: m.op("Gemm", [m.input((3, 4)), m.weight((5, 4), axis=1)], transB=1), r"Gemm\): weights quantized along axis 1; wanted the output axis 0"),
        (lambda m: m.op("Conv", [m.input((1, 2, 5, 5)), m.weight((3, 2, 1, 1), axis=1)]), r"Conv\): weights quantized along axis 1; wanted the output channels, axis 0"),
    ],
)  # fmt: skip
def test_scales_along_another_axis_are_refused(build: Callable[[Qdq], str], said: str) -> None:
    m = Qdq("uint8", opset=18)
    m.output(m.quantize(build(m)))
    with pytest.raises(UnsupportedError, match=said):
        compile_model(m.model().SerializeToString(), "m")


def test_scales_along_the_rows_are_those_of_the_rows(tmp_path: Path) -> None:
    """onnxruntime's own optimizer takes them for those of the columns (1.32), so the untouched file has another result there."""
    m = Qdq("uint8", opset=18)
    y = m.op("MatMul", [m.input((2, 4)), m.weight((4, 4), axis=0)])
    m.output(y)
    path = tmp_path / "q.onnx"
    path.write_bytes(m.model().SerializeToString())
    compiled = compile_model(path.read_bytes(), "q.onnx")
    assert [node.op for node in compiled.graph.nodes] == ["quantize", "dequantize", "matmul_float"]
    prepared = random_inputs(compiled.graph, 0)
    x, (made,) = prepared.arrays()["in0"], Simulator(compiled.graph).run(prepared).tensors[y][None]
    scale, zero = m.constants["in0_scale"], m.constants["in0_zp"]
    left = (np.clip(np.rint(x / scale) + zero, 0, 255) - zero) * np.float64(scale)
    name = next(n for n in m.constants if n.endswith("_i8")).removesuffix("_i8")
    right = m.constants[f"{name}_i8"] * np.float64(m.constants[f"{name}_scale"])[:, None]
    assert np.abs(made - left @ right).max() < 1e-5
    assert verify(Request([str(path)], "local", options=Options(dump_all=True))).report.verdict == "PASSED"
