"""NonMaxSuppression with a constant maximum -> non_max_suppression, with the rows of -1 that the loader appends
(onnx_model/bound_suppression.py)."""

from __future__ import annotations

from typing import Any

import numpy as np

from qverify.compiler.attributes import only
from qverify.compiler.builder import float_word
from qverify.compiler.float_stream import FloatStream
from qverify.errors import UnsupportedError
from qverify.onnx_model.bound_suppression import MAX_ROWS
from qverify.onnx_model.graph_view import attributes

ONNX_TYPES = {"NonMaxSuppression": {"center_point_box": only(0, 1)}}
BEHIND = ("Concat", "Slice", "Reshape")


def lower_float(stream: FloatStream, node: Any) -> None:
    view = stream.view
    bounded, followers = node, list[Any]()
    for kind in BEHIND:
        user = view.sole_consumer(bounded.output[0])
        if user is None or user.op_type != kind or not node.output[0].endswith("/raw"):
            raise UnsupportedError(
                f"{node.name} (NonMaxSuppression): its max_output_boxes_per_class is no constant, or it may keep 0 or more than "
                f"{MAX_ROWS} boxes; export it with a constant maximum"
            )
        bounded = user
        followers.append(user)
    most = min(int(view.constants[node.input[2]].reshape(())), view.shape(node.input[1])[2])
    iou, score = (_threshold(stream, node, at) for at in (3, 4))
    words = [most, attributes(node).get("center_point_box", 0), float_word(iou or 0.0), int(score is not None)]
    inputs: list[str | None] = [stream.source(n) for n in node.input[:2]]
    stream.covered |= {n.name for n in followers}
    stream.builder.node("non_max_suppression", inputs, stream.declare(bounded), [*words, float_word(score or 0.0)])


def _threshold(stream: FloatStream, node: Any, at: int) -> float | None:
    """Returns the value of an optional constant input, or None if it is omitted."""
    if len(node.input) <= at or not node.input[at]:
        return None
    value = stream.scalar(node, at, "a threshold")
    if np.isnan(value):
        raise UnsupportedError(f"{node.name} (NonMaxSuppression): a threshold is NaN; wanted a number")
    return value
