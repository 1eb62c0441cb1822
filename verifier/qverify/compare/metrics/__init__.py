"""The metrics, one page each: NAME, its key in a row of the report, and Measure(context), a class with add(block) and
result()."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Protocol

from qverify.compare.paired_values import Block
from qverify.pages import load_pages
from qverify.report.document import Metric


@dataclass(frozen=True, slots=True)
class Context:
    """The tensor that is measured.

    Attributes:
        rule, digits: the decimals rule and the number of places of the comparison.
        elements: number of elements.
        integers: whether both sides have the same integer type.
        dtype: the type of both sides; "" if they have two, or quantized ones.
    """

    rule: str
    digits: int
    elements: int
    integers: bool
    dtype: str = ""


class Measure(Protocol):
    """A metric in the course of being measured, block by block."""

    def add(self, block: Block) -> None: ...
    def result(self) -> Metric: ...


@cache
def _load_pages() -> tuple[tuple[str, type], ...]:
    """Returns NAME and Measure of every page of this folder."""
    return tuple((page.NAME, page.Measure) for page in load_pages(__name__, ("NAME", "Measure")))


def make_measures(context: Context) -> dict[str, Measure]:
    """Returns a new Measure of every metric, by name."""
    return {name: kind(context) for name, kind in _load_pages()}


def measure_equal(context: Context) -> dict[str, Metric]:
    """Returns the result of every metric for two tensors with equal bytes, by name."""
    found, nested = _measure_equal(context)
    return {**found, **{name: dict(value) for name, value in nested}}


@lru_cache(maxsize=1024)
def _measure_equal(context: Context) -> tuple[dict[str, Metric], tuple[tuple[str, dict[str, int]], ...]]:
    """Returns all results, and those that are tables."""
    found = {name: measure.result() for name, measure in make_measures(context).items()}
    return found, tuple((name, value) for name, value in found.items() if isinstance(value, dict))
