"""Softmax runs over another axis, or over two axes at once."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from qverify.model_bin.graph import Graph, Node
from qverify.triage.altered_kernels.replaced_kernels import LIKELY, kernel_variant, nodes_of
from qverify.triage.altered_kernels.softmax_kernels import FloatSoftmax, IntegerSoftmax, LogSoftmax
from qverify.triage.case import Array, Case
from qverify.triage.hypotheses import FaultVariant

NAME = "softmax-axis"
KERNELS: dict[str, Callable[..., Any]] = {
    "softmax": IntegerSoftmax(),
    "softmax_float": FloatSoftmax(),
    "log_softmax": LogSoftmax(),
}
OPS = tuple(KERNELS)


def variants(case: Case) -> Iterator[FaultVariant]:
    for op in KERNELS:
        for node in nodes_of(case, op)[:1]:
            shape = case.graph.spec(node.inputs[0] or "").shape
            for said, words in _words(node.words[:3], shape).items():
                yield kernel_variant(f"softmax runs over {said}", {op: partial(_over, words=words)}, LIKELY)


def _words(own: tuple[int, ...], shape: tuple[int, ...]) -> dict[str, tuple[int, int, int]]:
    """Returns (outer, depth, inner) by what is summed over, each other than the node's own."""
    outer, depth, inner = own
    total = outer * depth * inner
    found = {
        f"axis {k} instead of its own": (int(np.prod(shape[:k])), shape[k], int(np.prod(shape[k + 1 :])))
        for k in range(len(shape) - 1, -1, -1)
    }
    found["its axis and those after it at once"] = (outer, depth * inner, 1)
    found["its axis and those before it at once"] = (1, outer * depth, inner)
    found["the whole tensor at once"] = (1, total, 1)
    found["as many neighbours in memory as its axis is long"] = (total // depth, depth, 1)
    distinct = dict[tuple[int, int, int], str]()
    for said, words in found.items():
        if words != own and not (words[0] == outer and words[2] == inner):
            distinct.setdefault(words, said)
    return {said: words for words, said in distinct.items()}


def _over(node: Node, inputs: list[Array], graph: Graph, words: tuple[int, int, int]) -> Array:
    result: Array = KERNELS[node.op](replace(node, words=(*words, *node.words[3:])), inputs, graph)
    return result
