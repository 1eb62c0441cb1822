"""U and V are exchanged, or interleaved where they should be planes of their own."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from qverify.inputs.formats import YUV420
from qverify.inputs.recipe import Recipe, RecipeStep

NAME = "chroma-order"
FIX = "exchange U and V"


def variants(recipe: Recipe) -> Iterator[tuple[str, Recipe]]:
    format_ = recipe.wanted.format
    if format_ in YUV420:
        yield from recipe.vary_field("format", YUV420, "chroma order")
        planar = [recipe] if format_ == "i420" else recipe.with_changes(format="i420")
        for variant in planar:
            yield (
                f"chroma order: yv12 instead of {format_}",
                variant.with_step("elements", RecipeStep("V before U", _planes)),
            )
    elif format_.startswith("yuv444"):
        cause = f"chroma order: {format_.replace('yuv', 'yvu')} instead of {format_}"
        yield cause, recipe.with_step("elements", RecipeStep("V before U", _channels))


def _planes(values: Any, _: Recipe) -> Any:
    y, u, v = values
    return [y, v, u]


def _channels(values: Any, _: Recipe) -> Any:
    return [values[0][..., [0, 2, 1]]]
