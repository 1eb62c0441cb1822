"""Known mistakes in preparing inputs, one family a file: NAME, a docstring that states it, variants(recipe). FIX, where a
description's options do not say it all: what to do at the board."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from importlib import import_module
from pkgutil import iter_modules
from typing import Protocol, cast

from qverify.inputs.recipe import Recipe


class Page(Protocol):
    """variants: the exact cause as a person reads it, and the recipe with it; nothing where it does not apply."""

    NAME: str
    __doc__: str

    def variants(self, recipe: Recipe) -> Iterator[tuple[str, Recipe]]: ...


@cache
def pages() -> tuple[Page, ...]:
    """In the order of their files' names."""
    stems = sorted(m.name for m in iter_modules(__path__))
    return tuple(cast(Page, import_module(f"{__name__}.{stem}")) for stem in stems)


def fix(name: str) -> str:
    """What the family advises; "" where it has nothing of its own to say."""
    return next((str(getattr(page, "FIX", "")) for page in pages() if name == page.NAME), "")
