"""Known mistakes, and how one or two of them are enumerated: by pages, each of which changes a recipe."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

AnyRecipe = TypeVar("AnyRecipe", bound=Hashable)


@dataclass(frozen=True, slots=True)
class Mistake:
    """One mistake. family: NAME of the hypothesis page. said: description of the mistake."""

    family: str
    said: str


@dataclass(frozen=True)
class Explanation(Generic[AnyRecipe]):
    """Mistakes that may explain what was captured. causes: the mistakes, in the order in which they are applied; () for
    what was intended. recipe: the recipe with these mistakes."""

    causes: tuple[Mistake, ...]
    recipe: AnyRecipe

    @property
    def said(self) -> str:
        return " + ".join(c.said for c in self.causes) or "as described"


class Page(Protocol[AnyRecipe]):
    """A family of mistakes. variants: yields the exact mistake as text and the recipe with it, or nothing if the
    mistake is not possible."""

    NAME: str

    def variants(self, recipe: AnyRecipe) -> Iterable[tuple[str, AnyRecipe]]: ...


def list_single_mistakes(pages: Sequence[Page[AnyRecipe]], intended: AnyRecipe) -> Iterator[Explanation[AnyRecipe]]:
    """Yields every recipe with one mistake, each once."""
    yielded = {intended}
    for page in pages:
        for explanation in _explain_by_page(page, intended, ()):
            if explanation.recipe not in yielded:
                yielded.add(explanation.recipe)
                yield explanation


def list_pairs(pages: Sequence[Page[AnyRecipe]], intended: AnyRecipe) -> Iterator[Explanation[AnyRecipe]]:
    """Yields every recipe with two mistakes of different families, in both orders, where these differ; each once, and
    none that one mistake makes."""
    singles = list(list_single_mistakes(pages, intended))
    yielded = {intended, *(s.recipe for s in singles)}
    for first in singles:
        for page in pages:
            if first.causes[0].family == page.NAME:
                continue
            for pair in _explain_by_page(page, first.recipe, first.causes):
                if pair.recipe not in yielded:
                    yielded.add(pair.recipe)
                    yield pair


def _explain_by_page(
    page: Page[AnyRecipe], recipe: AnyRecipe, before: tuple[Mistake, ...]
) -> Iterator[Explanation[AnyRecipe]]:
    for cause, changed in page.variants(recipe):
        yield Explanation((*before, Mistake(page.NAME, cause)), changed)
