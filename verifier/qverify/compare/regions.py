"""Regions: the units between the tensors that a side gives. What a board fuses, it does not give the tensors of; the
units that compute and read them are recomputed as one."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, replace

from qverify.model_bin.float_functions import NAMES
from qverify.model_bin.graph import Graph, Node
from qverify.model_bin.units import Unit
from qverify.report.document import Forced
from qverify.report.facts import FusedRegion

CONVERSIONS = ("quantize", "dequantize")
UNTOLD = "no rounding of its inner tensors that was tried gives them"  # in the reason of a region within its bound


@dataclass(frozen=True, slots=True)
class Region(Unit):
    """Several units as one, or one unit of which a side gives only some outputs. outputs: those that the side gives.

    Attributes:
        members: the units, in running order. Tensors between them are not given.
        not_given: those of the tensors between them that the side could have given and did not.
        refused: those that it gave and that could not be used.
    """

    members: tuple[Unit, ...]
    not_given: tuple[str, ...] = ()
    refused: tuple[str, ...] = ()


def find_steps(
    units: list[Unit],
    graph: Graph,
    offers: Callable[[str], bool],
    merge: bool = True,
    refused: Collection[str] = (),
    made: Collection[str] = (),
) -> list[Unit]:
    """Returns the units and regions that can be recomputed from what a side gives, in running order: for each tensor
    that it gives, the smallest part of the graph between this tensor and others that it gives.

    A region is made only if the side gives a tensor besides inputs and outputs of the graph; else the whole graph would
    be one, and nothing were located. It never contains what the host computes.

    Args:
        units: the units of the graph.
        graph: the graph.
        offers: function that returns whether the side gives a tensor.
        merge: whether to make regions.
        refused: tensors that the side gave and that could not be used.
        made: tensors that the compiler made, which no side can give by their names.
    """
    made_by = {name: unit for unit in units for name in unit.outputs}
    order = {unit.name: at for at, unit in enumerate(units)}
    inputs, ends = frozenset(graph.inputs), {*graph.inputs, *graph.outputs}
    may_merge = merge and any(offers(name) for name in made_by if name not in ends)
    steps, read = list[Unit](), {*graph.outputs, *(n for unit in units for n in unit.inputs)}
    for whole in units:
        unit = _leave_out_unnamed(whole, {n for n in whole.outputs if n in made and n not in read and not offers(n)})
        outputs = [o for o in unit.outputs if not graph.spec(o).interior]
        given = [o for o in outputs if offers(o)]
        if outputs and given == outputs and all(n in inputs or offers(n) for n in unit.inputs):
            steps.append(unit)
            continue
        members = _find_members(unit, made_by, graph, offers) if given else None
        if members is None or (not may_merge and (len(members) > 1 or given != outputs)):
            continue
        if len(members) == 1 and given == outputs:
            steps.append(unit)
        else:
            steps.append(_merge(sorted(members, key=lambda u: order[u.name]), given, graph, refused, made))
    return steps


def _leave_out_unnamed(unit: Unit, unnamed: Collection[str]) -> Unit:
    """Returns the unit without outputs that have no name in the ONNX and that nothing reads, such as the last states of an
    LSTM: the others are judged without them."""
    rest = tuple(o for o in unit.outputs if o not in unnamed)
    return replace(unit, outputs=rest) if rest and len(rest) < len(unit.outputs) else unit


def _find_members(
    last: Unit, made_by: dict[str, Unit], graph: Graph, offers: Callable[[str], bool]
) -> list[Unit] | None:
    """Returns the units from tensors that the side gives up to this unit, or None if one of them reads a tensor that
    the host computes and the side does not give."""
    members, todo = {last.name: last}, [last]
    while todo:
        for name in todo.pop().inputs:
            if name in graph.inputs or offers(name):
                continue
            maker = made_by.get(name)
            if maker is None:
                return None
            if maker.name not in members:
                members[maker.name] = maker
                todo.append(maker)
    return list(members.values())


def _merge(
    members: list[Unit], outputs: list[str], graph: Graph, refused: Collection[str], made: Collection[str]
) -> Region:
    """Returns these units, in running order, as one."""
    names = {node.name for unit in members for node in unit.nodes}
    nodes = tuple(node for node in graph.nodes if node.name in names)
    computed = dict.fromkeys(o for unit in members for o in unit.outputs)
    inputs = tuple(dict.fromkeys(n for unit in members for n in unit.inputs if n not in computed))
    last = members[-1]
    op = "+".join(unit.op for unit in members)
    exact = all(unit.integer_reference for unit in members)
    read = {n for unit in members for n in unit.inputs}
    inner = [n for n in computed if n in read and n not in outputs]
    own = [
        n for n in inner if not graph.spec(n).interior and n not in made
    ]  # others are the compiler's, which no side can give
    unusable = tuple(n for n in own if n in refused)
    not_given = tuple(n for n in own if n not in refused)
    return Region(last.name, op, nodes, inputs, tuple(outputs), exact, tuple(members), not_given, unusable)


def replace_by_regions(units: list[Unit], steps: list[Unit]) -> list[Unit]:
    """Returns the units, each replaced by the region that ends with it if there is one, or by the part of its outputs that is
    judged. The units inside of regions remain."""
    judged = {step.name: step for step in steps}
    return [judged.get(unit.name, unit) for unit in units]


def list_single(units: list[Unit]) -> list[Unit]:
    """Returns the units without the regions."""
    return [unit for unit in units if not isinstance(unit, Region)]


def names_inside(unit: Unit) -> set[str]:
    """Returns the names of the members of a region; an empty set for a unit that is no region."""
    return {member.name for member in unit.members} if isinstance(unit, Region) else set()


def find_inside(units: list[Unit], passing: Collection[str]) -> set[str]:
    """Returns the names of the units about which nothing else is to be known because every region that they are in
    passes. passing: the tensors that pass when recomputed."""
    inside, doubtful = set[str](), set[str]()
    for unit in units:
        names = names_inside(unit)
        (inside if all(o in passing for o in unit.outputs) else doubtful).update(names)
    return inside - doubtful


def list_inner(unit: Unit) -> list[str]:
    """Returns the names of the tensors between the members of a region; [] for a unit that is no region."""
    if not isinstance(unit, Region):
        return []
    read = {n for member in unit.members for n in member.inputs}
    return [o for member in unit.members for o in member.outputs if o in read and o not in unit.outputs]


def describe_region(unit: Unit, side: str) -> FusedRegion | None:
    """Returns the region as the report shows it, or None for a unit that is no region. side: the side that does not
    give the inner tensors."""
    if not isinstance(unit, Region):
        return None
    shown = [n for n in unit.nodes if n.op not in CONVERSIONS] or list(unit.nodes)
    names = [f"{_name_op(n)} {n.name}" for n in shown]
    return FusedRegion(list(unit.inputs), list(unit.outputs), names, side, list(unit.not_given), list(unit.refused))


def describe_open(forced: Forced) -> str:
    """Returns why a verdict is open, with the place if it is that of a region."""
    return forced.why if forced.region is None else f"{forced.region.place}: {forced.why}"


def _name_op(node: Node) -> str:
    return NAMES.get(node.words[0], node.op) if node.op == "elementwise_float" else node.op
