"""Mean and scale are left out, applied twice, in another order, or to pixels of another range."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from qverify.inputs.formats import REAL
from qverify.inputs.recipe import Recipe, RecipeStep

NAME = "normalization"
FIX = "normalize once: on the host or in the chip"
USUAL = {
    "x / 255": ((0.0,), (1 / 255,)),
    "(x - 127.5) / 127.5": ((127.5,), (1 / 127.5,)),
    "(x - 128) / 128": ((128.0,), (1 / 128,)),
    "ImageNet's mean and deviation": ((123.675, 116.28, 103.53), (1 / 58.395, 1 / 57.12, 1 / 57.375)),
}


def variants(recipe: Recipe) -> Iterator[tuple[str, Recipe]]:
    if recipe.wanted.format not in REAL:
        yield from _on_bytes(recipe)
        return
    moved, scaled = any(recipe.wanted.mean), {*recipe.wanted.scale} != {1.0}
    if moved:
        yield from _mean_mistakes(recipe)
    if scaled:
        yield from _scale_mistakes(recipe)
    if moved and scaled:
        yield from _combined_mistakes(recipe)
    cause = "normalization: pixels divided by 255 before mean and scale"
    yield cause, recipe.with_step("fitted", RecipeStep("pixels / 255", _by_255))
    for name, (mean, scale) in USUAL.items():
        for variant in recipe.with_changes(mean=mean, scale=scale):
            yield f"normalization: {name} instead of the described one", variant


def _mean_mistakes(recipe: Recipe) -> Iterator[tuple[str, Recipe]]:
    mean = recipe.wanted.mean
    for cause, changed in (
        ("mean not subtracted", (0.0,)),
        ("mean added, not subtracted", tuple(-m for m in mean)),
        ("mean of 0..1 subtracted from pixels of 0..255", tuple(m / 255 for m in mean)),
        ("the first channel's mean for all", mean[:1]),
    ):
        for variant in recipe.with_changes(mean=changed):
            if len({*mean}) > 1 or changed != mean[:1]:
                yield f"normalization: {cause}", variant
    yield "normalization: mean subtracted twice", recipe.with_step("fitted", RecipeStep("pixels - mean", _less_mean))


def _scale_mistakes(recipe: Recipe) -> Iterator[tuple[str, Recipe]]:
    scale = recipe.wanted.scale
    for cause, changed in (
        ("scale not applied", (1.0,)),
        ("scale 255 times as large", tuple(s * 255 for s in scale)),
        ("the first channel's scale for all", scale[:1]),
    ):
        for variant in recipe.with_changes(scale=changed):
            if len({*scale}) > 1 or changed != scale[:1]:
                yield f"normalization: {cause}", variant
    yield "normalization: scale applied twice", recipe.with_step("normalized", RecipeStep("x * scale", _times_scale))
    for variant in recipe.with_changes(scale=(1.0,)):
        step = RecipeStep(f"x / {scale}", lambda x, _: x / np.array(scale, np.float32))
        yield "normalization: divided by scale, not multiplied", variant.with_step("normalized", step)


def _combined_mistakes(recipe: Recipe) -> Iterator[tuple[str, Recipe]]:
    mean = recipe.wanted.mean
    for variant in recipe.with_changes(mean=(0.0,), scale=(1.0,)):
        yield "normalization: left out", variant
    yield "normalization: mean and scale applied twice", recipe.with_step("normalized", RecipeStep("again", _again))
    for variant in recipe.with_changes(mean=(0.0,)):
        step = RecipeStep(f"x - {mean}", lambda x, _: x - np.array(mean, np.float32))
        yield "normalization: scale first, then mean", variant.with_step("normalized", step)


def _on_bytes(recipe: Recipe) -> Iterator[tuple[str, Recipe]]:
    """Formats that the chip normalizes."""
    cause = "normalization: pixels divided by 255, then stored as whole bytes"
    yield cause, recipe.with_step("fitted", RecipeStep("pixels / 255", lambda x, _: _byte(np.trunc(_by_255(x, _)))))
    if any(recipe.wanted.mean) or {*recipe.wanted.scale} != {1.0}:
        cause = "normalization: by the host as well, then stored as whole bytes"
        step = RecipeStep(
            "(pixels - mean) * scale", lambda x, r: _byte(_less_mean(x, r) * _pixel_order(r.wanted.scale, r))
        )
        yield cause, recipe.with_step("fitted", step)


def _byte(x: Any) -> Any:
    return np.rint(x).clip(0, 255).astype(np.uint8)


def _pixel_order(values: tuple[float, ...], recipe: Recipe) -> Any:
    """Returns the values in the order of the pixels, which are RGB until they are normalized; of four channels, the
    colours."""
    ordered = np.array(values, np.float32)[:3]
    return ordered[::-1] if recipe.wanted.train == "bgr" else ordered


def _by_255(pixels: Any, _: Recipe) -> Any:
    return pixels.astype(np.float32) / np.float32(255)


def _less_mean(pixels: Any, recipe: Recipe) -> Any:
    return pixels.astype(np.float32) - _pixel_order(recipe.wanted.mean, recipe)


def _times_scale(x: Any, recipe: Recipe) -> Any:
    return x * np.array(recipe.wanted.scale, np.float32)


def _again(x: Any, recipe: Recipe) -> Any:
    return _times_scale(x - np.array(recipe.wanted.mean, np.float32), recipe)
