"""A norm of rows (layer, group or root-mean-square norm) whose parts can be exchanged one by one: mean, variance, root, gamma
and beta, and whose statistics."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from qverify.model_bin.graph import Graph, Node
from qverify.ops import float_word
from qverify.triage.altered_kernels.row_sums import whole
from qverify.triage.hypotheses import FaultVariant

Array = npt.NDArray[Any]
NORMS = ("layer_norm", "group_norm", "rms_norm")
TITLES = {"layer_norm": "layer norm", "group_norm": "group norm", "rms_norm": "root-mean-square norm"}


def mean_of(rows: Array) -> Array:
    """Returns the mean of each row, [rows, 1]."""
    return whole(rows)[:, None] / rows.shape[1]


def variance_of(rows: Array, mean: Array) -> Array:
    """Returns the mean square of each row around `mean`, [rows, 1]."""
    return mean_of((rows - mean) ** 2)


def root_of(variance: Array, eps: float) -> Array:
    """Returns the deviation by which a row is divided."""
    return np.sqrt(variance + eps)


def normalized(centred: Array, root: Array) -> Array:
    """Returns the rows of deviation one."""
    return centred / root


def affine(y: Array, gamma: Array, beta: Array) -> Array:
    """Returns y*gamma + beta; an absent one is empty."""
    y = y * gamma if gamma.size else y
    return y + beta if beta.size else y


def as_they_are(mean: Array, root: Array) -> tuple[Array, Array]:
    """Returns the statistics of each row for the row itself."""
    return mean, root


def titled(node: Node, variants: Iterable[FaultVariant]) -> Iterator[FaultVariant]:
    """Yields the variants of a layer norm with the words of the node's norm."""
    for variant in variants:
        said = variant.said.replace("layer norm", TITLES[node.op])
        if node.op == "group_norm":
            said = re.sub(r"\brow(s?)\b", r"group\1", said)
        yield replace(variant, said=said)


def row_length(node: Node, shape: tuple[int, ...]) -> int:
    """Returns how many elements have one mean and variance."""
    if node.op == "group_norm":
        return int(np.prod(shape)) // (shape[0] * node.words[0])
    return node.words[0]


def parameters_of(node: Node, inputs: list[Array]) -> tuple[Array, Array]:
    """Returns gamma and beta, [depth] or [rows, depth]; an absent one is empty."""
    given = [v.reshape(-1) for v in (*inputs[1:3], np.zeros(0))[:2]]
    if node.op == "group_norm":
        given = [over_groups(v, node, inputs[0].shape) if v.size else v for v in given]
    return given[0], given[1]


def over_groups(values: Array, node: Node, shape: tuple[int, ...]) -> Array:
    """Returns values of channels, [C], as [rows, depth] of the groups."""
    inner = int(np.prod(shape[2:]))
    return np.tile(np.repeat(values, inner).reshape(node.words[0], -1), (shape[0], 1))


@dataclass(frozen=True, slots=True)
class LayerNorm:
    """A kernel for nodes of NORMS; a group is a row of group_norm, with a gamma for each of its elements ([rows, depth]), and
    rms_norm has no mean. mean: [rows, depth] to [rows, 1]. variance: takes rows and mean. root: takes
    variance and epsilon. statistics: exchanges mean and root between rows. normalize: takes rows less mean, and root.
    finish: takes that, gamma and beta. dtype:
    of all of it."""

    mean: Callable[[Array], Array] = mean_of
    variance: Callable[[Array, Array], Array] = variance_of
    root: Callable[[Array, float], Array] = root_of
    statistics: Callable[[Array, Array], tuple[Array, Array]] = as_they_are
    normalize: Callable[[Array, Array], Array] = normalized
    finish: Callable[[Array, Array, Array], Array] = affine
    dtype: type = np.float64

    def __call__(self, node: Node, inputs: list[Array], graph: Graph) -> Array:
        rows: Array = inputs[0].reshape(-1, row_length(node, inputs[0].shape)).astype(self.dtype)
        gamma: Array
        beta: Array
        gamma, beta = (v.astype(self.dtype) for v in parameters_of(node, inputs))
        mean = self.mean(rows) if node.op != "rms_norm" or self.mean is not mean_of else np.zeros((len(rows), 1))
        root = self.root(self.variance(rows, mean), float(float_word(node.words[1])))
        mean, root = self.statistics(mean, root)
        return self.finish(self.normalize(rows - mean, root), gamma, beta)
