"""Parallel convolutions of one tensor whose outputs are added, with or without the tensor itself, which rknn-toolkit2 makes
one convolution before it quantizes the weights (as of a RepVGG block)."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
from onnx import ModelProto, NodeProto, numpy_helper

from qverify.onnx_model.qdq_graph import attributes

Array = npt.NDArray[Any]


def merge_branches(model: ModelProto, floats: dict[str, Array], stated: Collection[str]) -> list[str]:
    """Merges such convolutions of a model in place, adds the merged constants to `floats`, and returns the tensors that the
    model no longer has. stated: the tensors of which the toolkit's text says something; what it states was not merged."""
    branches = _Branches(model, floats, stated)
    gone = list[str]()
    for node in [n for n in model.graph.node if n.op_type == "Add" and n.output[0] in stated]:
        if (found := branches.of(node)) is None:
            continue
        weights, bias = found.merged(floats)
        name = node.output[0]
        for suffix, values in (("_merged_w", weights), ("_merged_b", bias)):
            floats[name + suffix] = values
            model.graph.initializer.append(numpy_helper.from_array(values, name + suffix))
        node.op_type = "Conv"
        node.input[:] = [found.source, f"{name}_merged_w", f"{name}_merged_b"]
        del node.attribute[:]
        node.attribute.extend(found.widest(floats).attribute)
        gone += [n.output[0] for n in (*found.convs, *found.additions)]
    for old in [n for n in model.graph.node if n.output[0] in gone]:
        model.graph.node.remove(old)
    return gone


@dataclass(slots=True)
class _Found:
    """The branches of one addition. source: the tensor that all read. identities: how often it is itself added."""

    source: str
    convs: list[NodeProto] = field(default_factory=list)
    additions: list[NodeProto] = field(default_factory=list)
    identities: int = 0

    def widest(self, floats: dict[str, Array]) -> NodeProto:
        return max(self.convs, key=lambda conv: floats[conv.input[1]].shape[-1])

    def merged(self, floats: dict[str, Array]) -> tuple[Array, Array]:
        """Returns weights and bias of the one convolution, in float32."""
        shape = floats[self.widest(floats).input[1]].shape
        weights, bias = np.zeros(shape, np.float32), np.zeros(shape[0], np.float32)
        for conv in self.convs:
            own = floats[conv.input[1]].astype(np.float32)
            edge = (shape[-1] - own.shape[-1]) // 2
            weights += np.pad(own, ((0, 0), (0, 0), (edge, edge), (edge, edge)))
            bias += floats[conv.input[2]].astype(np.float32) if len(conv.input) > 2 else np.float32(0)
        channels, middle = np.arange(shape[0]), shape[-1] // 2
        weights[channels, channels % shape[1], middle, middle] += np.float32(self.identities)
        return weights, bias


class _Branches:
    """The nodes of a model by what they make and read."""

    def __init__(self, model: ModelProto, floats: dict[str, Array], stated: Collection[str]):
        self._floats, self._stated = floats, stated
        self._makers = {name: node for node in model.graph.node for name in node.output}
        self._finals = {o.name for o in model.graph.output}
        self._reads: dict[str, int] = {}
        for node in model.graph.node:
            for name in node.input:
                self._reads[name] = self._reads.get(name, 0) + 1

    def of(self, addition: NodeProto) -> _Found | None:
        """Returns the branches of an addition, None if they cannot be one convolution."""
        leaves, additions = self._leaves(addition)
        convs = [self._makers[n] for n in leaves if self._is_hidden(n, "Conv")]
        if not convs:
            return None
        found = _Found(convs[0].input[0], convs, additions)
        found.identities = leaves.count(found.source)
        whole = len(convs) + found.identities == len(leaves)
        return found if whole and self._fit(found) else None

    def _leaves(self, addition: NodeProto) -> tuple[list[str], list[NodeProto]]:
        """Returns what a tree of additions adds, and the additions below the given one."""
        leaves, below = list[str](), list[NodeProto]()
        for name in addition.input:
            if self._is_hidden(name, "Add"):
                more, further = self._leaves(self._makers[name])
                leaves += more
                below += [self._makers[name], *further]
            else:
                leaves.append(name)
        return leaves, below

    def _is_hidden(self, name: str, kind: str) -> bool:
        """Returns whether a node of this kind makes the tensor for one reader only, and the text says nothing of it."""
        made = self._makers.get(name)
        alone = self._reads.get(name, 0) == 1 and name not in self._finals and name not in self._stated
        return made is not None and made.op_type == kind and alone

    def _fit(self, found: _Found) -> bool:
        """Returns whether all branches are convolutions of the same places of one input, with odd square kernels."""
        facts = [self._facts(conv) for conv in found.convs]
        if any(fact is None or fact != facts[0] for fact in facts):
            return False
        if any(conv.input[0] != found.source for conv in found.convs):
            return False
        strides, groups, outputs, per_group = facts[0] or ([], 0, 0, 0)
        same = outputs == per_group * groups and strides == [1, 1]
        return not found.identities or same

    def _facts(self, conv: NodeProto) -> tuple[list[int], int, int, int] | None:
        """Returns strides, groups and channels (of the output, and of the input of each group) of a convolution whose
        padding keeps the places of its kernel's middle; None for another one."""
        facts, weights = attributes(conv), self._floats.get(conv.input[1])
        if weights is None or weights.ndim != 4 or any(n not in self._floats for n in conv.input[2:]):
            return None
        height, width = weights.shape[2:]
        pads, dilations = list(facts.get("pads", [0] * 4)), list(facts.get("dilations", [1, 1]))
        automatic = facts.get("auto_pad", b"NOTSET") not in (b"NOTSET", b"")
        if height != width or height % 2 == 0 or pads != [height // 2] * 4 or dilations != [1, 1] or automatic:
            return None
        return list(facts.get("strides", [1, 1])), int(facts.get("group", 1)), weights.shape[0], weights.shape[1]
