"""A few rows of a unit that works row by row or element by element, for a cheap check of a fault before all rows are
computed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import partial

import numpy as np

from qverify.model_bin.graph import Node
from qverify.tensors.spec import TensorSpec
from qverify.triage.case import Array, Case, element_bits
from qverify.triage.fault import DOES_NOT_FIT
from qverify.triage.hypotheses import FaultVariant

BORDERS = ("quantize", "dequantize")
ROWS = ("softmax", "softmax_float", "log_softmax", "layer_norm", "rms_norm", "group_norm", "lp_norm")
ELEMENTS = ("elementwise_float", "lookup")
COUNTED = ("softmax", "softmax_float", "log_softmax", "lp_norm", "group_norm")  # their first word is the number of rows
MAX_ROWS, MAX_ELEMENTS = 3, 96


def row_sample(case: Case) -> Case | None:
    """Returns the case of a few rows that differ, whose tensors have the shape [rows, depth]. None if the unit works
    neither by rows of its last axis nor by elements, or has only a few rows."""
    sample: Case | None = case.compute_once("row sample", lambda: _sample(case))
    return sample


def fitting_rows(case: Case, variants: Iterable[FaultVariant]) -> Iterator[FaultVariant]:
    """Yields the variants that give the recorded bytes of the differing elements in a few rows. Each variant must
    compute a row from this row alone."""
    sample = row_sample(case)
    for variant in variants:
        if sample is None:
            yield variant
            continue
        case.count_tried()
        try:
            output = variant.make(sample)
        except DOES_NOT_FIT:
            continue
        if (
            output.shape == sample.recorded.shape
            and (element_bits(output) == element_bits(sample.recorded))[sample.differing].all()
        ):
            yield variant


def _sample(case: Case) -> Case | None:
    depth = _depth(case)
    if depth is None or not case.differing.size:
        return None
    names = {n for node in case.unit.nodes for n in (*node.inputs, *node.outputs) if n is not None}
    names -= set(case.graph.constants)
    specs = {n: case.graph.spec(n) for n in names}
    total = case.spec.elements
    if any(s.elements != total or len(s.scale) > 1 for s in specs.values()) or case.output not in specs:
        return None
    rows = _choose_rows(case, depth)
    if 2 * len(rows) * depth > total:
        return None
    return _cut(case, specs, rows, depth)


def _depth(case: Case) -> int | None:
    """Returns the length of a row, 1 if each output element depends on one input element, or None otherwise."""
    work = [n for n in case.unit.nodes if n.op not in BORDERS]
    rowwise = [n for n in work if n.op in ROWS]
    if any(n.op not in (*ROWS, *ELEMENTS) for n in work) or len(rowwise) > 1 or _reads_parts(case):
        return None
    if not rowwise:
        return 1
    node = rowwise[0]
    if node.op in ("layer_norm", "rms_norm"):
        return node.words[0]
    if node.op == "group_norm":
        return case.spec.elements // (case.spec.shape[0] * node.words[0])
    return node.words[1] if node.words[2] == 1 else None


def _reads_parts(case: Case) -> bool:
    """Returns whether an elementwise node reads a constant, which is an operand that may be repeated."""
    return any(
        n in case.graph.constants for node in case.unit.nodes if node.op == "elementwise_float" for n in node.inputs
    )


def _choose_rows(case: Case, depth: int) -> Array:
    if depth == 1:
        step = max(1, len(case.differing) // MAX_ELEMENTS)
        return case.differing[::step]
    counts = np.bincount(case.differing // depth, minlength=case.spec.elements // depth)
    wrong = np.flatnonzero(counts)
    return np.unique([wrong[0], wrong[-1], counts.argmax()])[:MAX_ROWS]


def _cut(case: Case, specs: dict[str, TensorSpec], rows: Array, depth: int) -> Case:
    shape: tuple[int, ...] = (len(rows), depth)
    groups = next((n for n in case.unit.nodes if n.op == "group_norm"), None)
    constants = dict(case.graph.constants)
    if groups is not None:
        channels = _channels(rows, groups.words[0], case.spec.shape[1])
        shape = (1, len(channels), len(rows) * depth // len(channels))
        constants |= {n: constants[n].reshape(-1)[channels] for n in groups.inputs[1:] if n in constants}
    small = {n: replace(s, shape=shape, aligned_shape=(), channel_axis=-1) for n, s in specs.items()}
    nodes = tuple(_shortened(n, len(rows)) for n in case.unit.nodes)
    graph = replace(case.graph, tensors={**case.graph.tensors, **small}, constants=constants)
    cut = partial(_rows, rows=rows, depth=depth, shape=shape)
    return Case(
        graph,
        replace(case.unit, nodes=nodes),
        {n: cut(v) for n, v in case.inputs.items()},
        case.output,
        cut(case.recorded),
    )


def _channels(rows: Array, groups: int, channels: int) -> Array:
    """Returns the channels of these groups, which are numbered over all batch items."""
    size = channels // groups
    members: Array = ((rows % groups * size)[:, None] + np.arange(size)).reshape(-1)
    return members


def _rows(values: Array, rows: Array, depth: int, shape: tuple[int, ...]) -> Array:
    return np.asanyarray(values.reshape(-1, depth)[rows], order="C").reshape(shape)


def _shortened(node: Node, count: int) -> Node:
    """Returns the node with its words changed for so many rows."""
    return replace(node, words=(count, *node.words[1:])) if node.op in COUNTED else node
