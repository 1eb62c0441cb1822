"""A file that onnxruntime runs is not refused in its name, and a refusal does not contradict itself."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from qverify.compiler.compile_model import compile_model
from qverify.errors import QVerifyError, UnsupportedError
from qverify.onnx_model.graph_view import GraphView
from qverify.onnx_model.load import load
from qverify.onnx_model.opsets import NEWEST_QUANTIZERS, quantizer_domain, standard_opset

from tests.ops.qdq import Qdq
from tests.plain.verified_model import passes, verified

NEWER = NEWEST_QUANTIZERS + 1
needs_newer = pytest.mark.skipif(
    onnx.defs.onnx_opset_version() < NEWER, reason=f"the installed onnx does not know opset {NEWER}"
)


@pytest.mark.parametrize("precision", [1, 10, 11, 16])
def test_softmax_precision_of_an_attention(tmp_path: Path, precision: int) -> None:
    """onnxruntime computes in float32 with each of them, as the test of the untouched file in verified() shows."""
    m = Qdq("int8", opset=23)
    q, k, v = (m.quantize(m.op("Tanh", [m.input((1, 2, 4, 8))])) for _ in range(3))
    m.output(m.quantize(m.op("Attention", [q, k, v], softmax_precision=precision)))
    graph = verified(m.model(), tmp_path)
    assert not graph.islands and not any(n.op == "cast_float" for n in graph.nodes)


def of_microsoft(kinds: list[tuple[str, dict[str, int]]], opset: int) -> onnx.ModelProto:
    """Returns a chain of operators between quantizers of com.microsoft."""
    nodes, constants = list[onnx.NodeProto](), dict[str, np.ndarray]()

    def quantize(name: str) -> str:
        constants[f"{name}_s"], constants[f"{name}_z"] = np.float32(0.03), np.array(3, np.int8)
        by = [f"{name}_s", f"{name}_z"]
        for kind, source, end in (("QuantizeLinear", name, "_q"), ("DequantizeLinear", f"{name}_q", "_dq")):
            nodes.append(helper.make_node(kind, [source, *by], [f"{name}{end}"], domain="com.microsoft"))
        return f"{name}_dq"

    last = quantize("x")
    for at, (kind, attributes) in enumerate(kinds):
        nodes.append(helper.make_node(kind, [last], [f"t{at}"], name=f"{kind}_{at}", **attributes))
        last = quantize(f"t{at}")
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, (1, 4, 6, 6))],
        [helper.make_tensor_value_info(last, TensorProto.FLOAT, None)],
        [numpy_helper.from_array(v, n) for n, v in constants.items()],
    )
    opsets = [helper.make_opsetid("", opset), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=10)


SAME = [("Sigmoid", {}), ("Relu", {}), ("HardSwish", {})]
OTHER = [*SAME, ("SpaceToDepth", {"blocksize": 1, "mode": "CRD"})]  # has a mode from opset 28 on
CHANGED = [*SAME, ("DepthToSpace", {"blocksize": 2})]  # defined anew in opset 28


@needs_newer
@pytest.mark.parametrize("kinds", [SAME, CHANGED], ids=["no operator of it", "an operator of it"])
def test_quantizers_of_microsoft_in_an_opset_without_onnxruntime_s(
    tmp_path: Path, kinds: list[tuple[str, dict[str, int]]]
) -> None:
    model = of_microsoft(kinds, NEWER)
    passes(model, tmp_path)
    same = compile_model(of_microsoft(kinds, 21).SerializeToString(), "q.onnx")
    newer = compile_model(model.SerializeToString(), "q.onnx")
    assert {n: v.tobytes() for n, v in newer.graph.constants.items()} == {
        n: v.tobytes() for n, v in same.graph.constants.items()
    }


@needs_newer
def test_the_opset_is_lowered_only_if_the_operators_are_the_same() -> None:
    assert standard_opset(load(of_microsoft(SAME, NEWER), "m.onnx")) == NEWEST_QUANTIZERS
    assert standard_opset(load(of_microsoft(CHANGED, NEWER), "m.onnx")) == NEWEST_QUANTIZERS  # changed in its types
    assert standard_opset(load(of_microsoft(OTHER, NEWER), "m.onnx")) == NEWER
    assert standard_opset(load(of_microsoft(SAME, 21), "m.onnx")) == 21


@needs_newer
def test_what_onnxruntime_refuses_is_refused_in_its_name() -> None:
    model = of_microsoft(OTHER, NEWER)
    for node in model.graph.node:
        node.domain = ""
    with pytest.raises(QVerifyError, match=rf"onnxruntime refuses the model: .*QuantizeLinear\({NEWER}\)"):
        compile_model(model.SerializeToString(), "m.onnx")


@pytest.mark.parametrize(
    ("opset", "sixteen", "domain"),
    [(20, True, "com.microsoft"), (20, False, ""), (21, True, ""), (27, True, ""), (28, False, "com.microsoft")],
)
def test_the_domain_of_added_quantizers(opset: int, sixteen: bool, domain: str) -> None:
    assert quantizer_domain(opset, sixteen) == domain


def _refusal(kind: int, end: bool) -> str:
    """Returns the refusal of a tensor of this type, which is an output or between two nodes."""
    nodes = [helper.make_node("Cast", ["x"], ["h"], to=kind), helper.make_node("Cast", ["h"], ["y"], to=1)]
    infos = {
        n: helper.make_tensor_value_info(n, k, (2, 3)) for n, k in (("x", 1), ("h", kind), ("y", TensorProto.FLOAT))
    }
    graph = helper.make_graph(nodes, "g", [infos["x"]], [infos["h" if end else "y"]], [], value_info=[infos["h"]])
    view = GraphView(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), "m.onnx")
    with pytest.raises(UnsupportedError) as caught:
        view.shape("h")
    return str(caught.value)


INSIDE = "a tensor may be float32, uint8, int8, uint16, int16, int32, int64, bool"


def test_float16_inside_a_graph_is_not_refused_as_if_it_were_allowed() -> None:
    assert _refusal(TensorProto.FLOAT16, False) == (
        f"m.onnx: 'h' is float16; {INSIDE}; float16 only as an input or output of the graph. "
        "Export it as float32, or cut the model before it"
    )
    assert f"'h' is bfloat16; {INSIDE}. Export" in _refusal(TensorProto.BFLOAT16, False)
    assert f"'h' is bfloat16; {INSIDE}, float16. Export" in _refusal(TensorProto.BFLOAT16, True)
