"""Known faults of a runtime or its chip, one family per file.

A page has NAME, a docstring that states the fault, and variants(case). It may have OPS, the ops that it applies to: it
is tried only at units with a node of one of these ops, before the pages that apply to any op. Because the time is
limited, LATE sets when a page is tried: -1 (early) for a family that looks at a few elements first, 0 if it is absent,
1 for one with hundreds of variants, 2 (last) for one that sums products one by one.

Most pages have a generator _ways, which yields pairs of a sentence and a "way": a function that computes the output
with the fault, or only some elements of it (altered_kernels/summed_elements.py)."""

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
    """One variant of a fault.

    Attributes:
        text: the fault in words.
        make: computes the output with the fault, in the shape and dtype of the output's spec, for this case or for the
            same unit on other inputs.
        bits: log2 of the number of alternatives, if the variant was chosen by the recorded elements.
        copied: whether the differing values are copies of values elsewhere.
        free: flat mask of the elements that the fault cannot predict, because memory keeps its earlier contents there;
            make returns them as recorded. None if there are none.
        part: the part of the output that alone is wrong, in words, or "" for all of it.
        part_bits: log2 of the number of parts from which that one was chosen.
        may_fit: a cheap check of a few differing elements for a fault that takes long to compute. It returns False only
            if the fault gives fewer than half of them; the fault is then not computed.
    """

    text: str
    make: Callable[[Case], Array]
    bits: float = 0.0
    copied: bool = False
    free: Array | None = None
    part: str = ""
    part_bits: float = 0.0
    may_fit: Callable[[Case], bool] | None = None


class HypothesisPage(Protocol):
    """A file of this folder. variants yields nothing if the family does not apply to the unit; it is lazy, because
    examining the recorded elements takes time."""

    NAME: str
    __doc__: str

    def variants(self, case: Case) -> Iterator[FaultVariant]: ...


@cache
def pages() -> tuple[HypothesisPage, ...]:
    """Returns all pages in the order of their LATE, then of their file names. Raises ImportError, which names the page,
    if its OPS are not ops."""
    pages = [cast(HypothesisPage, page) for page in load_pages(__name__, ("NAME", "__doc__", "variants"))]
    for page in pages:
        check_ops(page)
    return tuple(sorted(pages, key=_late))


def pages_of(case: Case) -> tuple[HypothesisPage, ...]:
    """Returns the pages that apply to the case's unit, in the order in which they are tried: those that state its ops,
    then those of any op, then those that sum products one by one."""
    return _pages_of(frozenset(node.op for node in case.unit.nodes))


@cache
def _pages_of(stems: frozenset[str]) -> tuple[HypothesisPage, ...]:
    applying = [page for page in pages() if (page_ops := ops_of(page)) is None or stems.intersection(page_ops)]
    return tuple(sorted(applying, key=lambda page: (_late(page) > 1, ops_of(page) is None)))


def ops_of(page: HypothesisPage) -> Collection[str] | None:
    """Returns the ops that a page applies to, or None if it applies to any op."""
    stems: Collection[str] | None = getattr(page, "OPS", None)
    return stems


def check_ops(page: HypothesisPage) -> None:
    """Raises ImportError if the OPS of a page are not a collection of names of ops."""
    stated = ops_of(page)
    if stated is None:
        return
    is_collection = isinstance(stated, Collection) and not isinstance(stated, str)
    if not is_collection or not stated or not {*stated} <= {*ops.stems()}:
        raise ImportError(
            f"triage/hypotheses/{page.NAME.replace('-', '_')}.py: OPS is {stated!r}; wanted the names of ops (files of"
            " qverify/ops), or no OPS for a family that applies to all"
        )


def _late(page: HypothesisPage) -> int:
    return int(getattr(page, "LATE", 0))
