"""First divergence between two float graphs: tensors that differ although the nearest known tensors from which they are
computed agree."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from qverify.model_bin.units import Unit
from qverify.onnx_model.graph_view import GraphView
from qverify.report.document import FirstDivergence, Forced
from qverify.triage.loss import nearest, sqnr_db

Array = npt.NDArray[Any]
AGREE_DB = 80.0  # float32 sums in another order keep 100 dB and more; a graph without one of its biases does not


def agreeing(a: Mapping[str, Array], b: Mapping[str, Array]) -> dict[str, bool]:
    """Returns whether each tensor that both graphs have in the same shape is equal up to float rounding (AGREE_DB)."""
    return {n: sqnr_db(a[n], b[n]) >= AGREE_DB for n in a if n in b and a[n].shape == b[n].shape}


def pieces(view: GraphView, known: Mapping[str, bool]) -> list[Unit]:
    """Returns a unit for each known tensor, whose inputs are the nearest known tensors from which it is computed, in
    running order."""
    names = [o for node in view.nodes for o in node.output if o in known]
    ops = {o: node.op_type for node in view.nodes for o in node.output}
    inputs = {*known, *view.inputs}
    return [Unit(n, ops[n], (), tuple(nearest(view, n, inputs)), (n,), True) for n in names]


def forced_pieces(
    units: list[Unit],
    known: Mapping[str, bool],
    values: Mapping[str, Array],
    compute: Callable[[str, Mapping[str, Array]], Array],
) -> dict[str, Forced]:
    """Computes each unit of the second graph from the first graph's values, and returns the forced verdict by tensor.

    Args:
        known: whether each known tensor agrees. A tensor that agrees with inputs that agree passes without computation.
        values: the first graph's tensors, with which the results are compared.
        compute: computes a tensor of the second graph from the values of these tensors.
    """
    verdicts = {}
    for unit in units:
        name, limit = unit.name, f"{AGREE_DB:g} dB"
        if known[name] and all(known.get(n, True) for n in unit.inputs):
            verdicts[name] = Forced("PASSED", None, 0, 0.0, values[name].size, limit, why="inputs and outputs agree")
            continue
        if not all(n in values for n in unit.inputs):
            continue
        computed = compute(name, {n: values[n] for n in unit.inputs})
        has_shape = computed.shape == values[name].shape
        passes = has_shape and sqnr_db(values[name], computed) >= AGREE_DB
        largest = float(np.abs(computed - values[name]).max(initial=0.0)) if has_shape else None
        apart = int(np.count_nonzero(computed != values[name])) if has_shape else None
        verdicts[name] = Forced("PASSED" if passes else "FAILED", None, apart, largest, values[name].size, limit)
    return verdicts


def first_of(units: list[Unit], diverging: list[str]) -> FirstDivergence | None:
    """Returns the first of the diverging units, or None if there are none. diverging: unit names in running order."""
    by_name = {u.name: u for u in units}
    if not diverging:
        return None
    unit = by_name[diverging[0]]
    return FirstDivergence(unit.outputs[0], unit.name, unit.op, diverging[1:])
