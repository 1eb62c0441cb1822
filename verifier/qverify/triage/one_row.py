"""One row of a convolution's output, computed alone: a fault that fails there need not be computed whole."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from qverify import ops
from qverify.triage.case import Array, Case, Change, bits
from qverify.triage.fault import DOES_NOT_FIT

FEWEST_ROWS, FEWEST_ELEMENTS = 8, 4096  # of an output, below which all of it is computed as fast


@dataclass(frozen=True, slots=True)
class Recomputed:
    """A fault that is nothing but a change of the unit: called with a case, it returns the unit's output under it."""

    change: Callable[[Case], Change]

    def __call__(self, case: Case) -> Array:
        return case.recompute(self.change(case))


def is_contradicted(case: Case, make: Callable[[Case], Array]) -> bool:
    """Returns whether one row of the output, under the fault, has another byte than recorded where the board is not
    healthy: then the fault gives neither every byte nor, in a part of the output, every differing one. False where
    there is no cheap look."""
    if (
        not isinstance(make, Recomputed)
        or (row := case.compute_once("row looked at", lambda: _chosen_row(case))) is None
    ):
        return False
    try:
        made = _computed_row(case, make.change(case), row.at)
    except DOES_NOT_FIT:
        return False
    if made is None or made.size != row.recorded.size or made.dtype != case.recorded.dtype:
        return False
    return bool((bits(made) != row.recorded)[row.differing].any())


@dataclass(frozen=True, slots=True)
class _Row:
    """at: its index. recorded: its elements, all channels, as unsigned integers. differing: which are not healthy."""

    at: int
    recorded: Array
    differing: Array


def _chosen_row(case: Case) -> _Row | None:
    """Returns the row in which the most elements differ; None for a unit of which no row can be computed alone."""
    shape, node = case.spec.shape, case.last
    if len(case.unit.nodes) > 1 or node.op != "conv" or len(shape) != 4 or case.recorded.size < FEWEST_ELEMENTS:
        return None
    if shape[2] < FEWEST_ROWS or (node.inputs[0] or "") not in case.inputs or not case.differing.size:
        return None
    rows = np.unravel_index(case.differing, shape)[2]
    at = int(np.bincount(rows).argmax())
    recorded, made = (bits(np.ascontiguousarray(v[:, :, at])) for v in (case.recorded, case.healthy))
    return _Row(at, recorded, recorded != made)


def _computed_row(case: Case, change: Change, at: int) -> Array | None:
    """Returns a row of the output, [N, C, 1, W], under the change; None where it has none."""
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
    values, of_output = np.ascontiguousarray(x[:, :, rows]), change.specs.get(case.output, case.spec)
    tensors = {
        **graph.tensors,
        **change.specs,
        name: replace(spec, shape=values.shape, aligned_shape=()),
        case.output: replace(of_output, shape=(*of_output.shape[:2], 1, of_output.shape[3]), aligned_shape=()),
    }
    constants = {**graph.constants, **change.constants}
    graph = replace(graph, tensors=tensors, constants=constants, rounding=change.rounding or graph.rounding)
    state = None if change.changes_graph else case.compute_once("state of a row", lambda: ops.prepare(node, graph))
    return ops.simulate_node(graph, node, {**case.inputs, **change.inputs, name: values}, state)[case.output]
