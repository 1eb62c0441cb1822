"""The bytes of every element, or of every word, are in the reverse order."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from qverify.inputs.recipe import Recipe, RecipeStep

NAME = "endianness"
FIX = "write elements little-endian"


def variants(recipe: Recipe) -> Iterator[tuple[str, Recipe]]:
    item = np.dtype(recipe.wanted.dtype).itemsize
    for size in (2, 4):
        if recipe.evidence.size_bytes % size == 0:
            step = RecipeStep(f"{size} bytes reversed", _reversing(size), undo=_reversing(size))
            name = "big-endian elements" if size == item else f"the bytes of every {size * 8}-bit word reversed"
            yield f"endianness: {name}", recipe.with_step("bytes", step)


class _reversing:
    def __init__(self, size: int) -> None:
        self.size = size

    def __call__(self, data: bytes, _: Recipe) -> bytes:
        whole = len(data) // self.size * self.size
        return np.frombuffer(data[:whole], f"<u{self.size}").byteswap().tobytes() + data[whole:]
