"""A node runs with a table, scales or parameter words of another node of its op: kept from the one before, or cached
from the first."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

import numpy as np

from qverify.model_bin.graph import Node
from qverify.triage.altered_kernels.inner_node import inner_case
from qverify.triage.altered_kernels.memory_sources import ROLES
from qverify.triage.altered_kernels.variant_checks import check_where_it_differs, recompute_inner
from qverify.triage.case import Array, Case, UnitChange
from qverify.triage.hypotheses import FaultVariant

NAME = "other-node"
MAX_NODES = 24  # other nodes of the op that are tried


def variants(case: Case) -> Iterator[FaultVariant]:
    inner = inner_case(case)
    if inner is None:
        return
    for cost, who, other in _others(inner):
        if other.words != inner.last.words and len(other.words) == len(inner.last.words):
            text = f"{inner.last.op}: it runs with the parameter words of {who}"
            yield from check_where_it_differs(case, text, partial(_with_words, words=other.words), cost)
        shared = []
        for at in range(min(len(inner.last.inputs), len(other.inputs))):
            mine, theirs = inner.last.inputs[at], other.inputs[at]
            if (
                mine in inner.graph.constants
                and theirs in inner.graph.constants
                and mine != theirs
                and _fits(inner, mine, theirs)
            ):
                shared.append((mine, theirs))
                roles = ROLES.get(inner.last.op, ())
                role = roles[at] if at < len(roles) else f"constant input {at}"
                text = f"{inner.last.op}: it runs with the {role} of {who}"
                yield from check_where_it_differs(
                    case, text, partial(_with_constants, pairs=((mine, theirs),)), cost + 0.5
                )
        if len(shared) > 1:
            text = f"{inner.last.op}: it runs with all constants of {who}"
            yield from check_where_it_differs(case, text, partial(_with_constants, pairs=tuple(shared)), cost + 1)


def _others(inner: Case) -> Iterator[tuple[float, str, Node]]:
    """Yields (cost, text, node) for the other nodes of the op, the likely ones first. A node that is both the first one
    and the one before is yielded with both texts, because at another node these are two nodes."""
    nodes = [n for n in inner.graph.nodes if n.op == inner.last.op]
    own_place = next((i for i, n in enumerate(nodes) if n.name == inner.last.name), None)
    if own_place is None or len(nodes) < 2:
        return
    order = [own_place - 1, 0, own_place + 1, len(nodes) - 1, *range(len(nodes))]
    for at in list(dict.fromkeys(i for i in order if 0 <= i < len(nodes) and i != own_place))[:MAX_NODES]:
        usual = (
            (own_place - 1, f"the {inner.last.op} before it"),
            (0, f"the first {inner.last.op}"),
            (own_place + 1, f"the {inner.last.op} after it"),
            (len(nodes) - 1, f"the last {inner.last.op}"),
        )
        named = [text for place, text in usual if place == at]
        for text in named or [f"another {inner.last.op} ({nodes[at].name})"]:
            yield (2.0 if named else 5.0), text, nodes[at]


def _fits(inner: Case, mine: str, theirs: str) -> bool:
    a, b = inner.graph.constants[mine], inner.graph.constants[theirs]
    same = a.ndim == b.ndim and a.dtype == b.dtype and b.size >= a.size
    return same and (a.shape == b.shape or a.ndim <= 2) and (np.resize(b, a.shape) != a).any()


def _with_words(case: Case, words: tuple[int, ...]) -> Array:
    inner = inner_case(case)
    assert inner is not None
    return recompute_inner(case, UnitChange(nodes={inner.last.name: replace(inner.last, words=words)}))


def _with_constants(case: Case, pairs: tuple[tuple[str, str], ...]) -> Array:
    inner = inner_case(case)
    assert inner is not None
    changed = {}
    for mine, theirs in pairs:
        value, other = inner.graph.constants[mine], inner.graph.constants[theirs]
        changed[mine] = other[..., : value.shape[-1]] if value.shape != other.shape else other
    return recompute_inner(case, UnitChange(constants=changed))
