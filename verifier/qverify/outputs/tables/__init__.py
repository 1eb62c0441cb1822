"""Further mistakes, as tables: each row replaces or adds one small step of a decoder's pipeline, and belongs to a family of
outputs/hypotheses. A table is a page with ROWS."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

from qverify.mistakes import Explanation, Mistake
from qverify.outputs.recipe import OutputRecipe, Stage, Step
from qverify.outputs.steps import MOST_APART, with_anchor_boxes, with_real, with_stored
from qverify.pages import load_pages

DETECTORS = ("boxes", "decoded")
PLACES = ("boxes", "plain boxes", "keypoints")


def always(_: OutputRecipe) -> bool:
    """The condition of a row that is always tried."""
    return True


@dataclass(frozen=True, slots=True)
class Row:
    """One step that is made otherwise.

    Attributes:
        family: NAME of the page of outputs/hypotheses to which it belongs.
        said: the mistake in words, after the name of the family.
        stage: of the recipe; "boxes" changes the boxes of anchors (steps.Geometry), stored and real one output at a time:
            function of an Output, or of an array.
        change: the step: function of the stage's values and the recipe.
        kinds: of results for which it is tried.
        of_one: whether the best anchor goes through it as among all others.
        when: whether a recipe may have it.
        whole: of stored and real: the outputs together only, not each alone.
        unclipped: whether the recipe does not clip boxes otherwise.
    """

    family: str
    said: str
    stage: Stage | str
    change: Callable[..., Any]
    kinds: tuple[str, ...] = DETECTORS
    of_one: bool = True
    when: Callable[[OutputRecipe], bool] = always
    whole: bool = False
    unclipped: bool = False

    def apply(self, recipe: OutputRecipe) -> Iterator[tuple[str, OutputRecipe]]:
        """Yields the mistake in words and the recipe with it; for each output that it may be made with."""
        said = f"{self.family.replace('-', ' ')}: {self.said}"
        name = f"{self.family} {self.said}"
        if recipe.evidence.kind not in self.kinds or not self.when(recipe):
            return
        if self.unclipped:
            recipe = next(recipe.with_settings(clip=False), recipe)
        if self.stage in ("stored", "real"):
            make = with_stored if self.stage == "stored" else with_real
            for suffix, names in _list_groups(recipe):
                if not (self.whole and suffix):
                    yield f"{said}{suffix}", make(recipe, name, self.change, names)
        elif self.stage == "boxes":
            yield said, with_anchor_boxes(recipe, name, self.change)
        else:
            yield said, recipe.with_step(self.stage, Step(name, self.change, self.of_one))  # type: ignore[arg-type]


def _list_groups(recipe: OutputRecipe) -> Iterator[tuple[str, frozenset[str]]]:
    """Yields the outputs with which one step is made, with a text after the mistake: all together, and those with as many
    channels, which one piece of code reads; of arrays, the one that is explained."""
    evidence = recipe.evidence
    if evidence.kind == "arrays":
        yield "", frozenset({evidence.target})
        return
    yield "", frozenset(evidence.outputs)
    groups: dict[int, list[str]] = {}
    for name, output in evidence.outputs.items():
        shape = [d for d in output.values.shape if d > 1]
        groups.setdefault(min(shape, default=1) if len(shape) == 2 else shape[0] if shape else 1, []).append(name)
    for names in groups.values() if 1 < len(groups) <= MOST_APART else ():
        more = f" and {len(names) - 1} more with as many channels" if len(names) > 1 else ""
        yield f" (only {names[0]}{more})", frozenset(names)


@cache
def rows() -> tuple[Row, ...]:
    """Returns the rows of all tables."""
    return tuple(row for page in load_pages(__name__, ("ROWS",)) for row in page.ROWS)


def list_further(
    recipe: OutputRecipe, before: tuple[Mistake, ...] = (), apart: str = ""
) -> Iterator[Explanation[OutputRecipe]]:
    """Yields the recipe with one more mistake of the tables. before: mistakes of the recipe. apart: a family that is left
    out."""
    for row in rows():
        if row.family != apart:
            for said, changed in row.apply(recipe):
                yield Explanation((*before, Mistake(row.family, said)), changed)
