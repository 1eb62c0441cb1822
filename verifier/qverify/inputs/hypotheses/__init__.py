"""Known mistakes in preparing inputs, one family per file: NAME, a docstring that states it, variants(recipe), and FIX,
what to do at the board, where options of a description are not enough."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Protocol, cast

from qverify.inputs.recipe import Recipe
from qverify.pages import load_pages


class InputHypothesisPage(Protocol):
    """A family of mistakes. variants: yields the exact cause as text, and the recipe with it; nothing where it does not
    apply."""

    NAME: str
    __doc__: str

    def variants(self, recipe: Recipe) -> Iterator[tuple[str, Recipe]]: ...


@cache
def pages() -> tuple[InputHypothesisPage, ...]:
    """Returns the families, sorted by file name."""
    return tuple(cast(InputHypothesisPage, page) for page in load_pages(__name__, ("NAME", "__doc__", "variants")))


def fix(name: str) -> str:
    """Returns the family's advice, or ""."""
    return next((str(getattr(page, "FIX", "")) for page in pages() if name == page.NAME), "")
