"""The distributions of the distances (DFL) become distances in another way, or their channels lie in another order."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

import numpy as np

from qverify.outputs.recipe import Output, OutputRecipe
from qverify.outputs.steps import is_detector, with_stored

NAME = "distances"
FIX = "take the softmax over the reg_max bins of each side, then the sum of bin * probability; the bins of a side are neighbours"
SAID = {
    "none": "the softmax over the bins is missing",
    "softmax-twice": "the softmax over the bins is applied twice",
    "argmax": "the highest bin instead of the expected value",
    "sigmoid": "the sigmoid of the bins instead of their softmax",
}


def variants(recipe: OutputRecipe) -> Iterator[tuple[str, OutputRecipe]]:
    settings, outputs = recipe.settings, recipe.evidence.outputs
    wide = 4 * settings.reg_max
    has_bins = [name for name, o in outputs.items() if any(d >= wide for d in o.values.shape[1:])]
    if is_detector(recipe) and not settings.anchors and settings.reg_max > 1 and has_bins and settings.background < 0:
        for how, said in SAID.items():
            for variant in recipe.with_settings(dfl=how):
                yield f"distances: {said}", variant
        said = "distances: bins slowest, sides fastest"
        yield said, with_stored(recipe, said, partial(_turn_bins, bins=settings.reg_max), frozenset(has_bins))
        said = "distances: the classes are taken from the first channels, the bins from those after them"
        yield said, with_stored(recipe, said, partial(_turn_parts, wide=wide), frozenset(has_bins))


def _turn_parts(output: Output, wide: int) -> Output:
    """Returns the output with the channels after as many as there are classes first."""
    if output.values.ndim < 3 or output.values.shape[1] <= wide:
        return output
    return replace(output, values=np.roll(output.values, wide, axis=1))


def _turn_bins(output: Output, bins: int) -> Output:
    values = np.moveaxis(output.values, 1, 0) if output.values.ndim > 2 else output.values
    if values.shape[0] < 4 * bins:
        return output
    box = values[: 4 * bins].reshape(bins, 4, *values.shape[1:])
    turned = np.concatenate([box.swapaxes(0, 1).reshape(4 * bins, *values.shape[1:]), values[4 * bins :]])
    return replace(output, values=np.moveaxis(turned, 0, 1) if output.values.ndim > 2 else turned)
