"""Red and blue are exchanged, or alpha comes first."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from qverify.inputs.description import Description
from qverify.inputs.formats import REAL
from qverify.inputs.recipe import Recipe, RecipeStep

NAME = "channel-order"
FIX = "give the conversion the order it expects; OpenCV decodes to BGR"
OTHER = {"rgb": "bgr", "bgr": "rgb", "rgba": "bgra", "bgra": "rgba", "rgb_128": "bgr_128", "bgr_128": "rgb_128"}


def variants(recipe: Recipe) -> Iterator[tuple[str, Recipe]]:
    wanted, undescribed = recipe.wanted, recipe.evidence.undescribed_bytes
    if undescribed is not None and undescribed % 3 == 0:
        cause = "channel order: every three bytes reversed (rgb and bgr)"
        yield cause, recipe.with_step("bytes", RecipeStep("every three bytes reversed", _threes))
    if wanted.gray:
        return
    if wanted.format in OTHER:
        yield from recipe.vary_field("format", [OTHER[wanted.format]], "channel order")
    if wanted.format in ("rgba", "bgra"):
        cause = f"channel order: a{wanted.format[:3]} instead of {wanted.format}"
        yield cause, recipe.with_step("elements", RecipeStep("alpha first", _alpha_first))
    if wanted.format in REAL:
        yield from _float_mistakes(recipe)
    elif wanted.format not in OTHER:
        cause = "channel order: red and blue exchanged before YUV"
        yield cause, recipe.with_step("fitted", RecipeStep("red and blue exchanged", _exchanged))


def _float_mistakes(recipe: Recipe) -> Iterator[tuple[str, Recipe]]:
    own = "bgr" if recipe.wanted.train == "bgr" else "rgb"
    other = own[::-1]
    yield (
        f"channel order: pixels {other} instead of {own}",
        recipe.with_step("fitted", RecipeStep("red and blue exchanged", _exchanged)),
    )
    if _differs(recipe.wanted):
        back = replace(recipe.wanted, mean=recipe.wanted.mean[::-1], scale=recipe.wanted.scale[::-1])
        yield f"channel order: mean and scale in {other} order, pixels in {own}", replace(recipe, wanted=back)
        yield (
            f"channel order: {other} instead of {own}, each with its own mean and scale",
            recipe.with_step("normalized", RecipeStep("channels reversed", _exchanged)),
        )


def _differs(wanted: Description) -> bool:
    return len({*wanted.mean}) > 1 or len({*wanted.scale}) > 1


def _exchanged(pixels: Any, _: Recipe) -> Any:
    return np.ascontiguousarray(pixels[..., ::-1])


def _alpha_first(values: Any, _: Recipe) -> Any:
    return [np.roll(values[0], 1, axis=-1)]


def _threes(data: bytes, _: Recipe) -> bytes:
    return np.frombuffer(data, np.uint8).reshape(-1, 3)[:, ::-1].tobytes() if len(data) % 3 == 0 else data
