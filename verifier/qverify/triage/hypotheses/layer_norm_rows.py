"""Layer norm normalizes a row with the mean, the deviation or both of another row, of several rows, or of all."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np

from qverify.model_bin.graph import Graph, Node
from qverify.ops import float_word
from qverify.triage.altered_kernels.layer_norm_kernel import (
    NORMS,
    LayerNorm,
    affine,
    mean_of,
    parameters_of,
    row_length,
    titled,
    variance_of,
)
from qverify.triage.altered_kernels.replaced_kernels import Kernel, kernel_variant, nodes_of
from qverify.triage.altered_kernels.row_choice import row_choices
from qverify.triage.case import Array, Case
from qverify.triage.hypotheses import FaultVariant

NAME = "layer-norm-rows"
OPS = NORMS


def variants(case: Case) -> Iterator[FaultVariant]:
    for node in nodes_of(case, *NORMS)[:1]:
        shape = case.graph.spec(node.inputs[0] or "").shape
        yield from titled(node, _faults(int(np.prod(shape)) // row_length(node, shape)))


def _faults(rows: int) -> Iterator[FaultVariant]:
    for text, row in row_choices(rows).items():
        for what, of in {"mean and deviation": (True, True), "mean": (True, False), "deviation": (False, True)}.items():
            kernel = LayerNorm(statistics=partial(_of_rows, row=row, of=of))
            yield _variant(f"a row is normalized with the {what} of {text}", kernel)
    for n in (2, 4, 8, 16, 32):
        if rows > n:
            yield _variant(f"{n} rows share one mean and variance", partial(_joint, count=n))
    if rows > 1:
        yield _variant("one mean and variance of the whole tensor", partial(_joint, count=rows))
        yield _variant("the statistics run over the rows' axis (each column is normalized)", _of_columns)
        yield _variant("the sum of a row begins with that of the row before (not reset)", LayerNorm(mean=_summed_on))
        yield _variant(
            "the sum of squares of a row begins with that of the row before (not reset)",
            LayerNorm(variance=_squares_on),
        )
        yield _variant(
            "the sums of a row begin with those of the row before (not reset)",
            LayerNorm(mean=_summed_on, variance=_squares_on),
        )


def _variant(text: str, kernel: Kernel) -> FaultVariant:
    return kernel_variant(f"layer norm: {text}", dict.fromkeys(NORMS, kernel))


def _of_rows(mean: Array, root: Array, row: Array, of: tuple[bool, bool]) -> tuple[Array, Array]:
    return mean[row] if of[0] else mean, root[row] if of[1] else root


def _joint(node: Node, inputs: list[Array], graph: Graph, count: int) -> Array:
    rows = inputs[0].reshape(-1, row_length(node, inputs[0].shape)).astype(np.float64)
    group = np.arange(len(rows)) // count
    size = np.bincount(group)
    mean = (np.bincount(group, mean_of(rows)[:, 0]) / size)[group][:, None] * (node.op != "rms_norm")
    variance = (np.bincount(group, variance_of(rows, mean)[:, 0]) / size)[group][:, None]
    return _finished(node, inputs, rows, mean, variance)


def _finished(node: Node, inputs: list[Array], rows: Array, mean: Array, variance: Array) -> Array:
    y = (rows - mean) / np.sqrt(variance + float(float_word(node.words[1])))
    return affine(y, *(v.astype(np.float64) for v in parameters_of(node, inputs)))


def _of_columns(node: Node, inputs: list[Array], graph: Graph) -> Array:
    rows = inputs[0].reshape(-1, row_length(node, inputs[0].shape)).astype(np.float64)
    mean = mean_of(rows.T).T * (node.op != "rms_norm")
    return _finished(node, inputs, rows, mean, mean_of(((rows - mean) ** 2).T).T)


def _summed_on(rows: Array) -> Array:
    return np.cumsum(rows.reshape(-1))[rows.shape[1] - 1 :: rows.shape[1]][:, None] / rows.shape[1]


def _squares_on(rows: Array, mean: Array) -> Array:
    return np.cumsum(((rows - mean) ** 2).reshape(-1))[rows.shape[1] - 1 :: rows.shape[1]][:, None] / rows.shape[1]
