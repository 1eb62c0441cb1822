"""Known faults of a runtime or its chip, one family per file: NAME, a docstring that states the fault, variants(case).
LATE = -1 for a family that looks at a few elements first, 1 for one of hundreds of variants, 2 for one that sums products one by one: these are tried last, as the
time is limited."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any, Protocol, cast

import numpy.typing as npt

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
    chosen from."""

    said: str
    make: Callable[[Case], Array]
    bits: float = 0.0
    copied: bool = False
    free: Array | None = None
    part: str = ""
    part_bits: float = 0.0


class Page(Protocol):
    """A file of this folder. variants: yields nothing where the family does not apply to the unit. It is lazy, since
    examining the recorded elements takes time."""

    NAME: str
    __doc__: str

    def variants(self, case: Case) -> Iterator[FaultVariant]: ...


@cache
def pages() -> tuple[Page, ...]:
    """Returns all pages in the order of their files' names, the late ones last."""
    pages = [cast(Page, page) for page in load_pages(__name__, ("NAME", "__doc__", "variants"))]
    return tuple(sorted(pages, key=lambda page: int(getattr(page, "LATE", 0))))
