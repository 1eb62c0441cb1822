"""Pairs the names of two recordings: equal names, or names linked by the recorded covers; never by substring or
position."""

from __future__ import annotations

from dataclasses import dataclass

from qverify.model_bin.graph import Graph
from qverify.tensors.recording import Recording


@dataclass(frozen=True, slots=True)
class NamePair:
    """One tensor of both sides. name: its name in the report. a, b: its name on each side."""

    name: str
    a: str
    b: str
    through_covers: bool = False


def declared_names(side: Recording) -> list[str]:
    """Returns the names the side declares, in its own order: all that it has specs for, or its final outputs."""
    names = [n for n, spec in side.specs.items() if not spec.interior] if "per_node" in side.capabilities else []
    return list(dict.fromkeys([*names, *side.finals, *side.missing]))


def pair_names(a: Recording, b: Recording, graph: Graph | None) -> tuple[list[NamePair], list[str], list[str]]:
    """Returns the pairs, then the names that only a declares, then those that only b declares."""
    in_a, in_b = declared_names(a), declared_names(b)
    set_a, set_b = set(in_a), set(in_b)
    pairs = [NamePair(n, n, n) for n in in_a if n in set_b]
    left, right = [n for n in in_a if n not in set_b], [n for n in in_b if n not in set_a]
    stand_in = _map_covers(graph)
    free = dict.fromkeys(right)
    covering: dict[str, list[str]] = {}  # a tensor to the ONNX nodes among `right` that it covers
    for other in right:
        if other in stand_in:
            covering.setdefault(stand_in[other], []).append(other)
    for name in left:
        covered = (n for n in covering.get(name, ()) if n in free)
        other = stand_in[name] if stand_in.get(name) in free else next(covered, "")
        if other in free:
            pairs.append(NamePair(other if stand_in.get(name) == other else name, name, other, True))
            del free[other]
    paired = {p.a for p in pairs}
    return pairs, [n for n in left if n not in paired], list(free)


def _map_covers(graph: Graph | None) -> dict[str, str]:
    """Returns, by ONNX node name, the one tensor whose node covers it; names covered twice are left out."""
    tensors: dict[str, str] = {}
    twice: set[str] = set()
    for node in graph.nodes if graph is not None else []:
        for name in node.covers:
            twice.update({name} if name in tensors else ())
            tensors[name] = node.outputs[0]
    return {
        name: tensor
        for name, tensor in tensors.items()
        if name not in twice and name not in (graph.tensors if graph else ())
    }
