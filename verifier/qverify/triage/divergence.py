"""First divergence between two float graphs: tensors that differ although the nearest known tensors they are computed
from agree."""

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
AGREE_DB = 80.0  # float32 sums in another order keep 100 dB and more; a lost bias does not


def agreeing(one: Mapping[str, Array], other: Mapping[str, Array]) -> dict[str, bool]:
    """Returns, for each tensor that both have in the same shape, whether the two are equal up to float rounding
    (AGREE_DB)."""
    return {n: sqnr_db(one[n], other[n]) >= AGREE_DB for n in one if n in other and one[n].shape == other[n].shape}


def pieces(view: GraphView, known: Mapping[str, bool]) -> list[Unit]:
    """Returns a unit for each known tensor, with the nearest known tensors it is computed from, in running order."""
    names = [o for node in view.nodes for o in node.output if o in known]
    ops = {o: node.op_type for node in view.nodes for o in node.output}
    inputs = {*known, *view.inputs}
    return [Unit(n, ops[n], (), tuple(nearest(view, n, inputs)), (n,), True) for n in names]


def forced_pieces(
    units: list[Unit],
    known: Mapping[str, bool],
    values: Mapping[str, Array],
    alone: Callable[[str, Mapping[str, Array]], Array],
) -> dict[str, Forced]:
    """Computes each piece of the second graph from the first graph's values and compares it with the first graph's
    result. A tensor that agrees and whose inputs agree is settled. alone: computes one tensor of the second graph from
    given ones."""
    verdicts = {}
    for unit in units:
        name, limit = unit.name, f"{AGREE_DB:g} dB"
        if known[name] and all(known.get(n, True) for n in unit.inputs):
            verdicts[name] = Forced("PASSED", None, 0, 0.0, values[name].size, limit, why="inputs and outputs agree")
            continue
        if not all(n in values for n in unit.inputs):
            continue
        got = alone(name, {n: values[n] for n in unit.inputs})
        passes = got.shape == values[name].shape and sqnr_db(values[name], got) >= AGREE_DB
        largest = float(np.abs(got - values[name]).max(initial=0.0)) if got.shape == values[name].shape else None
        apart = int(np.count_nonzero(got != values[name])) if largest is not None else None
        verdicts[name] = Forced("PASSED" if passes else "FAILED", None, apart, largest, values[name].size, limit)
    return verdicts


def first_of(units: list[Unit], diverging: list[str]) -> FirstDivergence | None:
    """Returns the first of the diverging units, or None. diverging: unit names in running order."""
    by_name = {u.name: u for u in units}
    if not diverging:
        return None
    unit = by_name[diverging[0]]
    return FirstDivergence(unit.outputs[0], unit.name, unit.op, diverging[1:])
