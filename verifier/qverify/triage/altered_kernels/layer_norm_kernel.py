"""A norm of rows (layer, group or root-mean-square norm), of which a fault can replace each part: mean, variance, root,
gamma and beta, and the rows whose statistics are used."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from qverify.model_bin.graph import Graph, Node
from qverify.ops import float_word
from qverify.triage.altered_kernels.replaced_kernels import kernel_variant
from qverify.triage.altered_kernels.row_sums import whole
from qverify.triage.hypotheses import FaultVariant

Array = npt.NDArray[Any]
NORMS = ("layer_norm", "group_norm", "rms_norm")
TITLES = {"layer_norm": "layer norm", "group_norm": "group norm", "rms_norm": "root-mean-square norm"}


def mean_of(rows: Array) -> Array:
    """Returns the mean of each row, [rows, 1]."""
    return whole(rows)[:, None] / rows.shape[1]


def variance_of(rows: Array, mean: Array) -> Array:
    """Returns the mean square deviation of each row from `mean`, [rows, 1]."""
    return mean_of((rows - mean) ** 2)


def root_of(variance: Array, eps: float) -> Array:
    """Returns the standard deviation by which a row is divided."""
    return np.sqrt(variance + eps)


def normalized(centred: Array, root: Array) -> Array:
    """Returns the rows divided by their deviation."""
    return centred / root


def affine(y: Array, gamma: Array, beta: Array) -> Array:
    """Returns y*gamma + beta; an absent parameter is empty."""
    y = y * gamma if gamma.size else y
    return y + beta if beta.size else y


def as_they_are(mean: Array, root: Array) -> tuple[Array, Array]:
    """Returns the statistics unchanged: each row uses its own."""
    return mean, root


def titled(node: Node, variants: Iterable[FaultVariant]) -> Iterator[FaultVariant]:
    """Yields variants of a layer norm with texts for the node's kind of norm."""
    for variant in variants:
        text = variant.text.replace("layer norm", TITLES[node.op])
        if node.op == "group_norm":
            text = re.sub(r"\brow(s?)\b", r"group\1", text)
        yield replace(variant, text=text)


def row_length(node: Node, shape: tuple[int, ...]) -> int:
    """Returns the number of elements that share a mean and a variance."""
    if node.op == "group_norm":
        return int(np.prod(shape)) // (shape[0] * node.words[0])
    return node.words[0]


def parameters_of(node: Node, inputs: list[Array]) -> tuple[Array, Array]:
    """Returns gamma and beta, [depth] or [rows, depth]; an absent one is empty."""
    parameters = [v.reshape(-1) for v in (*inputs[1:3], np.zeros(0))[:2]]
    if node.op == "group_norm":
        parameters = [over_groups(v, node, inputs[0].shape) if v.size else v for v in parameters]
    return parameters[0], parameters[1]


def over_groups(values: Array, node: Node, shape: tuple[int, ...]) -> Array:
    """Returns one value per channel, [C], repeated for the elements of the groups, [rows, depth]."""
    inner = int(np.prod(shape[2:]))
    return np.tile(np.repeat(values, inner).reshape(node.words[0], -1), (shape[0], 1))


@dataclass(frozen=True, slots=True)
class LayerNorm:
    """A kernel for the nodes of NORMS. The rows of a group_norm are its groups, with a gamma for each of their elements
    ([rows, depth]); an rms_norm has no mean.

    Attributes:
        mean: computes [rows, 1] from [rows, depth].
        variance: computes the variance from rows and mean.
        root: computes the deviation from variance and epsilon.
        statistics: exchanges mean and deviation between rows.
        normalize: divides the rows without their mean by the deviation.
        finish: applies gamma and beta.
        dtype: dtype of all arithmetic.
    """

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


def layer_norm_variant(text: str, kernel: LayerNorm, bits: float = 0.0) -> FaultVariant:
    """Returns the fault of a layer norm with another kernel."""
    return kernel_variant(f"layer norm: {text}", dict.fromkeys(NORMS, kernel), bits)
