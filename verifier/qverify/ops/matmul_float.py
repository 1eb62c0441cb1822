"""y = fl32(beta*c + sum a*b), the exact sum rounded once; with an alpha, fl32(alpha*fl32(sum a*b) + beta*c). Leading
dims broadcast."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from qverify.arithmetic.float_sums import multiply_exactly, norm_products
from qverify.model_bin.graph import Graph, Node
from qverify.ops import float_word

Array = npt.NDArray[Any]
WORDS = ("transpose_a", "transpose_b", "alpha_f32", "beta_f32")


def simulate(node: Node, inputs: list[Array | None], graph: Graph, state: None) -> tuple[Array, ...]:
    shape = graph.spec(node.outputs[0]).shape
    assert inputs[0] is not None and inputs[1] is not None
    a, b = matrices(inputs[0], inputs[1], node)
    alpha, beta = (float(float_word(w)) for w in node.words[2:])
    added = None if inputs[2] is None else inputs[2].astype(np.float64) * beta
    if alpha == 1.0:
        return (multiply_exactly(a, b, added).reshape(shape),)
    with np.errstate(all="ignore"):
        scaled = multiply_exactly(a, b).astype(np.float64) * alpha
        y = np.asarray(scaled if added is None else scaled + added, np.float32) + np.float32(0)
    y[np.isnan(y)] = np.nan
    return (y.reshape(shape),)


def matrices(a: Array, b: Array, node: Node) -> tuple[Array, Array]:
    """Returns both operands in float64 as (..., M, K) and (..., K, N)."""
    rows = a[None] if a.ndim == 1 else np.swapaxes(a, -1, -2) if node.words[0] else a
    columns = b[:, None] if b.ndim == 1 else np.swapaxes(b, -1, -2) if node.words[1] else b
    return rows.astype(np.float64), columns.astype(np.float64)


def magnitude(node: Node, inputs: list[Array | None], graph: Graph) -> float:
    """Returns an upper bound of the sums of the magnitudes of an output's terms."""
    assert inputs[0] is not None and inputs[1] is not None
    alpha, beta = (abs(float(float_word(w))) for w in node.words[2:])
    added = 0.0 if inputs[2] is None else float(np.abs(inputs[2]).max())
    return alpha * float(norm_products(*matrices(inputs[0], inputs[1], node)).max()) + beta * added
