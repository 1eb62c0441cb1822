"""A page a metric: NAME (key in a report's row) and Measure(context) with add(block) and result()."""

from __future__ import annotations

import importlib
import pkgutil
from dataclasses import dataclass
from functools import cache
from typing import Protocol

from qverify.compare.paired_values import Block
from qverify.report.document import Metric


@dataclass(frozen=True, slots=True)
class Context:
    """What a metric may want to know beforehand. integers: both sides hold the same integer type."""

    rule: str
    digits: int
    elements: int
    integers: bool


class Measure(Protocol):
    def add(self, block: Block) -> None: ...
    def result(self) -> Metric: ...


@cache
def _pages() -> tuple[tuple[str, type], ...]:
    """Name and Measure of every page of this folder; a page without them fails here, naming itself."""
    found = []
    for page in pkgutil.iter_modules(__path__):
        module = importlib.import_module(f"{__name__}.{page.name}")
        for wanted in ("NAME", "Measure"):
            if not hasattr(module, wanted):
                raise ImportError(f"compare/metrics/{page.name}.py: no {wanted}")
        found.append((module.NAME, module.Measure))
    return tuple(found)


def measures(context: Context) -> dict[str, Measure]:
    return {name: kind(context) for name, kind in _pages()}
