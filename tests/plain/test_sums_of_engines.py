"""How Qualcomm's HTP and OpenVINO scale the sums of a convolution, against what their own programs computed (onnxruntime-qnn
2.7.0, OpenVINO 2026.4.1): 1x1 convolutions with scales for which many sums lie within float32's error of a tie."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from qverify.arithmetic.float_steps import scale_in_float32
from qverify.arithmetic.forms import REFERENCE, Form, FormsOfOps
from qverify.arithmetic.methods import RAISED, convolve_in_htp, find_summands, scales_of_htp
from qverify.arithmetic.requantize import requantize
from qverify.compare.catalogue import HTP_DEPTHWISE, HTP_SUMS, OPENVINO_SUMS
from qverify.compiler.compile_model import CompilerOptions, compile_model
from qverify.errors import BadFileError
from qverify.model_bin.check_requantization import check_requantization
from qverify.model_bin.graph import Graph
from qverify.model_bin.kinds_of_nodes import find_key

from tests.ops.qdq import Qdq
from tests.ops.runtime_library import COMPILER, binary
from tests.ops.test_runtime_equals_simulator import agree
from tests.plain.test_forms_with_methods import simulate

# Scales of input and output, the output's zero point from the lowest code, scales of weights, biases, and what HTP added
# to the sums: the input ran through all of 4096 sums, so that each output shows it exactly
OF_HTP: list[Any] = [
    (0.02220897190272808, 0.05641133338212967, 100, [0.011330039240419865, 0.020915014669299126, 0.016578171402215958, 0.018064966425299644, 0.019787516444921494, 0.01474144496023655, 0.009564965963363647], [0] * 7, [22418, 12145, 15321, 14060, 12836, 17230, 26555]),
    (0.007225521840155125, 0.061880841851234436, 100, [0.03689161688089371, 0.04952840507030487, 0.04376749321818352, 0.02729322575032711, 0.03534618765115738, 0.07053082436323166, 0.04736709967255592], [1268, -1323, -951, 1573, 1285, -1444, 1979], [24483, 15969, 18617, 32952, 25515, 10698, 20059]),
    (0.010213351808488369, 0.06608579307794571, 200, [0.022461464628577232, 0.014549752697348595, 0.026759011670947075, 0.023038068786263466, 0.015877334401011467, 0.014653380028903484, 0.03541566804051399], [0] * 7, [57614, 88943, 48361, 56172, 81506, 88314, 36540]),
    (0.019474530592560768, 0.041486699134111404, 37, [0.0027766202110797167, 0.0027453824877738953, 0.00701849814504385, 0.003928787540644407, 0.005201181396842003, 0.0039015619549900293, 0.0027736895717680454], [1310, 320, 896, 1972, -1908, 1949, -1997], [29697, 29030, 12127, 22034, 13246, 22151, 26420]),
]  # fmt: skip
# Type, scale and zero point of input and output, scales of weights, biases; of each channel a sum and OpenVINO's integer
OF_OPENVINO: list[Any] = [
    ("uint8", (0.019674507901072502, 90), (0.031118720769882202, 0), [0.030269145965576172, 0.0711754709482193, 0.007611921522766352, 0.1445835828781128, 0.04397796839475632], None, [-8280, 1500, 1974, 1176, 2068], [0, 68, 10, 108, 58]),
    ("uint8", (0.010937781073153019, 0), (0.08250296860933304, 128), [0.04252144694328308, 0.007424148265272379, 0.043651241809129715, 0.012892118655145168, 0.013718961738049984], None, [0, -1524, -1296, -10824, -3024], [128, 126, 120, 110, 122]),
    ("uint8", (0.026726966723799706, 90), (0.07582900673151016, 0), [0.010075067169964314, 0.011274089105427265, 0.05361756309866905, 0.003113560611382127, 0.011406759731471539], [10611, 28113, 2877, 17749, 21562], [-5670, 9006, 3658, -11826, 1694], [18, 147, 123, 6, 93]),
    ("uint8", (0.011058466508984566, 0), (0.09461257606744766, 128), [0.05407208949327469, 0.25794529914855957, 0.03834891691803932, 0.0301242433488369, 0.029478903859853745], [1485, 10788, -1697, 16783, -6815], [0, -9312, -14924, 5512, -13356], [137, 172, 54, 206, 58]),
    ("int8", (0.042302001267671585, -38), (0.044996477663517, -128), [0.06504024565219879, 0.06190362945199013, 0.13512401282787323, 0.05503471568226814, 0.06925362348556519], None, [5130, 610, 492, 1150, 2158], [127, -92, -66, -68, 12]),
    ("int8", (0.012908694334328175, -128), (0.06163905933499336, 0), [0.01549492310732603, 0.05261928215622902, 0.008312281221151352, 0.04104725643992424, 0.03957543522119522], None, [0, -9120, -8904, 4944, 3680], [0, -100, -16, 43, 31]),
    ("int8", (0.037000227719545364, -38), (0.04135984927415848, -128), [0.012450127862393856, 0.4859395921230316, 0.0004916368052363396, 0.005214708857238293, 0.004301862791180611], [10813, -12773, 11646, 27941, 29469], [-11430, 13110, 9954, 7750, 9638], [-128, 18, -118, 39, 22]),
    ("int8", (0.03890836238861084, -128), (0.07089930027723312, 0), [0.012322735972702503, 0.005192424636334181, 0.005246761254966259, 0.010763552971184254, 0.01314602978527546], [7206, 4070, -29195, -28442, 7927], [0, 9792, -8140, 10920, 1568], [49, 39, -108, -104, 68]),
    ("int8", (0.02234203927218914, -38), (0.02386922761797905, -28), [0.11082276701927185, 0.009146150201559067, 0.002100443933159113, 0.005561402998864651, 0.003504079533740878], [-2999, -7674, -20559, 4947, 25232], [10350, -2430, 468, 12054, 836], [127, -114, -68, 60, 58]),
]  # fmt: skip


@pytest.mark.parametrize("case", OF_HTP)
def test_htp_adds_what_it_was_seen_to_add(case: Any) -> None:
    x, y, zero, weights, biases, added = case
    stated = np.array(biases, np.int64)
    found = find_summands(zero, scales_of_htp(x, weights, y), stated) + stated
    assert found.tolist() == added
    quotient = np.float32(zero) / (np.array(weights) * x / y).astype(np.float32)
    assert (np.floor(quotient.astype(np.float64) + stated + 0.5) != found).any()  # the plain quotient is another


def test_scales_of_htp_are_raised_and_biases_a_grid() -> None:
    """A dead channel, as quantizers make it: its scale is raised, so that its bias, which the others are
    multiples of, is smaller."""
    scales, biases = np.array([1e-3, 2e-8]), np.array([12346, -(2**31) + 1])
    added = find_summands(0, scales, biases) + biases
    unit = 2**31 * 2e-8 / RAISED / 2**28
    assert added[1] == pytest.approx(-(2**31) * 2e-8 / RAISED, rel=1e-6)
    assert 0 < abs(added[0] - 12346) <= unit / 2 + 1
    form = Form.parse(HTP_SUMS)
    rq = convolve_in_htp(form, (1.0, [1e-3, 2e-8], 1.0), 0, biases, depthwise=True)
    least = convolve_in_htp(form, (1.0, [1e-3, RAISED], 1.0), 0, None, depthwise=True)
    np.testing.assert_array_equal(rq[:5], least[:5])
    with pytest.raises(ValueError, match="a scale of 2e-08 cannot be represented"):
        convolve_in_htp(form, (1.0, [1e-3, 2e-8], 1.0), 5, biases, depthwise=True)


@pytest.mark.parametrize("case", OF_OPENVINO)
def test_openvino_computes_what_it_was_seen_to_compute(case: Any) -> None:
    dtype, x, y, weights, biases, sums, wanted = case
    stated = None if biases is None else np.array(biases, np.int64)
    rq = scale_in_float32(x, weights, y, dtype, stated)
    assert rq.dtype == (np.float32 if stated is None else np.float64) and len(rq) == (4 if stated is None else 6)
    limits, acc = np.iinfo(dtype), np.array(sums) + (0 if stated is None else stated)
    found = requantize(acc, rq, y[1], limits.min, limits.max, dtype, REFERENCE, False, 0)
    assert found.tolist() == wanted
    exact = np.clip(np.rint(acc * (np.array(weights) * x[0] / y[0]) + y[1]), limits.min, limits.max)
    assert (exact != wanted).sum() == 4  # the nearest integers are others


def convolution(dtype: str, stride: int = 1, group: int = 6, **forms: str) -> Graph:
    m = Qdq(dtype, opset=18, seed=5)
    x, w = m.input((1, 6, 9, 9)), m.weight((6, 6 // group, 3, 3), axis=0)
    m.output(m.quantize(m.op("Conv", [x, w, m.bias(x, w, 6)], group=group, strides=[stride] * 2)))
    stated = FormsOfOps("chip", {op: Form.parse(form) for op, form in forms.items()})
    return compile_model(m.model().SerializeToString(), "m.onnx", CompilerOptions(check=False, arithmetic=stated)).graph


@pytest.mark.parametrize("dtype", ["uint8", "int8"])
@pytest.mark.parametrize("form", [OPENVINO_SUMS, HTP_SUMS, HTP_DEPTHWISE])
@pytest.mark.skipif(COMPILER is None, reason="no C compiler on this machine")
def test_qvrt_gives_the_same(form: str, dtype: str, tmp_path: Path) -> None:
    for group in (1, 6):
        graph = convolution(dtype, group=group, conv=form)
        assert "without_form" not in graph.meta
        every, node = simulate(graph), next(n for n in graph.nodes if n.op == "conv")
        tensors = {n: graph.tensors[n] for n in (*node.inputs, *node.outputs) if n is not None}
        constants = {n: v for n, v in graph.constants.items() if n in tensors}
        given = tuple(n for n in node.inputs if n is not None and n not in constants)
        part = Graph([node], tensors, constants, given, node.outputs, meta={"source_sha256": "0" * 64})
        case: Any = type("Case", (), {"graph": lambda self, part=part: part, "values": {n: every[n] for n in given}})()
        agree(case, (binary(),), tmp_path, f"{form} {dtype} {group}")


def test_depthwise_convolutions_of_stride_2_are_a_kind_of_their_own() -> None:
    key = "conv, depthwise, stride 2, close scales"
    for stride, group, wanted in ((2, 6, key), (1, 6, "conv"), (2, 1, "conv")):
        graph = convolution("uint8", stride, group)
        node = next(n for n in graph.nodes if n.op == "conv")
        assert find_key({"conv", key}, node, graph) == wanted
    w = graph.tensors[node.inputs[1] or ""]
    assert len(w.scale) == 6


@pytest.mark.parametrize(
    ("row", "value", "said"),
    [
        (0, 0.1, "a scale or a summand is not in float32"),
        (0, 0.0, "a scale is not finite and positive"),
        (4, np.inf, "a scale is not finite and positive"),
        (1, 0.5, "a summand is not whole"),
        (3, 2.0**17, "a summand is not whole, or beyond"),
        (5, np.nan, "a scale is not finite and positive, or a summand not finite"),
    ],
)
def test_an_rq_of_two_steps_that_is_out_of_range_is_refused(row: int, value: float, said: str) -> None:
    graph = convolution("uint8", conv=OPENVINO_SUMS)
    node = next(n for n in graph.nodes if n.op == "conv")
    check_requantization(graph, node)
    graph.constants[node.inputs[-1] or ""][row, 2] = value
    with pytest.raises(BadFileError, match=said):
        check_requantization(graph, node)
