"""The nodes that read an input of the network which a dump does not have: whether it is the input that is wrong, or the node, its
tensors alone do not show."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import replace

from qverify.compare.blame import SLIGHT
from qverify.compare.judge import Judged
from qverify.compare.regions import Region
from qverify.model_bin.graph import Graph
from qverify.model_bin.units import Unit
from qverify.plural import count
from qverify.report.document import Forced
from qverify.tensors.recording import Array

CAUSE = "input_or_first_node"
FEWER = 8  # times fewer elements differ from a mistaken input than from the intended one
Mistaken = Callable[[str, Array], Iterator[tuple[str, Array]]]
Measure = Callable[[Unit, str, Mapping[str, Array]], Forced | None]


def leave_open(units: Collection[Unit], given: Collection[str], verdicts: dict[str, Forced]) -> None:
    """Makes units INCONCLUSIVE that FAILED from an input that the dump does not have. given: those inputs, of which the user says
    that the device was given them."""
    for unit in units:
        read = [n for n in unit.inputs if n in given]
        for name in unit.outputs if read else ():
            if name in verdicts and verdicts[name].verdict == "FAILED":
                found = verdicts[name]
                apart = f"{found.mismatched if found.mismatched is not None else 'all'} of {count(found.elements, 'element')}"
                why = f"from the {read[0]} of -i, {apart} differ{_by(found)}: the device's input, or this node"
                verdicts[name] = replace(found, verdict="INCONCLUSIVE", why=why, at_fault="", arithmetics=[])


def _by(found: Forced) -> str:
    return "" if found.max_lsb is None else f" by up to {found.max_lsb} LSB"


def list_gross(units: Collection[Unit], graph: Graph, judged: Judged) -> list[tuple[Unit, str]]:
    """Returns the units that read an input of the network, each with an output that differs by more than their roundings explain.
    units: those that could not be judged by themselves."""
    return [
        (unit, name)
        for unit in units
        for name in unit.outputs
        if any(n in graph.inputs for n in unit.inputs) and name in judged.rows and _is_gross(judged, graph, unit, name)
    ]


def _is_gross(judged: Judged, graph: Graph, unit: Unit, name: str) -> bool:
    row, spec = judged.rows[name], graph.spec(name)
    far, real = row.metrics.get("max_lsb"), row.metrics.get("max_abs")
    if far is None and isinstance(real, float) and spec.quantized:
        far = real / max(spec.scale)
    members = len(unit.members) if isinstance(unit, Region) else 1
    return row.verdict == "FAILED" and isinstance(far, int | float) and far > SLIGHT * members


def name_mistake(
    places: Collection[tuple[Unit, str]], inputs: Mapping[str, Array], mistaken: Mistaken, measure: Measure
) -> str:
    """Returns which known mistake of the device's input explains what the first of these units gave, "" if none does.

    Args:
        places: units that read inputs, each with an output.
        inputs: the intended values.
        mistaken: as HostUnits.mistaken.
        measure: function that returns the distance of an output that the dump recorded from what the unit gives for other inputs.
    """
    for unit, output in places:
        own = measure(unit, output, {})
        if own is None or not own.mismatched:
            continue
        best: tuple[int, str, Forced] | None = None
        for name in (n for n in unit.inputs if n in inputs):
            for said, values in mistaken(name, inputs[name]):
                found = measure(unit, output, {name: values})
                if (
                    found is not None
                    and _explains(unit, found, own)
                    and (best is None or (found.mismatched or 0) < best[0])
                ):
                    best = found.mismatched or 0, said, found
            if best is not None:
                return f"the device's input {name}: {best[1]} ({_describe(unit, output, best[2])})"
    return ""


def _explains(unit: Unit, found: Forced, own: Forced) -> bool:
    """Returns whether only roundings remain, of far fewer elements. own: the distance from the intended input."""
    near = SLIGHT if isinstance(unit, Region) else 1
    small = found.max_lsb is not None and found.max_lsb <= near
    return small and (found.mismatched or 0) * FEWER <= (own.mismatched or 0)


def _describe(unit: Unit, output: str, found: Forced) -> str:
    left = f" but {found.mismatched} of {found.elements}, by {found.max_lsb} LSB at most," if found.mismatched else ""
    return f"from that, {unit.op} gives every element{left} of {output}"
