"""Chooses the probes that split the forms which are left: by what they predict, never by how many of them agree."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from qverify.compare.identify.fit import RecordedUnit
from qverify.tensors.digest import tensor_digest


def predictions(member: RecordedUnit, forms: Sequence[str]) -> tuple[str, ...]:
    """Returns a digest of the output of a unit under each form; "" where it does not have the form."""
    found = []
    for form in forms:
        try:
            found.append(tensor_digest(member.compute(form)))
        except (KeyError, ValueError):
            found.append("")
    return tuple(found)


def choose(candidates: Iterable[tuple[int, tuple[str, ...]]], most: int) -> list[int]:
    """Returns the numbers of at most `most` probes that together split most forms. candidates: number of each probe, and
    what it predicts under each form."""
    left, chosen = list(candidates), list[int]()
    groups: list[tuple[str, ...]] = [() for _ in left[0][1]] if left else []  # of each form
    while left and len(chosen) < most:
        scored = [(len(set(_joined(groups, found))), number, found) for number, found in left]
        best, number, found = max(scored, key=lambda one: (one[0], -one[1]))
        if best <= len(set(groups)):
            break
        groups, chosen = _joined(groups, found), [*chosen, number]
        left = [one for one in left if one[0] != number]
    return chosen


def _joined(groups: list[tuple[str, ...]], found: tuple[str, ...]) -> list[tuple[str, ...]]:
    return [(*group, one) for group, one in zip(groups, found, strict=True)]
