"""Known mistakes in what is made of outputs, one family per file. A file has NAME, a docstring that states the mistake,
variants(recipe), and FIX, the line to change in the device's application."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Protocol, cast

from qverify.outputs.recipe import OutputRecipe
from qverify.pages import load_pages


class OutputHypothesisPage(Protocol):
    """A family of mistakes. variants: yields the exact mistake as text and the recipe with it, or nothing if the
    mistake is not possible. FIX: what to change."""

    NAME: str
    FIX: str
    __doc__: str

    def variants(self, recipe: OutputRecipe) -> Iterator[tuple[str, OutputRecipe]]: ...


@cache
def pages() -> tuple[OutputHypothesisPage, ...]:
    """Returns the families, sorted by file name."""
    return tuple(
        cast(OutputHypothesisPage, page) for page in load_pages(__name__, ("NAME", "FIX", "__doc__", "variants"))
    )


def find_fix(name: str) -> str:
    """Returns the FIX of the family with this name, or "" for a mistake of writing."""
    return next((page.FIX for page in pages() if name == page.NAME), "")
