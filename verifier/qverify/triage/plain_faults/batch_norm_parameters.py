"""A BatchNormalization is folded with another epsilon, or with its mean and variance exchanged or left out."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import numpy as np

from qverify.model_bin.folded_norm import FoldedNorm
from qverify.model_bin.graph import Graph, Node
from qverify.triage.altered_kernels.replaced_kernels import LIKELY, kernel_variant, nodes_of
from qverify.triage.case import Array, Case
from qverify.triage.hypotheses import FaultVariant
from qverify.triage.plain_faults.epsilon import VALUES

NAME = "batch-norm-parameters"
OPS = ("batch_norm",)
Fold = Callable[[FoldedNorm], tuple[Array, Array]]  # the factor and the summand of each channel


def _fold(norm: FoldedNorm, epsilon: float | None = None) -> tuple[Array, Array]:
    """Returns the factor and the summand of each channel, float64."""
    root = np.sqrt(norm.variance.astype(np.float64) + (norm.epsilon if epsilon is None else epsilon))
    factor = norm.scale / root
    return factor, norm.shift - norm.mean * factor


def _without_mean(norm: FoldedNorm) -> tuple[Array, Array]:
    return _fold(norm)[0], norm.shift.astype(np.float64)


def _unscaled_mean(norm: FoldedNorm) -> tuple[Array, Array]:
    return _fold(norm)[0], norm.shift - norm.mean.astype(np.float64)


def _exchanged(norm: FoldedNorm) -> tuple[Array, Array]:
    factor = norm.scale / np.sqrt(norm.mean.astype(np.float64) + norm.epsilon)
    return factor, norm.shift - norm.variance * factor


def _no_root(norm: FoldedNorm) -> tuple[Array, Array]:
    factor = norm.scale / (norm.variance.astype(np.float64) + norm.epsilon)
    return factor, norm.shift - norm.mean * factor


def _outside(norm: FoldedNorm) -> tuple[Array, Array]:
    factor = norm.scale / (np.sqrt(norm.variance.astype(np.float64)) + norm.epsilon)
    return factor, norm.shift - norm.mean * factor


def _without_scale(norm: FoldedNorm) -> tuple[Array, Array]:
    factor = 1.0 / np.sqrt(norm.variance.astype(np.float64) + norm.epsilon)
    return factor, norm.shift - norm.mean * factor


FOLDS: dict[str, Fold] = {
    "the mean is left out": _without_mean,
    "the mean is not scaled (beta - mean)": _unscaled_mean,
    "mean and variance are exchanged": _exchanged,
    "the variance is taken for the standard deviation (no root)": _no_root,
    "epsilon is added to the standard deviation, outside of the root": _outside,
    "gamma is left out": _without_scale,
}


def variants(case: Case) -> Iterator[FaultVariant]:
    node = next(iter(nodes_of(case, *OPS)), None)
    norm = case.graph.folded_norms.get(node.outputs[0]) if node is not None else None
    if norm is None:
        return
    for text, fold in FOLDS.items():
        yield _variant(text, norm, fold, LIKELY)
    for value in VALUES:
        if np.float32(value) != np.float32(norm.epsilon):
            text = f"epsilon is {value:g} instead of {norm.epsilon:g}"
            yield _variant(text, norm, partial(_fold, epsilon=value), LIKELY + 1)


def _variant(text: str, norm: FoldedNorm, fold: Fold, bits: float) -> FaultVariant:
    return kernel_variant(f"batch norm: {text}", {"batch_norm": partial(_kernel, norm=norm, fold=fold)}, bits)


def _kernel(node: Node, inputs: list[Array], graph: Graph, norm: FoldedNorm, fold: Fold) -> Array:
    along = [1, -1] + [1] * (inputs[0].ndim - 2)
    factor, shift = fold(norm)
    return inputs[0].astype(np.float64) * factor.reshape(along) + shift.reshape(along)
