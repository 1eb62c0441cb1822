"""Gives NonMaxSuppression a fixed number of output rows, the most it may select; unused rows are -1."""

from __future__ import annotations

import numpy as np
import onnx
from onnx import helper, numpy_helper

from qverify.onnx_model.held_data import value_of
from qverify.onnx_model.infer_types import Types

MAX_ROWS = 1 << 20


def bound_suppression(model: onnx.ModelProto, types: Types) -> bool:
    """Pads the output of every NonMaxSuppression with rows of -1, in place, so that its shape does not depend on
    values. A node is left alone if its boxes, scores or max_output_boxes_per_class are unknown. The new tensors are
    called OUTPUT/raw, /fill, /padded, /rows and /dims. Returns whether a node was changed."""
    graph, nodes, changed = model.graph, list[onnx.NodeProto](), False
    constants = {i.name: i for i in graph.initializer}
    bounded = {i.name.removesuffix("/fill") + "/raw" for i in graph.initializer if i.name.endswith("/fill")}
    for node in graph.node:
        nodes.append(node)
        rows = _max_rows(node, types, constants)
        if rows and node.output[0] not in bounded:
            changed = True
            nodes += _pad_output(graph, node, rows)
    if changed:
        del graph.node[:]
        graph.node.extend(nodes)
    return changed


def _max_rows(node: onnx.NodeProto, types: Types, constants: dict[str, onnx.TensorProto]) -> int:
    """Returns the largest number of rows the node may output; 0 if it is unknown, not positive or above MAX_ROWS, and 0
    for other operators."""
    if node.op_type != "NonMaxSuppression" or len(node.input) < 3 or node.input[2] not in constants:
        return 0
    scores = types.get(node.input[1], (0, ()))[1]
    largest = value_of(constants[node.input[2]]).reshape(-1)
    if len(scores) != 3 or largest.size != 1:
        return 0
    rows = scores[0] * scores[1] * min(int(largest[0]), scores[2])
    return rows if 0 < rows <= MAX_ROWS else 0


def _pad_output(graph: onnx.GraphProto, node: onnx.NodeProto, rows: int) -> list[onnx.NodeProto]:
    """Returns the node followed by those that pad its output to this number of rows; adds their constants to the
    graph."""
    name = node.output[0]
    raw, padded, cut = (f"{name}/{part}" for part in ("raw", "padded", "rows"))
    values = {"fill": np.full((rows, 3), -1), "start": [0], "end": [rows], "axis": [0], "dims": [rows, 3]}
    constant_names = {part: f"{name}/{part}" for part in values}
    graph.initializer.extend(
        numpy_helper.from_array(np.array(v, np.int64), constant_names[k]) for k, v in values.items()
    )
    node.output[0] = raw
    return [
        helper.make_node("Concat", [raw, constant_names["fill"]], [padded], name=padded, axis=0),
        helper.make_node(
            "Slice", [padded, constant_names["start"], constant_names["end"], constant_names["axis"]], [cut], name=cut
        ),
        helper.make_node("Reshape", [cut, constant_names["dims"]], [name], name=f"{name}/bounded"),
    ]
