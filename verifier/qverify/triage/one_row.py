"""One row of a convolution's output, computed alone: a fault that fails there need not be computed for the whole
output."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from qverify import ops
from qverify.triage.case import Array, Case, UnitChange, element_bits
from qverify.triage.fault import DOES_NOT_FIT

MOST_OFF = 0.2  # share of the differing elements that another rounding may leave, if none is more than `reach` off
MIN_ROWS, MIN_ELEMENTS = 8, 4096  # of an output; a smaller one is computed as fast as one row


@dataclass(frozen=True, slots=True)
class Recomputed:
    """A fault that consists only of a change of the unit. Calling it with a case returns the output with the fault."""

    change: Callable[[Case], UnitChange]

    def __call__(self, case: Case) -> Array:
        return case.recompute(self.change(case))


def is_contradicted(case: Case, make: Callable[[Case], Array], reach: int = 0) -> bool:
    """Returns whether the fault fails in one row of the output: at an element that is not healthy on the board, it
    gives another byte than recorded. Such a fault explains neither the whole output nor, confined to a part, every
    differing element. False if one row cannot be computed alone. reach: LSB by which integers may be off."""
    if not isinstance(make, Recomputed) or (row := case.compute_once("chosen row", lambda: _choose_row(case))) is None:
        return False
    try:
        computed = _compute_row(case, make.change(case), row.at)
    except DOES_NOT_FIT:
        return False
    if computed is None or computed.size != row.recorded.size or computed.dtype != case.recorded.dtype:
        return False
    if reach and computed.dtype.kind in "iu":
        far = is_beyond(row.healthy, row.recorded, reach)
        if far.any():
            return bool(is_beyond(computed.reshape(-1), row.recorded, reach)[far].any())
        return bool((computed.reshape(-1) != row.recorded)[row.differing].mean() > MOST_OFF)
    return bool((element_bits(computed) != element_bits(row.recorded))[row.differing].any())


def is_beyond(a: Array, b: Array, reach: int) -> Array:
    """Returns a mask of the integers that are more than `reach` apart."""
    return np.asarray(np.abs(a.astype(np.int64) - b.astype(np.int64)) > reach)


@dataclass(frozen=True, slots=True)
class _Row:
    """A row of the output in all channels. at: its index. recorded, healthy: its elements, flat. differing: mask of
    those that are not healthy."""

    at: int
    recorded: Array
    healthy: Array
    differing: Array


def _choose_row(case: Case) -> _Row | None:
    """Returns the row in which most elements differ, or None if no row of the unit can be computed alone."""
    shape, node = case.spec.shape, case.last
    if len(case.unit.nodes) > 1 or node.op != "conv" or len(shape) != 4 or case.recorded.size < MIN_ELEMENTS:
        return None
    if shape[2] < MIN_ROWS or (node.inputs[0] or "") not in case.inputs or not case.differing.size:
        return None
    rows = np.unravel_index(case.differing, shape)[2]
    at = int(np.bincount(rows).argmax())
    recorded, healthy = (np.ascontiguousarray(v[:, :, at]).reshape(-1) for v in (case.recorded, case.healthy))
    return _Row(at, recorded, healthy, element_bits(recorded) != element_bits(healthy))


def _compute_row(case: Case, change: UnitChange, at: int) -> Array | None:
    """Returns a row of the output, [N, C, 1, W], with the change; None if it cannot be computed alone."""
    node, graph = change.nodes.get(case.last.name, case.last), case.graph
    name = node.inputs[0] or ""
    x, spec = change.inputs.get(name, case.inputs.get(name)), change.specs.get(name, graph.spec(name))
    if x is None or x.ndim != 4 or x.shape != spec.shape:
        return None
    words = ops.words(node)
    first = at * words["stride_h"] - words["pad_top"]
    end = first + (words["kernel_h"] - 1) * words["dilation_h"] + 1
    rows = slice(max(first, 0), min(end, x.shape[2]))
    if words["stride_h"] < 1 or words["dilation_h"] < 1 or rows.start >= rows.stop:
        return None
    words |= {"pad_top": max(-first, 0), "pad_bottom": max(end - x.shape[2], 0)}
    node = replace(node, words=tuple(words.values()))
    values, output_spec = np.ascontiguousarray(x[:, :, rows]), change.specs.get(case.output, case.spec)
    tensors = {
        **graph.tensors,
        **change.specs,
        name: replace(spec, shape=values.shape, aligned_shape=()),
        case.output: replace(output_spec, shape=(*output_spec.shape[:2], 1, output_spec.shape[3]), aligned_shape=()),
    }
    constants = {**graph.constants, **change.constants}
    graph = replace(graph, tensors=tensors, constants=constants, rounding=change.rounding or graph.rounding)
    state = None if change.changes_graph else case.compute_once("state of a row", lambda: ops.prepare(node, graph))
    return ops.simulate_node(graph, node, {**case.inputs, **change.inputs, name: values}, state)[case.output]
