"""128 is subtracted twice, not at all, or where it should not be."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from qverify.inputs.formats import REAL, SIGNED, YUV420
from qverify.inputs.recipe import Recipe, RecipeStep

NAME = "offset-128"
FIX = "subtract 128 in one place only: on the host, or in the chip"


def variants(recipe: Recipe) -> Iterator[tuple[str, Recipe]]:
    format_ = recipe.wanted.format
    if recipe.evidence.undescribed_bytes is not None:
        yield "-128: subtracted from every byte, or added", recipe.with_step("bytes", RecipeStep("bytes - 128", _whole))
    elif format_ in REAL:
        cause = "-128: subtracted from the pixels before mean and scale"
        yield cause, recipe.with_step("fitted", RecipeStep("pixels - 128", _pixels))
    elif format_ in SIGNED:
        for variant in recipe.with_changes(format=format_.removesuffix("_128")):
            yield f"-128: not subtracted, or twice with wrap-around ({format_})", variant
        cause = f"-128: subtracted twice, kept within -128..127 ({format_})"
        yield cause, recipe.with_step("elements", RecipeStep("-128 within the limits", _kept))
    else:
        yield from _unsigned(recipe)


def _unsigned(recipe: Recipe) -> Iterator[tuple[str, Recipe]]:
    format_ = recipe.wanted.format
    cause = f"-128: subtracted, though the format is {format_}"
    if f"{format_}_128" in SIGNED:
        for variant in recipe.with_changes(format=f"{format_}_128"):
            yield cause, variant
    else:
        yield (
            cause,
            recipe.with_step("elements", RecipeStep("-128 wrapped", lambda v, _: [x ^ np.uint8(128) for x in v])),
        )
    yield f"{cause}, negative values as 0", recipe.with_step("elements", RecipeStep("-128 within the limits", _kept))
    if format_ in YUV420 or format_ == "yuv444":
        yield "-128: chroma without its 128", recipe.with_step("elements", RecipeStep("chroma - 128", _chroma))


def _kept(values: Any, _: Recipe) -> Any:
    limits = np.iinfo(values[0].dtype)
    return [(v.astype(np.int32) - 128).clip(limits.min, limits.max).astype(v.dtype) for v in values]


def _pixels(pixels: Any, _: Recipe) -> Any:
    return pixels.astype(np.float32) - np.float32(128)


def _chroma(values: Any, _: Recipe) -> Any:
    if len(values) == 3:
        return [values[0], *(v ^ np.uint8(128) for v in values[1:])]
    return [values[0] ^ np.array([0, 128, 128], np.uint8)]


def _whole(data: bytes, _: Recipe) -> bytes:
    return (np.frombuffer(data, np.uint8) ^ np.uint8(128)).tobytes()
