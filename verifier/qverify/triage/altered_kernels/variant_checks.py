"""Checks before a fault is yielded whether it gives the recorded bytes of every element that differs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from qverify.triage.altered_kernels.inner_node import finished, inner_case
from qverify.triage.case import Case, UnitChange, element_bits
from qverify.triage.fault import DOES_NOT_FIT
from qverify.triage.hypotheses import FaultVariant
from qverify.triage.one_row import is_contradicted

Array = npt.NDArray[Any]


def check_where_it_differs(
    case: Case, text: str, make: Callable[[Case], Array], cost: float = 0.0, copied: bool = False
) -> list[FaultVariant]:
    """Returns the fault as a list of one, or [] if it fails at an element that differs or does not fit the unit."""
    case.count_tried(1, (text,))
    if is_contradicted(case, make):
        return []
    try:
        output = make(case)
    except DOES_NOT_FIT:
        return []
    if output.shape != case.recorded.shape or output.dtype != case.recorded.dtype:
        return []
    same = element_bits(output)[case.differing] == element_bits(case.recorded)[case.differing]
    return [FaultVariant(text, make, cost, copied=copied)] if same.all() else []


def recompute_inner(case: Case, change: UnitChange) -> Array:
    """Returns the unit's output with a change of its inner node only."""
    inner = inner_case(case)
    assert inner is not None
    return finished(case, inner.recompute(change)).reshape(case.spec.shape)


def operand(case: Case, name: str) -> Array:
    """Returns the elements of an input or a constant."""
    return case.inputs[name] if name in case.inputs else case.graph.constants[name]


def with_operand(case: Case, name: str, value: Array) -> UnitChange:
    """Returns the change that replaces the elements of an input or a constant."""
    value = np.ascontiguousarray(value)
    return UnitChange(inputs={name: value}) if name in case.inputs else UnitChange(constants={name: value})
