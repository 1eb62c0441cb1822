"""Pairs the names of two recordings. Two names are paired if they are equal, or if one names a node that covers the
other; never by similarity or position."""

from __future__ import annotations

from dataclasses import dataclass

from qverify.model_bin.graph import Graph
from qverify.tensors.recording import Recording


@dataclass(frozen=True, slots=True)
class NamePair:
    """One tensor that both sides have.

    Attributes:
        name: its name in the report.
        a, b: its name on each side.
        through_covers: whether the names differ and were paired by the ONNX nodes that a node covers.
    """

    name: str
    a: str
    b: str
    through_covers: bool = False


def declared_names(side: Recording) -> list[str]:
    """Returns the names of the tensors that the side declares, in its own order: all that have a spec if it offers
    tensors of every node, else its final outputs."""
    names = [n for n, spec in side.specs.items() if not spec.interior] if "per_node" in side.capabilities else []
    return list(dict.fromkeys([*names, *side.finals, *side.missing]))


def pair_names(a: Recording, b: Recording, graph: Graph | None) -> tuple[list[NamePair], list[str], list[str]]:
    """Returns the pairs, the names that only a declares, and the names that only b declares."""
    in_a, in_b = declared_names(a), declared_names(b)
    set_a, set_b = set(in_a), set(in_b)
    pairs = [NamePair(n, n, n) for n in in_a if n in set_b]
    left, right = [n for n in in_a if n not in set_b], [n for n in in_b if n not in set_a]
    covering_tensor = _map_covers(graph)
    unpaired = dict.fromkeys(right)
    covered_by: dict[str, list[str]] = {}  # tensor to the ONNX nodes in `right` that its node covers
    for name_b in right:
        if name_b in covering_tensor:
            covered_by.setdefault(covering_tensor[name_b], []).append(name_b)
    for name in left:
        covered = (n for n in covered_by.get(name, ()) if n in unpaired)
        name_b = covering_tensor[name] if covering_tensor.get(name) in unpaired else next(covered, "")
        if name_b in unpaired:
            pairs.append(NamePair(name_b if covering_tensor.get(name) == name_b else name, name, name_b, True))
            del unpaired[name_b]
    paired = {p.a for p in pairs}
    return pairs, [n for n in left if n not in paired], list(unpaired)


def _map_covers(graph: Graph | None) -> dict[str, str]:
    """Returns, by name of an ONNX node, the first output of the node that covers it. Names that are covered twice, or
    that are also names of tensors, are left out."""
    tensors: dict[str, str] = {}
    ambiguous: set[str] = set()
    for node in graph.nodes if graph is not None else []:
        for name in node.covers:
            ambiguous.update({name} if name in tensors else ())
            tensors[name] = node.outputs[0]
    return {
        name: tensor
        for name, tensor in tensors.items()
        if name not in ambiguous and name not in (graph.tensors if graph else ())
    }
