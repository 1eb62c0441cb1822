"""Padding that should be zero contains other values."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np

from qverify.inputs import buffers
from qverify.inputs.recipe import Recipe, RecipeStep

NAME = "padding"
FIX = "fill the padding with zero"


def variants(recipe: Recipe) -> Iterator[tuple[str, Recipe]]:
    if all(p.shape == p.aligned_shape for p in recipe.wanted.planes):
        return
    step = RecipeStep("last column and row repeated", _repeated)
    yield "padding: the last column and row repeated instead of zero", recipe.with_step("bytes", step)
    for value in (16, 114, 127, 128, 255):
        step = RecipeStep(f"padding {value}", partial(_filled, value=value))
        yield f"padding: bytes {value} instead of zero", recipe.with_step("bytes", step)


def _repeated(data: bytes, recipe: Recipe) -> bytes:
    if len(data) != recipe.wanted.size_bytes:  # another mistake changed it before
        return data
    whole = bytearray(data)
    for plane, values in zip(recipe.wanted.planes, buffers.unpack(data, recipe.wanted), strict=True):
        sides = [(0, full - n) for n, full in zip(plane.shape, plane.aligned_shape, strict=True)]
        whole[plane.offset : plane.offset + plane.size_bytes] = np.pad(values, sides, "edge").tobytes()
    return bytes(whole)


def _filled(data: bytes, recipe: Recipe, value: int) -> bytes:
    if len(data) != recipe.wanted.size_bytes:
        return data
    whole = bytearray([value]) * len(data)
    for plane, values in zip(recipe.wanted.planes, buffers.unpack(data, recipe.wanted), strict=True):
        item = np.dtype(plane.dtype).itemsize
        stored = np.full((*plane.aligned_shape, item), value, np.uint8)
        valid = np.ascontiguousarray(values).view(np.uint8).reshape(*plane.shape, item)
        stored[tuple(slice(0, n) for n in plane.shape)] = valid
        whole[plane.offset : plane.offset + plane.size_bytes] = stored.tobytes()
    return bytes(whole)
