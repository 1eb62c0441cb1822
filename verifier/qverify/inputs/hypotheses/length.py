"""The capture ends early, or continues beyond the buffer."""

from __future__ import annotations

from collections.abc import Iterator

from qverify.inputs.recipe import Recipe, RecipeStep
from qverify.inputs.reproduction import compute_size

NAME = "length"
FIX = "capture the whole buffer"


def variants(recipe: Recipe) -> Iterator[tuple[str, Recipe]]:
    """Yields a truncated or extended buffer, if the capture is at least half and at most twice as large as the buffer.
    Any other size would be no evidence."""
    made_bytes, captured = compute_size(recipe), recipe.evidence.size_bytes
    if made_bytes // 2 <= captured < made_bytes:
        step = RecipeStep(
            f"cut after {captured} bytes", lambda data, _: data[:captured], lambda size: min(size, captured)
        )
        yield f"length: the last {made_bytes - captured} bytes are missing", recipe.with_step("bytes", step)
    elif made_bytes < captured <= 2 * made_bytes:
        step = RecipeStep(
            f"zeros to {captured} bytes", lambda data, _: data.ljust(captured, b"\0"), lambda size: max(size, captured)
        )
        yield f"length: {captured - made_bytes} zero bytes behind the buffer", recipe.with_step("bytes", step)
