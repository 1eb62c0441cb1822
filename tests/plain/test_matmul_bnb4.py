"""MatMulBnb4 (bitsandbytes' FP4 and NF4), written out: the values of onnxruntime."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from qverify.compiler.compile_model import compile_model

from tests.ops.qdq import Qdq
from tests.plain.test_attention_past import assert_same_values, drawn
from tests.plain.test_decompositions import fused
from tests.plain.verified_model import refused, verified


def product(m: Qdq, kind: int, inner: int = 24, made: int = 7, **attributes: Any) -> None:
    count, block = inner * made, 16
    stored = m.constant(f"b{len(m.constants)}", m.rng.integers(0, 256, -(-count // 2)).astype(np.uint8))
    scales = m.constant(f"s{len(m.constants)}", m.rng.uniform(0.1, 2, -(-count // block)).astype(np.float32))
    more = {"K": inner, "N": made, "block_size": block, "quant_type": kind, **attributes}
    m.output(fused(m, "MatMulBnb4", [drawn(m, 2, 3, inner), stored, scales], (2, 3, made), **more))


@pytest.mark.parametrize("kind", [0, 1])
def test_each_weight_is_that_of_onnxruntime(kind: int) -> None:
    """Multiplies by a matrix of ones and zeros; the last byte of an odd number of weights is half used."""
    for inner, made in ((16, 2), (24, 7), (33, 3)):
        m = Qdq(seed=inner)
        product(m, kind, inner, made)
        graph = compile_model(m.model().SerializeToString(), "q.onnx").graph
        (weight,) = (v for v in graph.constants.values() if set(v.shape) == {inner, made})
        stored, scales = (next(v for n, v in m.constants.items() if n.startswith(first)) for first in "bs")
        numbers = np.stack([stored >> 4, stored & 15], 1).reshape(-1)[: inner * made]
        blocks = np.abs(weight.T.reshape(-1)) / np.repeat(scales, 16)[: inner * made]
        assert blocks.max() <= 1 and len(np.unique(np.round(blocks, 5))) <= len(np.unique(numbers))
        assert_same_values(m)


def test_a_product_is_verified(tmp_path: Path) -> None:
    m = Qdq(seed=5)
    product(m, 1)
    assert not verified(m.model(), tmp_path).islands


def computed_weights(m: Qdq) -> None:
    product(m, 1)
    node = next(n for n in m.nodes if n.op_type == "MatMulBnb4")
    node.input[2] = m.op("Abs", [m.input((11,))])
    m.nodes.sort(key=lambda n: n is node)


def test_computed_weights_are_refused_by_name() -> None:
    refused(computed_weights, r"MatMulBnb4\): its weights are computed at run time")


def both_kinds(m: Qdq) -> None:
    for kind in (0, 1):
        product(m, kind)


GOOD = {"bnb4": both_kinds}
