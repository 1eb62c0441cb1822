"""A layer norm whose parts can be exchanged one by one: mean, variance, root, gamma and beta, and whose statistics."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from qverify.model_bin.graph import Graph, Node
from qverify.ops import float_word
from qverify.triage.altered_kernels.row_sums import whole

Array = npt.NDArray[Any]


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


@dataclass(frozen=True, slots=True)
class LayerNorm:
    """A kernel for nodes of layer_norm. mean: [rows, depth] to [rows, 1]. variance: takes rows and mean. root: takes
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
        rows: Array = inputs[0].reshape(-1, node.words[0]).astype(self.dtype)
        gamma: Array
        beta: Array
        gamma, beta = (v.reshape(-1).astype(self.dtype) for v in inputs[1:3])
        mean = self.mean(rows)
        root = self.root(self.variance(rows, mean), float(float_word(node.words[1])))
        mean, root = self.statistics(mean, root)
        return self.finish(self.normalize(rows - mean, root), gamma, beta)
