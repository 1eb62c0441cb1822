"""Known mistakes in preparing inputs, one family a file: NAME, a docstring that states it, variants(recipe). FIX, where a
description's options do not say it all: what to do at the board."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Protocol, cast

from qverify.inputs.recipe import Recipe
from qverify.pages import load_pages


class Page(Protocol):
    """variants: the exact cause as a person reads it, and the recipe with it; nothing where it does not apply."""

    NAME: str
    __doc__: str

    def variants(self, recipe: Recipe) -> Iterator[tuple[str, Recipe]]: ...


@cache
def pages() -> tuple[Page, ...]:
    """In the order of their files' names."""
    return tuple(cast(Page, page) for page in load_pages(__name__, ("NAME", "__doc__", "variants")))


def fix(name: str) -> str:
    """What the family advises; "" where it has nothing of its own to say."""
    return next((str(getattr(page, "FIX", "")) for page in pages() if name == page.NAME), "")
