"""NonMaxSuppression with as many rows as it may keep: those it does not keep are -1."""

from __future__ import annotations

import numpy as np
import onnx
from onnx import helper, numpy_helper

from qverify.onnx_model.infer_types import Types

MOST_ROWS = 1 << 20


def bound_suppression(model: onnx.ModelProto, types: Types) -> bool:
    """Fills the output of every NonMaxSuppression whose boxes, scores and largest number are known with rows of -1, in
    place, so that its shape does not depend on values. The names it adds are OUTPUT/raw, /fill, /padded, /rows and /dims.
    Returns whether there was one."""
    graph, nodes, found = model.graph, list[onnx.NodeProto](), False
    constants = {i.name: i for i in graph.initializer}
    bounded = {i.name.removesuffix("/fill") + "/raw" for i in graph.initializer if i.name.endswith("/fill")}
    for node in graph.node:
        nodes.append(node)
        rows = _most_rows(node, types, constants)
        if rows and node.output[0] not in bounded:
            found = True
            nodes += _filled(graph, node, rows)
    if found:
        del graph.node[:]
        graph.node.extend(nodes)
    return found


def _most_rows(node: onnx.NodeProto, types: Types, constants: dict[str, onnx.TensorProto]) -> int:
    """Returns the largest number of rows; 0 where it is not known, not positive or more than MOST_ROWS, and for other
    nodes."""
    if node.op_type != "NonMaxSuppression" or len(node.input) < 3 or node.input[2] not in constants:
        return 0
    scores = types.get(node.input[1], (0, ()))[1]
    largest = numpy_helper.to_array(constants[node.input[2]]).reshape(-1)
    if len(scores) != 3 or largest.size != 1:
        return 0
    rows = scores[0] * scores[1] * min(int(largest[0]), scores[2])
    return rows if 0 < rows <= MOST_ROWS else 0


def _filled(graph: onnx.GraphProto, node: onnx.NodeProto, rows: int) -> list[onnx.NodeProto]:
    name = node.output[0]
    raw, padded, cut = (f"{name}/{part}" for part in ("raw", "padded", "rows"))
    values = {"fill": np.full((rows, 3), -1), "start": [0], "end": [rows], "axis": [0], "dims": [rows, 3]}
    held = {part: f"{name}/{part}" for part in values}
    graph.initializer.extend(numpy_helper.from_array(np.array(v, np.int64), held[k]) for k, v in values.items())
    node.output[0] = raw
    return [
        helper.make_node("Concat", [raw, held["fill"]], [padded], name=padded, axis=0),
        helper.make_node("Slice", [padded, held["start"], held["end"], held["axis"]], [cut], name=cut),
        helper.make_node("Reshape", [cut, held["dims"]], [name], name=f"{name}/bounded"),
    ]
