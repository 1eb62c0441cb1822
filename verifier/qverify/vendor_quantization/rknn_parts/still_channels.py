"""Channels that have the same value everywhere, because the weights that make them are next to zero. rknn-toolkit2 adds
what they give to the biases of the next convolution."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
from onnx import NodeProto

from qverify.onnx_model.qdq_graph import attributes

DEAD = 1e-8  # weights below are zeros to the toolkit
Array = npt.NDArray[Any]


class StillChannels:
    """The constant channels of the tensors of a float model, found node by node. floats: its constants."""

    def __init__(self, floats: Mapping[str, Array]):
        self._floats = floats
        self._values: dict[str, Array] = {}  # of each channel, NaN for those that are not constant

    def follow(self, node: NodeProto) -> None:
        """Finds the constant channels of what a node gives."""
        source = self._values.get(node.input[0]) if node.input else None
        found = None
        if node.op_type == "Conv" and node.input[1] in self._floats:
            found = _still_channels(node, self._floats, source)
        elif source is not None and node.op_type == "Relu":
            found = np.maximum(source, 0)
        elif source is not None and node.op_type == "Clip":
            low, high = (self._floats.get(n) for n in (*node.input[1:3], "", "")[:2])
            found = np.minimum(np.maximum(source, -np.inf if low is None else low), np.inf if high is None else high)
        if found is not None:
            self._values[node.output[0]] = found

    def added(self, node: NodeProto, weights: Array) -> Array | None:
        """Returns what the constant channels of the input add to each output channel of a convolution of 1x1, or None."""
        values = self._values.get(node.input[0])
        plain = node.op_type == "Conv" and attributes(node).get("group", 1) == 1 and weights.shape[2:] == (1, 1)
        if values is None or not plain:
            return None
        added: Array = weights[:, :, 0, 0].astype(np.float64) @ np.nan_to_num(values.astype(np.float64))
        return added if added.any() else None

    def without(self, node: NodeProto, weights: Array) -> Array:
        """Returns the weights of a convolution of 1x1 without those of constant channels that are not zero."""
        values = self._values[node.input[0]]
        return np.where((np.nan_to_num(values) != 0)[None, :, None, None], np.float32(0), weights)


def _still_channels(node: NodeProto, floats: Mapping[str, Array], source: Array | None) -> Array | None:
    """Returns the values of a convolution's constant channels, NaN for the others; None without any."""
    weights, facts = floats[node.input[1]], attributes(node)
    bias = floats.get(node.input[2]) if len(node.input) > 2 else None
    group, channels = facts.get("group", 1), weights.shape[0]
    moving = np.abs(weights).max(tuple(range(2, weights.ndim)))  # [O, I / group]
    values = np.zeros(channels) if bias is None else bias.astype(np.float64)
    if source is None or (group == 1 and weights.shape[2:] != (1, 1)):
        still = moving.max(1) < DEAD
    elif group == 1:
        still = np.where(np.isnan(source)[None, :], moving, 0).max(1) < DEAD
        values = values + weights[:, :, 0, 0].astype(np.float64) @ np.nan_to_num(source)
    elif weights.shape[1] == 1 and group == channels:
        still = (moving[:, 0] < DEAD) | (source == 0)
    else:
        return None
    return np.where(still, values, np.nan) if still.any() else None
