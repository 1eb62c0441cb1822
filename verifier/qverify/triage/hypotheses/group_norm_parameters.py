"""Group norm uses gamma and beta of another channel (of the first group, of the group's number), or forms its groups
from other channels."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

import numpy as np

from qverify.model_bin.graph import Graph, Node
from qverify.triage.altered_kernels.channel_choice import channel_choices
from qverify.triage.altered_kernels.layer_norm_kernel import LayerNorm
from qverify.triage.altered_kernels.replaced_kernels import kernel_variant, nodes_of
from qverify.triage.case import Array, Case
from qverify.triage.hypotheses import FaultVariant

NAME = "group-norm-parameters"
OPS = ("group_norm",)
PARAMETERS = {"gamma and beta": (1, 2), "gamma": (1,), "beta": (2,)}


def variants(case: Case) -> Iterator[FaultVariant]:
    for node in nodes_of(case, "group_norm")[:1]:
        shape, groups = case.graph.spec(node.inputs[0] or "").shape, node.words[0]
        for phrase, choice in _choices(shape[1], groups).items():
            for what, at in PARAMETERS.items():
                text = f"group norm: {what} of a channel {'are those' if len(at) > 1 else 'is that'} of {phrase}"
                yield kernel_variant(text, {"group_norm": partial(_chosen, choice=choice, at=at)}, 5.0)
        for other, phrase in _groupings(shape, groups).items():
            yield kernel_variant(f"group norm: {phrase}", {"group_norm": partial(_grouped, groups=other)}, 6.0)
        if 1 < groups < shape[1]:
            text = "group norm: channel c is normalized with group c mod groups, not c / (channels of a group)"
            yield kernel_variant(text, {"group_norm": _interleaved}, 6.0)


def _choices(channels: int, groups: int) -> dict[str, Array]:
    """Returns, by text, the index of the channel whose parameters are used; the likely ones first, each choice once."""
    at, size = np.arange(channels), channels // groups
    likely = {
        "the channel within its group (every group uses those of the first)": at % size,
        "the number of its group (one for a group)": at // size,
        "the first channel of its group": at // size * size,
        "the last channel of its group": at // size * size + size - 1,
        "the channel with the number of its group plus that within the group": at // size + at % size,
    }
    choices = dict[bytes, tuple[str, Array]]()
    for phrase, choice in (likely | channel_choices(channels)).items():
        if (choice != at).any():
            key = choice.astype(np.int64).tobytes()
            text = (
                f"{choices[key][0]}, or, which is the same here, of {phrase}"
                if key in choices and phrase in likely
                else phrase
            )
            if key not in choices or phrase in likely:
                choices[key] = (text, choice)
    return dict(choices.values())


def _groupings(shape: tuple[int, ...], groups: int) -> dict[int, str]:
    texts = {1: "all channels are one group", shape[1]: "every channel is a group of its own"}
    if shape[1] // groups > 0 and shape[1] % (shape[1] // groups) == 0:
        texts.setdefault(shape[1] // groups, "there are as many groups as a group has channels")
    for factor in (2, 4):
        if shape[1] % (groups * factor) == 0:
            texts.setdefault(groups * factor, f"a group has only its channels / {factor}")
        if groups % factor == 0:
            texts.setdefault(groups // factor, f"{factor} groups are normalized as one")
    texts.pop(groups, None)
    return texts


def _chosen(node: Node, inputs: list[Array], graph: Graph, choice: Array, at: tuple[int, ...]) -> Array:
    changed = [v.reshape(-1)[choice] if i in at and v.size else v for i, v in enumerate(inputs)]
    return LayerNorm()(node, changed, graph)


def _grouped(node: Node, inputs: list[Array], graph: Graph, groups: int) -> Array:
    return LayerNorm()(replace(node, words=(groups, *node.words[1:])), inputs, graph)


def _interleaved(node: Node, inputs: list[Array], graph: Graph) -> Array:
    x, groups = inputs[0], node.words[0]
    order = np.argsort(np.arange(x.shape[1]) % groups, kind="stable")
    reordered = [x[:, order], *(v.reshape(-1)[order] if v.size else v for v in inputs[1:])]
    y = LayerNorm()(node, reordered, graph).reshape(x.shape)
    return y[:, np.argsort(order)]
