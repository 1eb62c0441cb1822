"""The capture ends early, or goes on behind the buffer."""

from __future__ import annotations

from collections.abc import Iterator

from qverify.inputs.recipe import Recipe, RecipeStep
from qverify.inputs.reproduction import size_bytes

NAME = "length"
FIX = "capture the whole buffer"


def variants(recipe: Recipe) -> Iterator[tuple[str, Recipe]]:
    """At least half of the buffer: less would be no evidence."""
    made, seen = size_bytes(recipe), recipe.evidence.size_bytes
    if made // 2 <= seen < made:
        step = RecipeStep(f"cut after {seen} bytes", lambda data, _: data[:seen], lambda size: min(size, seen))
        yield f"length: the last {made - seen} bytes are missing", recipe.with_step("bytes", step)
    elif made < seen <= 2 * made:
        step = RecipeStep(
            f"zeros to {seen} bytes", lambda data, _: data.ljust(seen, b"\0"), lambda size: max(size, seen)
        )
        yield f"length: {seen - made} zero bytes behind the buffer", recipe.with_step("bytes", step)
