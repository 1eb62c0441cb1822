"""One page per metric: NAME (its key in a report's row) and Measure(context) with add(block) and result()."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Protocol

from qverify.compare.paired_values import Block
from qverify.pages import load_pages
from qverify.report.document import Metric


@dataclass(frozen=True, slots=True)
class Context:
    """The tensor that a metric measures. rule, digits: of the decimals. elements: how many it has. integers: both sides
    have the same integer type."""

    rule: str
    digits: int
    elements: int
    integers: bool


class Measure(Protocol):
    def add(self, block: Block) -> None: ...
    def result(self) -> Metric: ...


@cache
def _pages() -> tuple[tuple[str, type], ...]:
    """Returns NAME and Measure of every page of this folder."""
    return tuple((page.NAME, page.Measure) for page in load_pages(__name__, ("NAME", "Measure")))


def measures(context: Context) -> dict[str, Measure]:
    """Returns a new Measure of every metric, by name."""
    return {name: kind(context) for name, kind in _pages()}
