"""ReduceSum, ReduceMax, ReduceL2 and others, and global pools that are no average, on a float stream ->
reduce_float."""

from __future__ import annotations

from typing import Any

from qverify.compiler.attributes import only
from qverify.compiler.float_stream import FloatStream
from qverify.compiler.lowerings.reduce_mean import ONNX_TYPES as MEAN
from qverify.compiler.lowerings.reduce_mean import reduced_axes
from qverify.model_bin.float_functions import REDUCTIONS
from qverify.onnx_model.graph_view import attributes

FUNCTIONS = {
    "ReduceL1": "l1",
    "ReduceL2": "l2",
    "ReduceLogSum": "log_sum",
    "ReduceLogSumExp": "log_sum_exp",
    "ReduceMax": "max",
    "ReduceMin": "min",
    "ReduceProd": "prod",
    "ReduceSum": "sum",
    "ReduceSumSquare": "sum_square",
}
READ: dict[str, dict[str, frozenset[Any] | None]] = dict.fromkeys(FUNCTIONS, MEAN["ReduceMean"])
OF_INTEGERS_TOO = (
    "ReduceMax",
    "ReduceMin",
    "ReduceProd",
    "ReduceSum",
)  # reduce_integer passes their float nodes on to this page
ONNX_TYPES: dict[str, dict[str, frozenset[Any] | None]] = {
    **{kind: read for kind, read in READ.items() if kind not in OF_INTEGERS_TOO},
    "GlobalLpPool": {"p": only(1, 2)},
    "GlobalMaxPool": {},
}


def lower_float(stream: FloatStream, node: Any) -> None:
    stream.check_float32(node)
    rank = len(stream.view.shape(node.input[0]))
    pool = node.op_type not in FUNCTIONS
    if pool:
        function = "max" if node.op_type == "GlobalMaxPool" else f"l{attributes(node).get('p', 2)}"
    else:
        function = FUNCTIONS[node.op_type]
    axes = range(2, rank) if pool else reduced_axes(stream.view, node, rank)
    words = [REDUCTIONS.index(function), sum(1 << a for a in axes)]
    stream.builder.node("reduce_float", [stream.source(node.input[0])], stream.declare(node), words, (), False)
