"""Elements have another type, or are pixels instead of normalized values."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from qverify.inputs.formats import REAL
from qverify.inputs.recipe import Recipe, RecipeStep

NAME = "element-type"
TYPES = ("uint8", "int8", "int16", "int32", "float16", "float32", "float64")


def variants(recipe: Recipe) -> Iterator[tuple[str, Recipe]]:
    wanted = recipe.wanted
    own = wanted.dtype
    if wanted.format in REAL:
        pixels = "gray" if wanted.gray else "bgr" if wanted.train == "bgr" else "rgb"
        for variant in recipe.with_changes(format=pixels, mean=(0.0,), scale=(1.0,), quantize=None):
            yield f"element type: pixels as uint8 instead of {wanted.format}", variant
        for variant in recipe.with_changes(quantize=None) if own != "float32" else ():
            yield "element type: float32, not quantized", variant
        if wanted.format == "featuremap" and own != "float32":
            yield from recipe.vary_field("quantize_dtype", ("int8", "uint8"), "element type")
    for name in TYPES:
        if np.dtype(name).itemsize != np.dtype(own).itemsize:
            yield f"element type: {name} instead of {own}", recipe.with_step("bytes", _cast(own, name))


def _cast(own: str, other: str) -> RecipeStep:
    from_, to = (np.dtype(n).newbyteorder("<") for n in (own, other))

    def change(data: bytes, _: Recipe) -> bytes:
        if len(data) % from_.itemsize:
            return data
        return bytes(_within(np.frombuffer(data, from_), to).tobytes())

    return RecipeStep(f"{own} as {other}", change, lambda size: size // from_.itemsize * to.itemsize)


def _within(values: Any, to: np.dtype[Any]) -> Any:
    """Casts, clipping at the limits of a smaller integer type; fractions are dropped."""
    if to.kind == "f":
        with np.errstate(over="ignore"):
            return values.astype(to)
    limits = np.iinfo(to)
    return np.nan_to_num(values.astype(np.float64)).clip(limits.min, limits.max).astype(to)
