"""Known faults of a runtime or its chip, one family a file: NAME, a docstring that states it, variants(case). LATE = 1 for a
family of hundreds of variants, 2 for one that sums products one by one: they come after the others, should the time run out."""

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
    """said: the fault as a person reads it. make: the output under it, for this case or the same unit on other inputs;
    shape and dtype of the output's spec. bits: log2 of how many faults like it there were to choose from, where the
    recorded elements chose it. copied: it puts values that stand elsewhere in place of the differing ones. free: flat mask of
    the elements it cannot predict, because memory held there what it held before; make leaves them as recorded."""

    said: str
    make: Callable[[Case], Array]
    bits: float = 0.0
    copied: bool = False
    free: Array | None = None


class Page(Protocol):
    """variants: nothing where the family does not apply to the unit. They come lazily: looking at the recorded elements is
    part of it."""

    NAME: str
    __doc__: str

    def variants(self, case: Case) -> Iterator[FaultVariant]: ...


@cache
def pages() -> tuple[Page, ...]:
    """In the order of their files' names, the late ones last."""
    pages = [cast(Page, page) for page in load_pages(__name__, ("NAME", "__doc__", "variants"))]
    return tuple(sorted(pages, key=lambda page: int(getattr(page, "LATE", 0))))
