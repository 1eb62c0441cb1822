"""Elements that no rule for a sum can give: the same sum of the same scale became several integers."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from qverify.compare.identify.fit import RecordedUnit
from qverify.compare.identify.solve import Triples
from qverify.compare.identify.solve_additions import Additions
from qverify.compare.probing.corners import list_wrong
from qverify.compare.probing.parts import Places
from qverify.plural import count
from qverify.tensors.recording import Array

MOST_FEW = 0.01  # share of the elements


def describe_contradiction(members: Sequence[RecordedUnit]) -> str:
    """Returns what shows that the sums of these units do not decide on their integers; "" if nothing does."""
    total, first = 0, ""
    for m in members:
        if m.triples is None or m.triples.out.size != m.recorded.size:
            continue
        order, again = _same_as_before(m.triples)
        different = again & (m.triples.out[order][1:] != m.triples.out[order][:-1])
        total += int(np.count_nonzero(different))
        if different.any() and not first:
            at = int(np.flatnonzero(different)[0])
            one, other = int(m.triples.out[order[at]]), int(m.triples.out[order[at + 1]])
            first = f"{m.unit.name}: {one} and {other}"
    if not total:
        return ""
    what = "the same operands" if isinstance(members[0].triples, Additions) else "the same sum and scale"
    return (
        f"{what} give different integers ({count(total, 'pair')}, first {first}): the place in the tensor counts, "
        "the sum is added another way, or the board is not deterministic"
    )


def describe_few(members: Sequence[RecordedUnit]) -> str:
    """Returns that few elements of most of these units do not have a form of the catalogue, each off by one; "" if it is
    otherwise."""
    best = min(
        list_wrong([Places(m) for m in members]),
        key=lambda one: sum(int(np.count_nonzero(w)) for w in one[1]),
        default=None,
    )
    if best is None:
        return ""
    form, wrong = best
    few, total = sum(int(np.count_nonzero(w)) for w in wrong), sum(w.size for w in wrong)
    if few > MOST_FEW * total:
        return ""
    return (
        f"{form} gives all but {few} of {count(total, 'element')}, and these lie in no part of the tensors: it is nearly "
        "the form, or the board is not deterministic (record the same input twice)"
    )


def _same_as_before(triples: Triples) -> tuple[Array, Array]:
    """Returns an order in which equal sums of equal scales are neighbours, and a mask of those after the first that equal
    the one before."""
    keys = [triples.acc, triples.second] if isinstance(triples, Additions) else [triples.acc, triples.scale[""]]
    order = np.lexsort((triples.out, *keys))
    again = np.ones(max(0, order.size - 1), bool)
    for key in keys:
        again &= key[order][1:] == key[order][:-1]
    return order, again
