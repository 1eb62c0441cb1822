"""First divergence between two float graphs: tensors that differ while the nearest known ones they are made of agree."""

from __future__ import annotations

from collections.abc import Mapping

from qverify.compiler.view import View
from qverify.model_bin.units import Unit
from qverify.report.document import FirstDivergence
from qverify.tensors.recording import Array
from qverify.triage.loss import nearest, sqnr_db

AGREE_DB = 80.0  # float32 sums in another order keep 100 dB and more; a lost bias does not


def agreeing(one: Mapping[str, Array], other: Mapping[str, Array]) -> dict[str, bool]:
    """Of the tensors both have in one shape: whether they are the same but for float rounding."""
    return {n: sqnr_db(one[n], other[n]) >= AGREE_DB for n in one if n in other and one[n].shape == other[n].shape}


def pieces(view: View, known: Mapping[str, bool]) -> list[Unit]:
    """Each known tensor with the known ones it is made of, in running order."""
    names = [o for node in view.nodes for o in node.output if o in known]
    ops = {o: node.op_type for node in view.nodes for o in node.output}
    inputs = {*known, *view.inputs}
    return [Unit(n, ops[n], (), tuple(nearest(view, n, inputs)), (n,), True) for n in names]


def first_of(units: list[Unit], diverging: list[str]) -> FirstDivergence | None:
    """diverging: unit names in running order."""
    by_name = {u.name: u for u in units}
    if not diverging:
        return None
    unit = by_name[diverging[0]]
    return FirstDivergence(unit.outputs[0], unit.name, unit.op, diverging[1:])
