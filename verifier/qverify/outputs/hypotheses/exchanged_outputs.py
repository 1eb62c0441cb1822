"""An output is taken for another one."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import combinations
from typing import Any

from qverify.outputs.recipe import Output, OutputRecipe, Outputs, Step

NAME = "exchanged-outputs"
FIX = "take outputs by their names, not by their places: compilers reorder them"
MOST_OUTPUTS = 16


def variants(recipe: OutputRecipe) -> Iterator[tuple[str, OutputRecipe]]:
    outputs, target = recipe.evidence.outputs, recipe.evidence.target
    if not 1 < len(outputs) <= MOST_OUTPUTS:
        return
    for one, other in combinations(outputs, 2):
        first, second = outputs[one], outputs[other]
        if (target and target not in (one, other)) or (not target and first.values.size != second.values.size):
            continue
        same = (first.scale, first.zero) == (second.scale, second.zero)
        if same or not first.scale or not second.scale:
            yield f"outputs: {one} and {other} exchanged", _with(recipe, one, other, False)
            continue
        yield f"outputs: {one} and {other} exchanged, each with its own scale", _with(recipe, one, other, False)
        yield f"outputs: {one} and {other} exchanged, with the scale of the place", _with(recipe, one, other, True)


def _with(recipe: OutputRecipe, one: str, other: str, values_only: bool) -> OutputRecipe:
    def apply(values: Outputs, _: OutputRecipe) -> Outputs:
        return {**values, one: put(values[other], values[one]), other: put(values[one], values[other])}

    def put(moved: Output, place: Output) -> Output:
        """Returns an output at the place of another one, in its shape if it has as many elements."""
        fits = moved.values.size == place.values.size
        changes: dict[str, Any] = {"values": moved.values.reshape(place.values.shape) if fits else moved.values}
        return replace(place if values_only else moved, **changes)

    return recipe.with_step("stored", Step(f"{one} {other} {values_only}", apply))
