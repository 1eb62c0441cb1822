"""Evaluates a whole unit in float64 from the inputs that one side recorded. The error bound is carried from node to
node (NUMERICS.md section 4)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

import numpy as np

from qverify.compare.error_bounds import (
    float_sums,
    functions,
    integer_blocks,
    integer_sums,
    movement,
    recurrences,
    reductions,
    rows,
)
from qverify.compare.error_bounds.bounded_values import (
    Array,
    BoundedValue,
    NoBound,
    Real,
    Whole,
    bound_exactly,
    read_inputs,
)
from qverify.model_bin.graph import Graph, Node
from qverify.model_bin.units import Unit

if TYPE_CHECKING:
    from qverify.compare.error_bounds.carry_through import BoundFunction

PAGES: dict[str, BoundFunction] = {
    "elementwise_float": functions.elementwise_float,
    "half_float": functions.half_float,
    "conv_float": float_sums.conv_float,
    "conv_transpose_float": float_sums.conv_transpose_float,
    "matmul_float": float_sums.matmul_float,
    "quantize_blocks": integer_blocks.quantize_blocks,
    "matmul_blocks": integer_blocks.matmul_blocks,
    "layer_norm": rows.layer_norm,
    "group_norm": rows.group_norm,
    "rms_norm": rows.rms_norm,
    "softmax_float": rows.softmax_float,
    "log_softmax": rows.log_softmax,
    "lp_norm": rows.lp_norm,
    "softmax": rows.softmax,
    "reduce_mean": rows.reduce_mean,
    "average_pool_float": rows.average_pool_float,
    "reduce_float": reductions.reduce_float,
    "variadic_float": reductions.variadic_float,
    "cum_sum": reductions.cum_sum,
    "lrn": rows.lrn,
    "resize_linear": rows.resize_linear,
    "resize_weighted": rows.resize_weighted,
    "normalize": rows.normalize,
    "dequantize": rows.dequantize,
    "quantize": rows.quantize,
    "slice": movement.slice_,
    **{
        f.__name__: f
        for f in (
            movement.reshape,
            movement.transpose,
            movement.split,
            movement.gather,
            movement.gather_elements,
            movement.gather_nd,
            movement.tile,
            movement.resize_nearest,
            movement.pad,
            movement.depth_to_space,
            movement.max_pool,
            movement.concat,
            movement.where,
        )
    },
}
STEPS: dict[str, recurrences.StepBoundFunction] = {
    f.__name__: f for f in (recurrences.lstm, recurrences.lstm_integer, recurrences.gru, recurrences.rnn)
}
Part = tuple[Array, BoundedValue]  # flat positions in the output, and the bounded values there


def explain_missing_evaluation(unit: Unit, graph: Graph, pages: Mapping[str, BoundFunction] = PAGES) -> str:
    """Returns the reason why this unit has no float64 evaluation with these bound functions, or "" if it has one."""
    first, *others = unit.nodes
    if sums_integers(first, graph):
        rq = graph.constants.get(next(n for n in reversed(first.inputs) if n is not None))
        if rq is None or rq.dtype.kind != "f" or rq.dtype.itemsize != 8:
            return f"no float64 evaluation of {first.op} with {graph.rounding}'s multipliers"
        lacking = [n.op for n in others if n.op != "lookup"]
    else:
        in_place = [n for n in unit.nodes if n.op not in STEPS or {*unit.outputs} <= {*n.outputs}]
        lacking = [
            n.op for n in unit.nodes if n not in in_place or n.op not in {**pages, **STEPS} or sums_integers(n, graph)
        ]
    return f"no float64 evaluation of {lacking[0]}" + (" here" if lacking[0] in pages else "") if lacking else ""


def sums_integers(node: Node, graph: Graph) -> bool:
    """Returns whether the node sums integers. (A reduce_mean may sum floats.)"""
    return node.op in integer_sums.SUMS and graph.spec(node.inputs[0] or "").numpy_dtype.kind != "f"


def is_stepwise(unit: Unit) -> bool:
    """Returns whether the value of the unit depends on outputs that a side recorded, which is so for a recurrence: each
    of its steps depends on the one before."""
    return unit.nodes[-1].op in STEPS


def evaluate_unit(
    unit: Unit,
    output: str,
    graph: Graph,
    given: Mapping[str, Array],
    at: Array,
    made: Mapping[str, Array] | None = None,
    pages: Mapping[str, BoundFunction] = PAGES,
) -> Iterator[Part]:
    """Yields the bounded values at some flat positions of one output, in parts. Raises NoBound for an op without an
    evaluation, and ValueError or IndexError for inputs that do not fit.

    Args:
        unit: the unit.
        output: name of the output.
        graph: the graph of the unit.
        given: the recorded inputs of the unit.
        at: the flat positions.
        made: all outputs of one side, for a unit that is_stepwise(). The values are then those of this side.
        pages: the bound functions, by op.
    """
    from qverify.compare.error_bounds.carry_through import carry_through

    with np.errstate(all="ignore"):
        if sums_integers(unit.nodes[0], graph):
            yield from _evaluate_sums(unit, graph, given, at)
            return
        values: dict[str, BoundedValue] = {name: bound_exactly(given[name]) for name in unit.inputs}
        for node in unit.nodes:
            bound_function = _find_bound_function(node, made or {}, pages)
            outputs = carry_through(bound_function, node, read_inputs(node, graph, values), graph)
            values |= zip(node.outputs, outputs, strict=True)
        yield at, take(values[output], at)


def _find_bound_function(node: Node, made: Mapping[str, Array], pages: Mapping[str, BoundFunction]) -> BoundFunction:
    """Returns the bound function of the node. made, pages: as in evaluate_unit()."""
    if node.op not in STEPS:
        return pages[node.op]
    step = STEPS[node.op]
    return lambda node, inputs, graph: step(node, inputs, graph, made)


def _evaluate_sums(unit: Unit, graph: Graph, given: Mapping[str, Array], at: Array) -> Iterator[Part]:
    first, *others = unit.nodes
    operands = integer_sums.SumOperands(first, graph, dict(given))
    step = max(1, integer_sums.TERMS_AT_ONCE // integer_sums.terms_of(operands))
    for start in range(0, len(at), step):
        part = at[start : start + step]
        whole = integer_sums.bound_elements(operands, part)
        for node in others:
            assert isinstance(whole, Whole)  # a lookup reads integers
            whole = look_up(whole, graph.constants[node.inputs[1] or ""], graph.spec(node.inputs[0] or "").dtype)
        yield part, whole


def look_up(whole: Whole, table: Array, dtype: str) -> Whole:
    """Returns the interval after a lookup in a table. Raises NoBound if the table is not monotone and the integers are
    not certain."""
    steps = np.diff(table.astype(np.int64))
    if (steps < 0).any() and (steps > 0).any() and (whole.low != whole.high).any():
        raise NoBound("a table that rises and falls")

    def through(low: Array, high: Array) -> tuple[Array, Array]:
        ends = [table[v - np.iinfo(dtype).min].astype(np.int64) for v in (low, high)]
        return np.minimum(*ends), np.maximum(*ends)

    return Whole(*through(whole.low, whole.high), whole.error, None if whole.ours is None else through(*whole.ours))


def take(value: BoundedValue, at: Array) -> BoundedValue:
    """Returns the bounded values at these flat positions."""

    def flat(of: Array) -> Array:
        return np.broadcast_to(of, shape).reshape(-1)[at]

    shape = value.value.shape if isinstance(value, Real) else value.low.shape
    lost = None if value.lost is None else flat(value.lost)
    if isinstance(value, Real):
        ours = None if value.ours is None else flat(value.ours)
        return Real(flat(value.value), flat(value.error), ours, lost, mixed=value.mixed)
    own = None if value.ours is None else (flat(value.ours[0]), flat(value.ours[1]))
    return Whole(flat(value.low), flat(value.high), None if value.error is None else flat(value.error), own, lost)
