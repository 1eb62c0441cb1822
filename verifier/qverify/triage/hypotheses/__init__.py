"""Known faults of a runtime or its chip, one family per file: NAME, a docstring that states the fault, variants(case).
LATE = -1 for a family that looks at a few elements first, 1 for one of hundreds of variants, 2 for one that sums products one by one: these are tried last, as the
time is limited. OPS: the ops it applies to, tried before those of any op: units with a node of one of these; without
it, all units."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any, Protocol, cast

import numpy.typing as npt

from qverify import ops
from qverify.pages import load_pages
from qverify.triage.case import Case

Array = npt.NDArray[Any]


@dataclass(frozen=True, slots=True)
class FaultVariant:
    """One way a fault can be. said: the fault in words. make: computes the output under it, for this case or the same
    unit on other inputs; shape and dtype of the output's spec. bits: log2 of the number of alternatives, where it was
    chosen by the recorded elements. copied: the differing values are copies of values elsewhere. free: flat mask of the
    elements it cannot predict, because they are left over in memory from before; make returns them as recorded. part:
    the part of the output that alone is wrong, in words, "" for all of it; part_bits: log2 of the number of parts it was
    chosen from. may_fit: a cheap look at a few differing elements for a fault that takes long to compute; False only
    where it gives fewer than half of these, so that it is not computed."""

    said: str
    make: Callable[[Case], Array]
    bits: float = 0.0
    copied: bool = False
    free: Array | None = None
    part: str = ""
    part_bits: float = 0.0
    may_fit: Callable[[Case], bool] | None = None


class HypothesisPage(Protocol):
    """A file of this folder. variants: yields nothing where the family does not apply to the unit. It is lazy, since
    examining the recorded elements takes time."""

    NAME: str
    __doc__: str

    def variants(self, case: Case) -> Iterator[FaultVariant]: ...


@cache
def pages() -> tuple[HypothesisPage, ...]:
    """Returns all pages in the order of their files' names, the late ones last. ImportError, naming the page, where its
    OPS are not ops."""
    pages = [cast(HypothesisPage, page) for page in load_pages(__name__, ("NAME", "__doc__", "variants"))]
    for page in pages:
        check_ops(page)
    return tuple(sorted(pages, key=_late))


def pages_of(case: Case) -> tuple[HypothesisPage, ...]:
    """Returns the pages that apply to the case's unit, in the order in which they are tried: those that state its ops,
    then those of any op, then what sums products one by one."""
    return _pages_of(frozenset(node.op for node in case.unit.nodes))


@cache
def _pages_of(stems: frozenset[str]) -> tuple[HypothesisPage, ...]:
    some = [page for page in pages() if (own := ops_of(page)) is None or stems.intersection(own)]
    return tuple(sorted(some, key=lambda page: (_late(page) > 1, ops_of(page) is None)))


def ops_of(page: HypothesisPage) -> Collection[str] | None:
    """Returns the ops a page applies to; None where it states none, since it applies to any."""
    stems: Collection[str] | None = getattr(page, "OPS", None)
    return stems


def check_ops(page: HypothesisPage) -> None:
    """Raises ImportError where a page states OPS that are not a collection of ops' names."""
    stated = ops_of(page)
    if stated is None:
        return
    known = isinstance(stated, Collection) and not isinstance(stated, str)
    if not known or not stated or not {*stated} <= {*ops.stems()}:
        raise ImportError(
            f"triage/hypotheses/{page.NAME.replace('-', '_')}.py: OPS is {stated!r}; wanted the names of ops (files of"
            " qverify/ops), or no OPS for a family that applies to all"
        )


def _late(page: HypothesisPage) -> int:
    return int(getattr(page, "LATE", 0))
