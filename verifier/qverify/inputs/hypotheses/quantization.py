"""The input's scale or zero point is left out, applied twice or the wrong way round."""

from __future__ import annotations

from collections.abc import Iterator

from qverify.inputs.recipe import Recipe

NAME = "quantization"


def variants(recipe: Recipe) -> Iterator[tuple[str, Recipe]]:
    wanted = recipe.wanted
    if wanted.quantize is None or wanted.dtype == "float32":
        return
    scale, zero = wanted.quantize
    mistakes = {
        "zero point left out": (scale, 0),
        "zero point added twice": (scale, 2 * zero),
        "zero point subtracted, not added": (scale, -zero),
        "scale left out": (1.0, zero),
        "multiplied by scale, not divided": (1 / scale, zero),
        "scale and zero point left out": (1.0, 0),
    }
    for cause, pair in mistakes.items():
        for variant in recipe.with_changes(quantize=pair):
            yield f"quantization: {cause}", variant
