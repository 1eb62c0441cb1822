"""y = clip(RNE(fma(A, r1, fma(B, r2, F)))) in ref-exact; otherwise each operand is scaled, exactly or rounded, and then
their sum."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from qverify.arithmetic.float32 import fma32
from qverify.arithmetic.forms import NAMES
from qverify.arithmetic.pairs import FloatSteps
from qverify.arithmetic.requantize import apply_steps, round_by_code
from qverify.arithmetic.rounding_rules import RULES
from qverify.arithmetic.tables import look_up
from qverify.model_bin.graph import Graph, Node

Array = npt.NDArray[Any]
Formula = Callable[[Node, Graph, Array, Array], Array]
WORDS = ("swap", "act_min", "act_max")
ROWS_AT_ONCE = 64  # rows of a table that are computed at once, so that their float64 values fit the cache
FEW = 4096  # largest number of elements that are computed faster than a table of 65536
OFFSETS = sorted(range(-12, 13), key=abs)  # of the constant that are tried, in units of 2^-20


def prepare(node: Node, graph: Graph) -> Array | FloatSteps | None:
    table = make_table(formula, node, graph)
    return table if table is None else _find_steps(node, graph, table) or table


def _find_steps(node: Node, graph: Graph, table: Array) -> FloatSteps | None:
    """Returns float32 steps without fma that give every value of the table, or None. They are faster than the table,
    but round more often: a value close to a tie may need a constant that is slightly different."""
    swap, low, high = node.words
    rq = graph.constants[node.inputs[2] or ""]
    if rq.dtype != np.float32 or not np.isfinite(rq).all():
        return None
    first, second = every_pair(node, graph)
    computed = np.empty((256, 256), table.dtype)
    factors = (rq[1], rq[0]) if swap else (rq[0], rq[1])
    for offset in OFFSETS:
        summand = np.float32(rq[2] + np.float32(offset * 2.0**-20))
        steps = FloatSteps(np.add, factors, (0, summand), 1, 0, low, high)
        steps.apply(first, second, computed)
        if np.array_equal(computed.reshape(-1), table):
            return steps
    return None


def every_pair(node: Node, graph: Graph) -> tuple[Array, Array]:
    """Returns every value of both 8-bit operands, in the order of their bytes, as a column and a row."""
    every = np.arange(256, dtype=np.uint8)
    first, second = (every.view(graph.spec(n or "").numpy_dtype) for n in node.inputs[:2])
    return first[:, None], second


def make_table(function: Formula, node: Node, graph: Graph) -> Array | None:
    """Returns the function of two 8-bit operands as a table [65536], indexed by the bytes of both operands. Returns
    None for wider operands, and for an output with at most FEW elements."""
    y = graph.spec(node.outputs[0])
    if y.elements <= FEW:
        return None
    a, b = graph.spec(node.inputs[0] or ""), graph.spec(node.inputs[1] or "")
    if a.numpy_dtype.itemsize > 1 or b.numpy_dtype.itemsize > 1:
        return None
    first, second = every_pair(node, graph)
    table = np.empty((256, 256), y.numpy_dtype)
    for rows in (slice(at, at + ROWS_AT_ONCE) for at in range(0, 256, ROWS_AT_ONCE)):
        table[rows] = function(node, graph, first[rows], second)
    return table.reshape(-1)


def formula(node: Node, graph: Graph, first: Array, second: Array) -> Array:
    a, b, y = graph.spec(node.inputs[0] or ""), graph.spec(node.inputs[1] or ""), graph.spec(node.outputs[0])
    swap, low, high = node.words
    rq, zero = graph.constants[node.inputs[2] or ""], y.zero_point[0]
    if rq.dtype == np.float32:
        if swap:
            first, second = second, first
        value = fma32(first.astype(np.float32), rq[0], fma32(second.astype(np.float32), rq[1], rq[2]))
        return np.clip(np.rint(value), low, high).astype(y.dtype)
    real_a, real_b = first.astype(np.int64) - a.zero_point[0], second.astype(np.int64) - b.zero_point[0]
    if rq.dtype == np.float64:
        value = real_a * rq[0] + real_b * rq[1]
        result = round_by_code(value, int(rq[2]), zero) if len(rq) == 3 else np.rint(value)
    else:
        steps = rq.astype(np.int64) if rq.ndim == 2 else _steps_of(rq, graph.rounding)
        before, after = (steps[3, 0], steps[3, 1]) if len(steps) == 4 else (0, 0)
        total = apply_steps(real_a, steps[0]) + apply_steps(real_b, steps[1]) + before
        result = apply_steps(total, steps[2], zero, True) + after
    return np.clip(result + zero, low, high).astype(y.dtype)


def _steps_of(rq: Array, rounding: str) -> Array:
    """Returns the parameters of an integer mode as those of the operands and of their sum, int64 [3, 5]."""
    away = rounding in ("gemmlowp", "pow2-half-away")
    rule = "half away from zero" if away else NAMES.get(rounding, NAMES["tflite-single"]).rounding
    rule = "half up" if rounding == "cmsis" else rule
    first, second, shift = rq.tolist()
    rows = [first, 0, 0, 0, 0], [second, 0, 0, 0, 0], [1, 0, 0, shift, RULES.index(rule) << 8]
    return np.array(rows, np.int64)


def simulate(
    node: Node, inputs: list[Array | None], graph: Graph, state: Array | FloatSteps | None
) -> tuple[Array, ...]:
    return (compute_pairs(formula, node, inputs, graph, state),)


def compute_pairs(
    function: Formula, node: Node, inputs: list[Array | None], graph: Graph, state: Array | FloatSteps | None
) -> Array:
    """Returns the function of both operands, broadcast: by the state, which is steps or table[first byte * 256 + second
    byte], or directly if there is none."""
    first, second, y = inputs[0], inputs[1], graph.spec(node.outputs[0])
    assert first is not None and second is not None
    if state is None:
        return function(node, graph, *np.broadcast_arrays(first, second))
    if isinstance(state, FloatSteps):
        value = np.empty(y.shape, y.numpy_dtype)
        state.apply(first, second, value)
        return value
    index = np.multiply(first.view(np.uint8), 256, dtype=np.uint16) + second.view(np.uint8)
    return look_up(state, index).reshape(y.shape)
