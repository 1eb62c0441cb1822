"""The buffer begins some bytes too late or too early."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from qverify.inputs.recipe import Recipe, RecipeStep
from qverify.plural import count

NAME = "byte-offset"
FIX = "check where the buffer begins: a header, a wrong base address"


def variants(recipe: Recipe) -> Iterator[tuple[str, Recipe]]:
    (*_, row, _), item = _strides(recipe), _strides(recipe)[-1]
    whole = recipe.wanted.size_bytes
    for by in sorted({1, 2, 4, item, row, 64}):
        for sign in (1, -1) if by < whole else ():
            for wrapped in (False, True):
                way = f"{count(by, 'byte')} too {'late' if sign > 0 else 'early'}"
                end = "wrapped around" if wrapped else "zero filled"
                step = RecipeStep(f"{way}, {end}", partial(_moved, by=by * sign, wrapped=wrapped))
                yield f"byte offset: {way}, {end}", recipe.with_step("bytes", step)


def _strides(recipe: Recipe) -> tuple[int, ...]:
    """Returns the strides of a row and of an element, in bytes."""
    strides = recipe.wanted.planes[0].strides_bytes
    return (strides[-2] if len(strides) == 2 or recipe.wanted.layout == "NCHW" else strides[0]), strides[-1]


def _moved(data: bytes, _: Recipe, by: int, wrapped: bool) -> bytes:
    size = len(data)
    if wrapped:
        return data[-by % size :] + data[: -by % size]
    return (bytes(by) + data)[:size] if by > 0 else data[-by:] + bytes(-by)
