"""Forms of operators that their ops do not have are refused by the name of the node, and of what to change."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from qverify.compiler.compile_model import compile_model
from qverify.errors import UnsupportedError

from tests.ops.qdq import Qdq

MICROSOFT = "com.microsoft"


def held(m: Qdq, value: Any) -> str:
    return m.constant(f"k{len(m.constants)}", value)


def ints(m: Qdq, *values: int) -> str:
    return held(m, np.array(values, np.int64))


def shaped(m: Qdq, name: str, *shape: int) -> str:
    """The name of a tensor whose shape onnx does not infer."""
    m.kinds[name] = shape
    return name


def stored(m: Qdq, shape: tuple[int, ...]) -> list[str]:
    """The integers of a quantized input, their scale and zero point."""
    x = m.input(shape).removesuffix("_dq")
    return [f"{x}_q", f"{x}_scale", f"{x}_zp"]


def weights(m: Qdq, shape: tuple[int, ...], scales: int = 1) -> list[str]:
    """Constant integers, with their scales and zero point."""
    scale = np.full(scales if scales > 1 else (), 0.01, np.float32)
    return [
        held(m, m.rng.integers(-9, 9, shape).astype(np.int8)),
        held(m, scale),
        held(m, np.zeros_like(scale, np.int8)),
    ]


def out(m: Qdq, kind: str, inputs: list[str], shape: tuple[int, ...], domain: str = "", **attributes: Any) -> str:
    """Dequantizes a QLinear operator, whose output has the parameters of the first input."""
    y = m.op(kind, [*inputs], 1, domain, **attributes)
    return shaped(m, m.op("DequantizeLinear", [y, "in0_scale", "in0_zp"]), *shape)


def computed(m: Qdq, name: str) -> list[str]:
    """A scale, or another parameter, that is computed at run time, in place of a constant."""
    return [m.op("Abs", [name])]


def limits_as_attributes(m: Qdq) -> str:
    m.opset = 10
    return beside(m, m.op("Clip", [m.integers((2,))], min=0.0, max=1.0))


def grid(m: Qdq, size: str, **attributes: int) -> str:
    m.opset = 20
    return shaped(m, m.op("AffineGrid", [m.input((1, 2, 3)), size], **attributes), 1, 4, 5, 2)


def beside(m: Qdq, y: str) -> str:
    """y of a model that has a quantized tensor, too."""
    m.output(m.input((2, 2)))
    return y


def to_float(m: Qdq, a: tuple[int, ...], b: tuple[int, ...], *parameters: str) -> str:
    """MatMulIntegerToFloat of the integers of an input by constant ones."""
    x, w = stored(m, a), weights(m, b)
    y = m.op("MatMulIntegerToFloat", [x[0], w[0], *parameters], 1, MICROSOFT)
    return shaped(m, y, *a[:-1], *b[1:])


REFUSED: dict[str, tuple[Callable[[Qdq], str], str]] = {
    "expand_to_a_computed_shape": (
        lambda m: shaped(m, m.op("Expand", [m.input((2, 3)), m.integers((2,))]), 2, 3),
        r"Expand\): its shape is computed at run time; wanted a constant",
    ),
    "a_computed_number_of_largest": (
        lambda m: shaped(m, m.op("TopK", [m.input((2, 3)), m.integers((1,))], 2), 2, 1),
        r"TopK\): its k is no constant input; wanted one, as from opset 10 on",
    ),
    "grid_of_a_computed_size": (
        lambda m: grid(m, m.integers((4,))),
        r"AffineGrid\): its size is computed at run time; only a constant can be compiled",
    ),
    "corners_of_one_element": (
        lambda m: grid(m, ints(m, 1, 1, 1, 5), align_corners=1),
        r"align_corners with a dim of one element, \[1, 5\], is not supported",
    ),
    "grid_of_too_many_places": (
        lambda m: grid(m, ints(m, 1, 1, 1 << 13, 1 << 12)),
        r"a grid of \[8192, 4096\] is not supported; wanted 1 to 16777216 places",
    ),
    "and_of_integers_that_are_floats": (
        lambda m: m.op("Cast", [m.op("BitwiseAnd", [m.input((2,)), m.input((2,))])], to=1),
        r"BitwiseAnd\): on float32, float32; wanted int32 or int64 or uint8 or int8",
    ),
    "limits_as_attributes": (
        limits_as_attributes,
        r"Clip\): limits of integers as attributes; wanted inputs, as from opset 12 on",
    ),
    "one_hot_of_a_computed_depth": (
        lambda m: beside(m, shaped(m, m.op("OneHot", [m.integers((5,)), m.integers(()), held(m, np.float32([0, 1]))]), 5, 2)),
        r"OneHot\): its depth is computed at run time; wanted a constant",
    ),
    "normalized_by_what_is_computed": (
        lambda m: m.op(
            "BatchNormalization", [m.input((1, 2, 3, 3)), *computed(m, m.input((2,))), *(held(m, np.ones(2, "f")) for _ in "abc")]
        ),
        r"BatchNormalization\): a parameter is not a constant",
    ),
    "computed_pads": (
        lambda m: shaped(m, m.op("Pad", [m.input((2, 3)), m.integers((4,))]), 2, 3),
        r"Pad\): its pads are computed at run time",
    ),
    "pads_of_too_many_axes": (
        lambda m: m.op("Pad", [m.input((2, 3)), ints(m, 1, 1), "", m.integers((1,))]),
        r"Pad\): its axes are not constant, or their number does not match its pads",
    ),
    "an_integer_vector": (
        lambda m: to_float(m, (4,), (4, 3), *computed(m, m.input((1,))), held(m, np.float32([0.1]))),
        r"MatMulIntegerToFloat\): an operand of rank 1; wanted rank 2 or more, reshape it",
    ),
    "a_vector_with_constant_scales": (
        lambda m: to_float(m, (4,), (4, 3), held(m, np.float32([0.1])), held(m, np.float32([0.1]))),
        r"MatMulIntegerToFloat\): wanted operands of rank 2 or more, and one scale for the first",
    ),
    "scales_of_rank_2": (
        lambda m: to_float(m, (2, 4), (4, 3), *computed(m, m.input((1,))), held(m, np.float32([[0.1, 0.2, 0.3]]))),
        r"scales 'k\d+' of shape \[1, 3\]; wanted 1 or 3 of rank 1",
    ),
    "shape_of_what_values_decide": (
        lambda m: m.op("Cast", [m.op("Shape", [m.op("NonZero", [m.input((2, 3))])], start=1)], to=1),
        r"Shape\): what it reads, or the shape of that, depends on the values of the inputs; only constants",
    ),
    "gemm_operator_of_computed_weights": (
        lambda m: out(
            m, "QGemm", [*stored(m, (2, 4)), *stored(m, (4, 3)), "", "in0_scale", "in0_zp"], (2, 3), MICROSOFT
        ),
        r"QGemm\): its weights are computed at run time; only constants can be compiled",
    ),
    "gemm_operator_of_a_computed_bias": (
        lambda m: out(
            m,
            "QGemm",
            [*stored(m, (2, 4)), *weights(m, (4, 3)), m.integers((3,), dtype="int32"), "in0_scale", "in0_zp"],
            (2, 3),
            MICROSOFT,
        ),
        r"QGemm\): its bias 'in1' is computed at run time; only constants can be compiled",
    ),
    "gemm_operator_of_a_bias_by_rows": (
        lambda m: out(
            m,
            "QGemm",
            [*stored(m, (3, 4)), *weights(m, (4, 3)), held(m, np.ones((3, 1), np.int32)), "in0_scale", "in0_zp"],
            (3, 3),
            MICROSOFT,
        ),
        r"QGemm\): bias of shape \[3, 1\] for 3 columns; only one value per column is supported",
    ),
    "an_operator_of_a_computed_scale": (
        lambda m: out(
            m, "QLinearAdd", [*stored(m, (2,)), "in0_q", *computed(m, m.input(())), "in0_zp", "in0_scale", "in0_zp"], (2,), MICROSOFT
        ),
        r"QLinearAdd\): scale or zero point is not a constant",
    ),
    "an_operator_of_three_scales_and_two_zero_points": (
        lambda m: out(
            m,
            "QLinearConv",
            [*stored(m, (1, 2, 5, 5)), *weights(m, (3, 2, 1, 1), 3)[:2], held(m, np.zeros(2, np.int8)), "in0_scale", "in0_zp"],
            (1, 3, 5, 5),
        ),
        r"QLinearConv\): 3 scales and 2 zero points",
    ),
    "a_computed_bias": (
        lambda m: m.quantize(m.op("Conv", [m.input((1, 2, 5, 5)), m.weight((3, 2, 1, 1)), m.input((3,))])),
        r"Conv\): bias 'in1_dq' is not a constant; only constant biases can be compiled",
    ),
    "an_infinite_bias": (
        lambda m: m.pair(
            m.op("Gemm", [m.input((2, 4), dtype="uint16"), m.weight((4, 3)), held(m, np.float32([0, 1, np.inf]))]),
            np.float32(1),
            np.uint16(0),
        ),
        r"Gemm\): bias 'k\d+' contains infinite values",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_refused_by_name(name: str) -> None:
    build, said = REFUSED[name]
    m = Qdq("uint8", opset=21 if "infinite" in name else 18)
    m.output(build(m))
    with pytest.raises(UnsupportedError, match=said):
        compile_model(m.model().SerializeToString(), "m")
