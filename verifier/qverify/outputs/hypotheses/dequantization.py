"""The scale of an output is left out, applied twice, or the wrong way round."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np

from qverify.outputs.recipe import Output, OutputRecipe
from qverify.outputs.steps import list_targets, with_stored

NAME = "dequantization"
FIX = "compute (q - zero_point) * scale once, with the scale of this very output"


def variants(recipe: OutputRecipe) -> Iterator[tuple[str, OutputRecipe]]:
    outputs = recipe.evidence.outputs
    for suffix, names in list_targets(recipe):
        if any(not outputs[name].scale for name in names):
            continue
        for text, change in CHANGES.items():
            yield f"dequantization: {text}{suffix}", with_stored(recipe, f"{NAME} {text}", change, names)
        if any(len(outputs[name].scale) > 1 for name in names):
            said = "dequantization: the first channel's scale for all channels"
            yield f"{said}{suffix}", with_stored(recipe, said, _first, names)


def _plain(output: Output) -> Output:
    return Output(output.values.astype(np.float64))


def _without_scale(output: Output) -> Output:
    return replace(output, scale=tuple(1.0 for _ in output.scale))


def _twice(output: Output) -> Output:
    return replace(output, values=output.real())


def _divided(output: Output) -> Output:
    return replace(output, scale=tuple(1.0 / s for s in output.scale))


def _by_range(output: Output) -> Output:
    """(q - least) / range of an integer type."""
    if output.values.dtype.kind not in "iu":
        return output
    kind = np.iinfo(output.values.dtype)
    return Output((output.values.astype(np.float64) - kind.min) / (kind.max - kind.min))


def _first(output: Output) -> Output:
    return replace(output, scale=output.scale[:1], zero=output.zero[:1])


CHANGES: dict[str, Callable[[Output], Output]] = {
    "left out": _plain,
    "scale left out": _without_scale,
    "applied twice": _twice,
    "divided by the scale": _divided,
    "the whole range taken as 0 to 1": _by_range,
}
