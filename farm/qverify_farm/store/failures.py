"""Compares a failure with the failure of a baseline: its place, its causes and its extent (work/failure_extent.py)."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from qverify.plural import count

ROUNDED = 1 + 1e-6  # largest differences are stored with 9 digits
NO_EXTENT = (
    "an older qverify took its baseline, without the extent of the failure; take it again (qverify suite baseline)"
)


@dataclass(frozen=True, slots=True)
class Failure:
    """A failure. side: the side that is blamed. nodes: the first nodes that failed, in alphabetical order. extent: its
    extent, {} if it is not known. by_node: the extents of the
    nodes, in the order of execution."""

    side: str
    nodes: tuple[str, ...]
    extent: Mapping[str, Any] = field(default_factory=dict)
    by_node: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)


def failure_of(blame_side: str, nodes: Iterable[str], extent: Mapping[str, Any] | None) -> Failure:
    """Returns the failure with these values of a job or of a baseline."""
    names, known = [str(name) for name in nodes], extent or {}
    extents = [tuple(values) for values in known.get("nodes", ())]
    by_node = dict(zip(names, extents, strict=True)) if len(names) == len(extents) else {}
    return Failure(blame_side, tuple(sorted(names)), known if by_node else {}, by_node)


def is_same_place(known: Failure, found: Failure) -> bool:
    """Returns whether both blame the same side at the same nodes. A failure without nodes has no place."""
    return bool(known.nodes) and (known.side, known.nodes) == (found.side, found.nodes)


def find_unlike(known: Failure, found: Failure) -> str:
    """Returns how a failure in the same place differs from the known one or is worse, in words; "" if it is neither."""
    if not known.extent:
        return NO_EXTENT
    if not found.extent:
        return "its extent is not known"
    if known.extent["causes"] != found.extent["causes"]:
        return f"cause {_causes(found)}, {_causes(known)} in the baseline"
    for node in found.by_node:  # in the order of execution
        if why := _find_worse(known.by_node[node], found.by_node[node]):
            return f"{node}: {why} in the baseline"
    for key, what in (("tensors", "tensor"), ("elements", "element")):
        if found.extent[key] > known.extent[key]:
            return f"{count(found.extent[key], what)} differ in all, {known.extent[key]} in the baseline"
    return ""


def _find_worse(known: tuple[Any, ...], found: tuple[Any, ...]) -> str:
    """Returns how a node's extent is worse or different, up to the words "in the baseline"."""
    elements, largest, below, above = found
    if elements > known[0]:
        return f"{count(elements, 'element')} differ, {known[0]}"
    if _number(largest) > _number(known[1]) * ROUNDED:
        return f"largest difference {_text(largest)}, {_text(known[1])}"
    if (new := _directions(below, above)) != (old := _directions(known[2], known[3])):
        return f"the elements that differ are {new}, {old}"
    return ""


def _number(value: float | None) -> float:
    return math.inf if value is None else value


def _text(value: float | None) -> str:
    return "infinite" if value is None else f"{value:.6g}"


def _directions(below: int | None, above: int | None) -> str:
    if below is None or above is None:
        return "of no known direction"
    return " and ".join(word for word, number in (("below", below), ("above", above)) if number) or "none"


def _causes(failure: Failure) -> str:
    return ", ".join(failure.extent["causes"]) or "none"
