"""The scale or the zero point of another output is used."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from qverify.outputs.recipe import OutputRecipe, Outputs, Step
from qverify.outputs.steps import MOST_APART, with_stored

NAME = "other-scale"
FIX = "take scale and zero point of each output from its own description, by its name"


def variants(recipe: OutputRecipe) -> Iterator[tuple[str, OutputRecipe]]:
    outputs, target = recipe.evidence.outputs, recipe.evidence.target
    quantized = [name for name, output in outputs.items() if len(output.scale) == 1]
    for other in quantized if len(quantized) > 2 and not target else ():
        for what, keys in WHAT.items():
            said = f"other scale: {what} of {other} for every output"
            yield said, recipe.with_step("stored", Step(said, _for_all(other, keys)))
    if not target and len(quantized) > MOST_APART:
        return
    for name in [target] if target in quantized else [] if target else quantized:
        for other in quantized:
            yield from _of_another(recipe, name, other)


WHAT = {"scale and zero point": ("scale", "zero"), "scale": ("scale",), "zero point": ("zero",)}


def _of_another(recipe: OutputRecipe, name: str, other: str) -> Iterator[tuple[str, OutputRecipe]]:
    own, wrong = recipe.evidence.outputs[name], recipe.evidence.outputs[other]
    for what, keys in WHAT.items():
        changes: dict[str, Any] = {key: getattr(wrong, key) for key in keys}
        if any(getattr(own, key) == value for key, value in changes.items()):
            continue  # the same as a part of it
        said = f"other scale: {what} of {other} for {name}"
        yield said, with_stored(recipe, said, lambda o, c=changes: replace(o, **c), frozenset({name}))  # type: ignore[misc]


def _for_all(other: str, keys: tuple[str, ...]) -> Any:
    def apply(values: Outputs, _: OutputRecipe) -> Outputs:
        changes: dict[str, Any] = {key: getattr(values[other], key) for key in keys}
        return {n: replace(o, **changes) if o.scale else o for n, o in values.items()}

    return apply
