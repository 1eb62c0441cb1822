"""A small compiled model and its inputs for the suites over links and boards."""

from __future__ import annotations

import numpy as np
from qverify.model_bin.graph import Graph, Node
from qverify.model_bin.records import encode
from qverify.tensors.prepared import PreparedInput, PreparedInputs
from qverify.tensors.spec import TensorSpec

U8 = {"scale": (0.05,), "zero_point": (131,)}


def graph() -> Graph:
    """x -> quantize -> transpose -> transpose -> dequantize -> y, padded rows at the input."""
    nodes = [
        Node("q", "quantize", ("x",), ("q",)),
        Node("t", "transpose", ("q",), ("t",), (0, 2, 3, 1)),
        Node("u", "transpose", ("t",), ("u",), (0, 2, 1, 3)),
        Node("y", "dequantize", ("u",), ("y",)),
    ]
    specs = [
        TensorSpec("x", "float32", (1, 3, 11, 7), (1, 3, 11, 8)),
        TensorSpec("q", "uint8", (1, 3, 11, 7), **U8),
        TensorSpec("t", "uint8", (1, 11, 7, 3), **U8),
        TensorSpec("u", "uint8", (1, 7, 11, 3), **U8),
        TensorSpec("y", "float32", (1, 7, 11, 3)),
    ]
    return Graph(nodes, {s.name: s for s in specs}, {}, ("x",), ("y",), meta={"source_sha256": "0" * 64})


def model_bytes() -> bytes:
    return encode(graph())


def prepared(seed: int = 0) -> PreparedInputs:
    spec = graph().spec("x")
    values = np.random.Generator(np.random.PCG64(seed)).uniform(-6, 6, spec.shape).astype(np.float32)
    return PreparedInputs((PreparedInput(spec, spec.aligned_bytes(values), "random", seed),))
