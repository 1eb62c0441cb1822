"""Known mistakes in preparing inputs, one family per file. A file has NAME, a docstring that states the mistake,
variants(recipe), and, if options of a description are not sufficient, FIX, what to do at the board."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Protocol, cast

from qverify.inputs.recipe import Recipe
from qverify.pages import load_pages


class InputHypothesisPage(Protocol):
    """A family of mistakes. variants: yields the exact mistake as text and the recipe with it, or nothing if the
    mistake is not possible."""

    NAME: str
    __doc__: str

    def variants(self, recipe: Recipe) -> Iterator[tuple[str, Recipe]]: ...


@cache
def pages() -> tuple[InputHypothesisPage, ...]:
    """Returns the families, sorted by file name."""
    return tuple(cast(InputHypothesisPage, page) for page in load_pages(__name__, ("NAME", "__doc__", "variants")))


def find_fix(name: str) -> str:
    """Returns the FIX of the family with this name, or "" if it has none."""
    return next((str(getattr(page, "FIX", "")) for page in pages() if name == page.NAME), "")
