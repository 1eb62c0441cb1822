"""One page of compare/error_bounds run alone: a node of one op on values that are known with an error."""

from __future__ import annotations

from typing import Any

import numpy as np
from qverify.compare.error_bounds.bounded_values import BoundedValue, Real, Whole
from qverify.compare.error_bounds.chain import PAGES
from qverify.model_bin.graph import Graph, Node
from qverify.tensors.spec import TensorSpec

U = 2.0**-24 * (1 + 2.0**-18)  # NUMERICS.md section 4
FLUSHED = 2.0**-126


def g(n: float) -> float:
    return n * U / (1 - n * U)


def rounded(v: float, d: float, times: int = 1) -> float:
    return d + times * U * (abs(v) + d) + FLUSHED


def word(value: float) -> int:
    return int(np.float32(value).view(np.int32))


def real(value: Any, error: Any = 0.0) -> Real:
    values = np.asarray(value, np.float64)
    return Real(values, np.broadcast_to(np.asarray(error, np.float64), values.shape).copy())


def whole(low: Any, high: Any = None) -> Whole:
    low = np.asarray(low, np.int64)
    return Whole(low, low if high is None else np.asarray(high, np.int64))


def page(
    op: str, inputs: list[BoundedValue | None], words: tuple[int, ...], *outputs: Any, **specs: TensorSpec
) -> list[Any]:
    """Returns the values and error bounds that an op's page computes. outputs: the shape of each, or its spec. specs: of inputs (a, b, c) that are not plain floats."""
    names = "abcdef"[: len(inputs)]
    tensors = {
        n: specs.get(n) or TensorSpec(n, "float32", _shape(v))
        for n, v in zip(names, inputs, strict=True)
        if v is not None
    }
    made = tuple(f"y{i}" for i in range(len(outputs)))
    tensors |= {
        n: o if isinstance(o, TensorSpec) else TensorSpec(n, "float32", o) for n, o in zip(made, outputs, strict=True)
    }
    read = tuple(n if v is not None else None for n, v in zip(names, inputs, strict=True))
    node = Node("y0", op, read, made, words)
    graph = Graph([node], tensors, {}, tuple(n for n in read if n), made)
    with np.errstate(all="ignore"):  # as chain.evaluate_unit does
        return PAGES[op](node, inputs, graph)


def _shape(value: BoundedValue) -> tuple[int, ...]:
    return (value.value if isinstance(value, Real) else value.low).shape
