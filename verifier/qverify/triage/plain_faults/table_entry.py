"""Some entries of a table are wrong: all elements of these input values have the same other values."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np

from qverify.triage.case import Array, Case, UnitChange, limits
from qverify.triage.hypotheses import FaultVariant

NAME = "table-entry"
OPS = ("lookup",)
MOST = 4  # wrong entries


def variants(case: Case) -> Iterator[FaultVariant]:
    source = case.inputs.get(case.last.inputs[0] or "")
    table = case.graph.constants.get(case.last.inputs[1] or "")
    if case.last.op != "lookup" or len(case.unit.nodes) > 1 or source is None or table is None or table.ndim != 1:
        return
    read, recorded = source.reshape(-1), case.recorded.reshape(-1)
    codes = np.unique(read[case.differing])
    if not 0 < len(codes) <= MOST:
        return
    values = dict[int, Array]()
    for code in codes:
        found = np.unique(recorded[read == code])
        if len(found) != 1:
            return
        values[int(code)] = found[0]
    low = limits(case.graph.spec(case.last.inputs[0] or ""))[0]
    words = [f"that of input {code} is {value} instead of {table[code - low]}" for code, value in values.items()]
    what = "an entry of the table is wrong" if len(words) == 1 else "entries of the table are wrong"
    bits = 8.0 * len(values) * (source.itemsize + table.itemsize)
    yield FaultVariant(f"{what}: {', '.join(words)}", partial(_replaced, values=values, low=low), bits)


def _replaced(case: Case, values: dict[int, Array], low: int) -> Array:
    name = case.last.inputs[1] or ""
    table = case.graph.constants[name].copy()
    for code, value in values.items():
        table[code - low] = value
    return case.recompute(UnitChange(constants={name: table}))
