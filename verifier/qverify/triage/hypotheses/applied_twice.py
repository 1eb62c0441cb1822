"""A function of single elements is not applied, or is applied twice, where a vector at the end overlaps the one before
it."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np

from qverify.model_bin.graph import Graph, Node
from qverify.ops import page, with_one_nan
from qverify.triage.altered_kernels.replaced_kernels import LIKELY, kernel_variant, nodes_of
from qverify.triage.case import Array, Case
from qverify.triage.hypotheses import FaultVariant

NAME = "applied-twice"
OPS = {"lookup": "the lookup", "elementwise_float": "the float function"}


def variants(case: Case) -> Iterator[FaultVariant]:
    for op, name in OPS.items():
        for node in nodes_of(case, op)[:1]:
            x, y = case.graph.spec(node.inputs[0] or ""), case.graph.spec(node.outputs[0])
            if x.dtype != y.dtype or x.shape != y.shape:
                continue
            yield kernel_variant(f"{name} returns its input", {op: _input}, LIKELY)
            yield kernel_variant(f"{name} is applied twice to every element", {op: _twice}, LIKELY)
            total = y.elements
            for n in (4, 8, 16, 32, 64):
                rest = total % n
                if rest and total > n:
                    text = f"{name} is applied twice to the elements where the last vector of {n} overlaps the one before ({n - rest} of them)"
                    yield kernel_variant(text, {op: partial(_twice, places=slice(total - n, total - rest))}, LIKELY + 1)
                    text = f"{name} is not applied to the last {rest} elements (their number mod {n}): they are the input's"
                    yield kernel_variant(text, {op: partial(_input, places=slice(total - rest, total))}, LIKELY + 1)
                    text = f"{name} is applied twice to the last {rest} elements (their number mod {n})"
                    yield kernel_variant(text, {op: partial(_twice, places=slice(total - rest, total))}, LIKELY + 1)


def _once(node: Node, inputs: list[Array], graph: Graph) -> Array:
    values: list[Array | None] = list(inputs)
    output = with_one_nan(np.asarray(page(node.op).simulate(node, values, graph, None)[0]))
    return output.reshape(inputs[0].shape)


def _input(node: Node, inputs: list[Array], graph: Graph, places: slice | None = None) -> Array:
    output = _once(node, inputs, graph).copy()
    output.reshape(-1)[places or slice(None)] = inputs[0].reshape(-1)[places or slice(None)]
    return output


def _twice(node: Node, inputs: list[Array], graph: Graph, places: slice | None = None) -> Array:
    output = _once(node, inputs, graph)
    again = _once(node, [output, *inputs[1:]], graph)
    result = output.copy()
    result.reshape(-1)[places or slice(None)] = again.reshape(-1)[places or slice(None)]
    return result
