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
            for text, words in _words(node.words[:3], shape).items():
                yield kernel_variant(f"softmax runs over {text}", {op: partial(_over, words=words)}, LIKELY)


def _words(own_words: tuple[int, ...], shape: tuple[int, ...]) -> dict[str, tuple[int, int, int]]:
    """Returns (outer, depth, inner) of wrong sums, by text."""
    outer, depth, inner = own_words
    total = outer * depth * inner
    words_by_text = {
        f"axis {k} instead of its own": (int(np.prod(shape[:k])), shape[k], int(np.prod(shape[k + 1 :])))
        for k in range(len(shape) - 1, -1, -1)
    }
    words_by_text["its axis and those after it at once"] = (outer, depth * inner, 1)
    words_by_text["its axis and those before it at once"] = (1, outer * depth, inner)
    words_by_text["the whole tensor at once"] = (1, total, 1)
    words_by_text["as many neighbours in memory as its axis is long"] = (total // depth, depth, 1)
    distinct = dict[tuple[int, int, int], str]()
    for text, words in words_by_text.items():
        if words != own_words and not (words[0] == outer and words[2] == inner):
            distinct.setdefault(words, text)
    return {text: words for words, text in distinct.items()}


def _over(node: Node, inputs: list[Array], graph: Graph, words: tuple[int, int, int]) -> Array:
    result: Array = KERNELS[node.op](replace(node, words=(*words, *node.words[3:])), inputs, graph)
    return result
