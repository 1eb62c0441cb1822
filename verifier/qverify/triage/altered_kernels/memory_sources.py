"""Tensors in which a memory fault can occur: the unit's output, its inputs and its constants."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from qverify.tensors.spec import TensorSpec
from qverify.triage.case import Case, UnitChange, constants_of, element_bits
from qverify.triage.one_row import Recomputed

Array = npt.NDArray[Any]
ROLES = {
    "conv": ("input", "weights", "bias", "scales"),
    "conv_transpose": ("input", "weights", "bias", "scales"),
    "fully_connected": ("input", "weights", "bias", "scales"),
    "matmul": ("first input", "second input", "scales"),
    "add": ("first input", "second input", "scales"),
    "mul": ("first input", "second input", "scales"),
    "lookup": ("input", "table"),
    "softmax": ("input", "table"),
    "resize_nearest": ("input", "index table"),
    "resize_linear": ("input", "index table", "weight table"),
}


@dataclass(frozen=True, slots=True)
class MemorySource:
    """A tensor of the unit. kind: "output", "input" or "constant". label: its name in texts."""

    name: str
    kind: str
    label: str
    spec: TensorSpec


def memory_sources(case: Case, *kinds: str) -> list[MemorySource]:
    """Returns the unit's tensors of these kinds, or all of them if no kind is given."""
    sources = [MemorySource(case.output, "output", "the output", case.spec)]
    sources += [MemorySource(n, "input", _input(case, n), case.graph.spec(n)) for n in case.unit.inputs]
    for node, at, name in constants_of(case):
        roles = ROLES.get(node.op, ())
        role = roles[at] if at < len(roles) else f"constant {name}"
        sources.append(MemorySource(name, "constant", f"the {role}", case.graph.spec(name)))
    return [p for p in sources if not kinds or p.kind in kinds]


def _input(case: Case, name: str) -> str:
    return "the input" if len(case.unit.inputs) == 1 else f"the input {name}"


def correct_value(case: Case, place: MemorySource) -> Array:
    """Returns the tensor's value without the fault."""
    if place.kind == "output":
        return case.healthy
    return case.inputs[place.name] if place.kind == "input" else case.graph.constants[place.name]


def is_permutation(case: Case) -> bool:
    """Returns whether the recorded elements are the healthy ones in some order: a cheap check before many orders are
    tried."""
    return case.compute_once(
        "only moved", lambda: bool((np.sort(element_bits(case.healthy)) == np.sort(element_bits(case.recorded))).all())
    )


def output_from(place: MemorySource, transform: Callable[[Array], Array]) -> Callable[[Case], Array]:
    """Returns a function that computes the output with this tensor transformed. transform keeps shape and dtype."""

    if place.kind == "output":
        return lambda case: np.ascontiguousarray(transform(case.healthy))

    def change(case: Case) -> UnitChange:
        changed = {place.name: np.ascontiguousarray(transform(correct_value(case, place)))}
        return UnitChange(inputs=changed) if place.kind == "input" else UnitChange(constants=changed)

    return Recomputed(change)


def output_from_all(case: Case, transform: Callable[[Array], Array]) -> Callable[[Case], Array]:
    """Returns a function that computes the output with every input transformed."""
    names = case.unit.inputs
    return Recomputed(
        lambda case: UnitChange(inputs={n: np.ascontiguousarray(transform(case.inputs[n])) for n in names})
    )


def recorded_at(case: Case, free: Array) -> Array:
    """Returns the healthy output with the recorded elements at the flat mask `free`."""
    return np.where(free, case.recorded.reshape(-1), case.healthy.reshape(-1)).reshape(case.spec.shape)


def reordered_runs(values: Array, order: Array) -> Array:
    """Returns the values with each run of len(order) elements in this order."""
    return values.reshape(-1, len(order))[:, order].reshape(values.shape)
