"""The zero point of an output is left out, added, or subtracted at the wrong place."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from qverify.outputs.recipe import Output, OutputRecipe
from qverify.outputs.steps import list_targets, with_stored

NAME = "zero-point"
FIX = "subtract the output's own zero point from the stored value before it is multiplied by the scale"


def variants(recipe: OutputRecipe) -> Iterator[tuple[str, OutputRecipe]]:
    outputs = recipe.evidence.outputs
    for suffix, names in list_targets(recipe):
        if any(not outputs[name].scale for name in names) or all(not any(outputs[name].zero) for name in names):
            continue
        for text, change in CHANGES.items():
            yield f"zero point: {text}{suffix}", with_stored(recipe, f"{NAME} {text}", change, names)


def _without(output: Output) -> Output:
    return replace(output, zero=tuple(0 for _ in output.zero))


def _added(output: Output) -> Output:
    return replace(output, zero=tuple(-z for z in output.zero))


def _after(output: Output) -> Output:
    """q * scale - zero."""
    return replace(output, values=_without(output).real(), scale=tuple(1.0 for _ in output.scale))


def _by_128(output: Output) -> Output:
    return replace(output, zero=tuple(z + 128 for z in output.zero))


def _by_minus_128(output: Output) -> Output:
    return replace(output, zero=tuple(z - 128 for z in output.zero))


CHANGES: dict[str, Callable[[Output], Output]] = {
    "left out": _without,
    "added, not subtracted": _added,
    "subtracted after the scale": _after,
    "too large by 128 (of uint8 for int8)": _by_128,
    "too small by 128 (of int8 for uint8)": _by_minus_128,
}
