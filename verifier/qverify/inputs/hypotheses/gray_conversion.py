"""A colour picture is made gray by other weights."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np

from qverify.extras import import_extra
from qverify.inputs.picture import convert_to_gray
from qverify.inputs.recipe import Recipe, RecipeStep

NAME = "gray-conversion"


def variants(recipe: Recipe) -> Iterator[tuple[str, Recipe]]:
    if recipe.evidence.rgb is None:
        return
    for name, way in WAYS.items():
        yield (
            f"gray conversion: {name}",
            recipe.with_step("picture", RecipeStep(f"gray by {name}", partial(_gray, way=way))),
        )


def _gray(_: Any, recipe: Recipe, way: Callable[[Any], Any]) -> Any:
    return way(recipe.evidence.rgb)[..., None]


def _by_opencv(rgb: Any) -> Any:
    cv2 = import_extra("cv2", "gray conversion by OpenCV")
    return np.asarray(cv2.cvtColor(rgb, cv2.COLOR_RGB2GRAY))


def _mean(rgb: Any) -> Any:
    return np.rint(rgb.mean(axis=-1)).astype(np.uint8)


WAYS: dict[str, Callable[[Any], Any]] = {
    "OpenCV's rounding instead of Pillow's": _by_opencv,
    "red and blue exchanged": lambda rgb: convert_to_gray(rgb[..., ::-1]),
    "red and blue exchanged, OpenCV's rounding": lambda rgb: _by_opencv(rgb[..., ::-1]),
    "green alone": lambda rgb: rgb[..., 1],
    "the mean of red, green and blue": _mean,
}
