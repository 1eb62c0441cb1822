"""Extracts the part of a model between tensors whose values are at hand; outputs need no declared type."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import numpy as np
import numpy.typing as npt
import onnx
from onnx import helper

from qverify.onnx_model.node_order import computing_nodes


def cut_nodes(
    model: onnx.ModelProto, given: Mapping[str, npt.NDArray[np.generic]], outputs: Collection[str]
) -> onnx.ModelProto:
    """Returns a model of the nodes that compute `outputs` from the tensors `given`, with the constants they read. Only
    types and shapes of the given values are used."""
    source = model.graph
    makers = {o: at for at, node in enumerate(source.node) for o in node.output}
    stops = given.keys() - {*outputs}
    nodes, read = computing_nodes(source.node, makers, stops, outputs)
    inputs = [
        helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(v.dtype), v.shape)
        for n, v in given.items()
        if n in read and n in stops
    ]
    graph = helper.make_graph(
        nodes,
        "piece",
        inputs,
        [onnx.ValueInfoProto(name=n) for n in outputs],
        [constant for constant in source.initializer if constant.name in read],
    )
    piece = helper.make_model(graph, opset_imports=list(model.opset_import), functions=model.functions)
    piece.ir_version = max(model.ir_version, 4)
    return piece
