"""The dimensions of an output lie in another order than they are read in."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from itertools import permutations
from typing import Any

import numpy as np
import numpy.typing as npt

from qverify.outputs.recipe import Output, OutputRecipe
from qverify.outputs.steps import list_targets, with_stored

Array = npt.NDArray[Any]
NAME = "layout"
FIX = "read the output with the shape and the order of dimensions that the runtime states for it (NCHW or NHWC)"
MOST_AXES = 4


def variants(recipe: OutputRecipe) -> Iterator[tuple[str, OutputRecipe]]:
    yield from _list_channels(recipe)
    for suffix, names in list_targets(recipe):
        shapes = {recipe.evidence.outputs[name].values.shape for name in names}
        ranks = {len(_long(shape)) for shape in shapes}
        if len(ranks) != 1 or not 2 <= max(ranks) <= MOST_AXES:
            continue
        (rank,) = ranks
        whole = recipe.evidence.kind == "arrays" or not suffix
        for order in list(permutations(range(rank)))[1:]:
            if not whole and rank == 3 and order not in ((1, 2, 0), (0, 2, 1)):
                continue
            stored, read = _name(rank, tuple(range(rank))), _name(rank, order)
            said = f"layout: {read} in memory, read as {stored}{suffix}"
            yield said, with_stored(recipe, f"order {order}", partial(_reorder, order=order), names)
            said = f"layout: {stored} in memory, read as {read}{suffix}"
            yield said, with_stored(recipe, f"read {order}", partial(_misread, order=order), names)
            if recipe.evidence.kind != "arrays" and all(_keeps(s, order) for s in shapes) and order != (1, 2, 0):
                said = f"axes: {'rows and columns exchanged' if order == (0, 2, 1) else read}{suffix}"
                yield said, with_stored(recipe, f"axes {order}", partial(_transpose, order=order), names)
        if rank == 3 and whole:
            for axis, side in ((1, "top to bottom"), (2, "left to right")):
                said = f"axes: flipped {side}{suffix}"
                yield said, with_stored(recipe, f"flip {axis}", partial(_flip, axis=axis), names)


def _list_channels(recipe: OutputRecipe) -> Iterator[tuple[str, OutputRecipe]]:
    """Yields the channels of heads with anchors in the other order."""
    outputs = recipe.evidence.outputs
    each = len(recipe.settings.anchors[0]) // 2 if recipe.settings.anchors else 0
    if each and recipe.evidence.kind in ("boxes", "decoded") and all(o.values.ndim == 4 for o in outputs.values()):
        said = "layout: channels slowest, anchors fastest"
        yield said, with_stored(recipe, said, partial(_turn_anchors, each=each), frozenset(outputs))


def _long(shape: tuple[int, ...]) -> list[int]:
    return [d for d in shape if d > 1]


def _name(rank: int, order: tuple[int, ...]) -> str:
    """Returns the axes in an order, as letters: those of an output of three axes are channels, rows and columns."""
    letters = {2: "AB", 3: "CHW", 4: "ABCD"}[rank]
    return ("N" if rank == 3 else "") + "".join(letters[at] for at in order)


def _keeps(shape: tuple[int, ...], order: tuple[int, ...]) -> bool:
    long = _long(shape)
    return [long[at] for at in order] == long


def _reorder(output: Output, order: tuple[int, ...]) -> Output:
    """Returns the values in the memory order of the transposed array, in the shape of the original."""
    values = output.values
    return replace(output, values=values.reshape(_long(values.shape)).transpose(order).reshape(values.shape))


def _misread(output: Output, order: tuple[int, ...]) -> Output:
    """Returns the memory read in the shape of the transposed array, and transposed back."""
    values = output.values
    long = _long(values.shape)
    read = values.reshape([long[at] for at in order]).transpose(np.argsort(order))
    return replace(output, values=np.ascontiguousarray(read).reshape(values.shape))


def _transpose(output: Output, order: tuple[int, ...]) -> Output:
    values = output.values
    return replace(
        output, values=np.ascontiguousarray(values.reshape(_long(values.shape)).transpose(order)).reshape(values.shape)
    )


def _flip(output: Output, axis: int) -> Output:
    values = output.values
    return replace(output, values=np.flip(values.reshape(_long(values.shape)), axis).reshape(values.shape))


def _turn_anchors(output: Output, each: int) -> Output:
    values = output.values
    if values.shape[1] % each:
        return output
    apart = values.reshape(values.shape[0], -1, each, *values.shape[2:])
    return replace(output, values=np.ascontiguousarray(apart.swapaxes(1, 2)).reshape(values.shape))
