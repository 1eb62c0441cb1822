"""gather: reference cases and random nodes."""

from __future__ import annotations

import numpy as np

from tests.ops.qdq import Qdq, reference
from tests.ops.random_nodes import RandomNodes


@reference()
def gathered(m: Qdq) -> None:
    x = m.input((2, 5, 7))
    m.output(m.quantize(m.op("Gather", [x, m.constant("index", np.array([3, 0, -1], np.int64))], axis=1), like=x))


@reference()
def gathered_by_an_input(m: Qdq) -> None:
    """A table of embeddings, and a quantized tensor whose rows are chosen."""
    x, ids = m.input((5, 7)), m.integers((2, 3))
    m.output(m.quantize(m.op("Gather", [x, ids], axis=0), like=x))


@reference(integer=False)
def gathered_from_a_table(m: Qdq) -> None:
    m.output(m.quantize(m.op("Gather", [m.weight((11, 7)), m.integers((2, 3))], axis=0)))


@reference(integer=False)
def gathered_before_it_is_dequantized(m: Qdq) -> None:
    """Adds a Gather in the form that onnxruntime's dynamic quantization writes: the integers are chosen, reshaped, then dequantized."""
    name = m.weight((11, 6)).removesuffix("_dq")
    rows = m.op("Gather", [f"{name}_i8", m.integers((2, 3))], axis=0)
    parts = m.op("Reshape", [rows, m.constant("shape", np.array([2, 3, 2, 3], np.int64))])
    m.output(m.op("DequantizeLinear", [parts, f"{name}_scale", f"{name}_zp"]))


@reference(integer=False)
def gathered_by_computed_indices(m: Qdq) -> None:
    x = m.input((4, 5, 3))
    winner = m.op("ArgMax", [x], axis=1, keepdims=0)
    m.output(m.op("Gather", [winner, m.op("Cast", [m.op("ArgMax", [winner], axis=0)], to=6)], axis=0))


def random_nodes(r: RandomNodes) -> None:
    x = r.input(r.type("uint8", "int8", "uint16", "int16"), (2, 5, 7))
    indices = r.constant(r.rng.integers(-5, 5, (3, 2)))
    r.node("gather", (x, indices), r.like(x, (2, 3, 2, 7)), (1,))
    table = r.constant(r.rng.normal(size=(5, 3)).astype(np.float32))
    for dtype in ("int32", "int64"):
        r.node("gather", (table, r.plain(r.rng.integers(-5, 5, (2, 2)).astype(dtype))), r.float_output((2, 2, 3)), (0,))
