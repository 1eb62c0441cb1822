"""The bytes of an output are read as another type: int8 as uint8, or with the other byte order."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from qverify.outputs.recipe import Output, OutputRecipe
from qverify.outputs.steps import list_targets, with_real, with_stored

NAME = "element-type"
FIX = "read the output with the element type that the model states (int8 is not uint8)"


def variants(recipe: OutputRecipe) -> Iterator[tuple[str, OutputRecipe]]:
    for suffix, names in list_targets(recipe):
        outputs = [recipe.evidence.outputs[name].values for name in names]
        if all(v.dtype.kind in "iu" for v in outputs):
            for own in sorted({v.dtype.name for v in outputs}):
                other = own[1:] if own.startswith("u") else f"u{own}"
                yield f"element type: {own} read as {other}{suffix}", with_stored(recipe, "sign", _change_sign, names)
                break
        if all(v.dtype.itemsize > 1 for v in outputs):
            yield f"element type: bytes in the other order{suffix}", with_stored(recipe, "swap", _swap, names)
        if (not suffix or recipe.evidence.kind == "arrays") and all(
            v.dtype.kind == "f" or recipe.evidence.outputs[n].scale for n, v in zip(names, outputs, strict=True)
        ):
            said = f"precision: outputs in float16{suffix}"
            yield said, with_real(recipe, "float16", lambda v: v.astype(np.float16).astype(np.float64), names)
            said = f"precision: outputs in bfloat16 (cut){suffix}"
            yield said, with_real(recipe, "bfloat16 cut", lambda v: _cut(v, 0), names)
            said = f"precision: outputs in bfloat16 (rounded){suffix}"
            yield said, with_real(recipe, "bfloat16", lambda v: _cut(v, 0x7FFF), names)
            yield f"precision: outputs as whole numbers{suffix}", with_real(recipe, "whole", np.trunc, names)


def _change_sign(output: Output) -> Output:
    own = output.values.dtype
    if own.kind not in "iu":  # an earlier mistake made real values of them
        return output
    other = own.str[:1] + ("i" if own.kind == "u" else "u") + own.str[2:]
    return replace(output, values=np.ascontiguousarray(output.values).view(other))


def _swap(output: Output) -> Output:
    if output.scale and output.values.dtype.kind not in "iu":  # as above
        return output
    return replace(output, values=np.ascontiguousarray(output.values).byteswap())


def _cut(values: np.ndarray, add: int) -> np.ndarray:
    """Returns values as bfloat16 holds them: the upper half of float32, after `add` (and the last kept bit) is added."""
    bits = np.ascontiguousarray(values, np.float32).view(np.uint32)
    if add:
        bits = bits + np.uint32(add) + ((bits >> np.uint32(16)) & np.uint32(1))
    return (bits & np.uint32(0xFFFF0000)).view(np.float32).astype(np.float64)
