"""Rows, channels or blocks of channels of an output are padded in memory, and the padding is read as values."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from qverify.outputs.recipe import Output, OutputRecipe
from qverify.outputs.steps import list_targets, with_stored

Array = npt.NDArray[Any]
NAME = "padding"
FIX = "skip the padding: read each row with the stride, and the layout, that the runtime states for the output"
MULTIPLES = (4, 8, 16, 32, 64, 128)  # elements
MOST_APART = 4  # outputs of which one alone may be padded
BLOCKS = (4, 8, 16, 32, 64)  # channels of NC1HWC2


def variants(recipe: OutputRecipe) -> Iterator[tuple[str, OutputRecipe]]:
    outputs = recipe.evidence.outputs
    for suffix, names in list_targets(recipe):
        if suffix and len(outputs) > MOST_APART:
            continue
        shapes = [outputs[name].values.shape for name in names]
        for fill in ("zeros", "the zero point") if any(any(outputs[n].zero) for n in names) else ("zeros",):
            for kept in (False, True) if recipe.evidence.kind == "arrays" else (False,):
                yield from _rows(recipe, names, shapes, fill, kept, suffix)
                yield from _channels(recipe, names, shapes, fill, kept, suffix)


def _rows(recipe: OutputRecipe, names: frozenset[str], shapes: Any, fill: str, kept: bool, suffix: str) -> Any:
    seen: set[Any] = set()
    for multiple in MULTIPLES:
        if recipe.stored:  # outputs may be exchanged
            shapes = [o.values.shape for o in recipe.evidence.outputs.values()]
        padded = tuple(_up(s[-1], multiple) for s in shapes if s)
        if len(padded) != len(shapes) or padded in seen or padded == tuple(s[-1] for s in shapes):
            continue
        seen.add(padded)
        how = "kept" if kept else "read as values"
        said = f"padding: rows in multiples of {multiple} elements ({fill}), {how}{suffix}"
        yield said, with_stored(recipe, said, partial(_misread, multiple=multiple, fill=fill, kept=kept), names)


def _channels(recipe: OutputRecipe, names: frozenset[str], shapes: Any, fill: str, kept: bool, suffix: str) -> Any:
    if any(len(s) != 4 or s[0] != 1 for s in shapes):
        return
    how = "kept" if kept else "read as values"
    seen: set[Any] = set()
    for multiple in MULTIPLES:
        padded = tuple(_up(s[1], multiple) for s in shapes)
        if padded not in seen and padded != tuple(s[1] for s in shapes):
            seen.add(padded)
            for native in ("NHWC", "NCHW"):
                said = f"padding: channels in multiples of {multiple} ({fill}), {native}, {how}{suffix}"
                change = partial(_misread_channels, multiple=multiple, fill=fill, native=native, kept=kept)
                yield said, with_stored(recipe, said, change, names)
    for block in BLOCKS:
        said = f"padding: blocks of {block} channels (NC1HWC2, {fill}), {how}{suffix}"
        yield said, with_stored(recipe, said, partial(_misread_blocks, block=block, fill=fill, kept=kept), names)


def _up(value: int, multiple: int) -> int:
    return -(-value // multiple) * multiple


def _fill(output: Output, fill: str) -> int:
    least = np.iinfo(output.values.dtype).min if output.values.dtype.kind in "iu" else -np.inf
    return 0 if fill == "zeros" or not output.zero or output.zero[0] < least else output.zero[0]


def _take(output: Output, stored: Array, kept: bool) -> Output:
    """Returns the stored elements as they are, or as many of them as the output has, in its shape."""
    if kept:
        return replace(output, values=stored)
    return replace(output, values=stored.reshape(-1)[: output.values.size].reshape(output.values.shape))


def _misread(output: Output, multiple: int, fill: str, kept: bool) -> Output:
    values = output.values
    away = _up(values.shape[-1], multiple) - values.shape[-1]
    pads = [(0, 0)] * (values.ndim - 1) + [(0, away)]
    return _take(output, np.pad(values, pads, constant_values=_fill(output, fill)), kept)


def _pad_channels(output: Output, multiple: int, fill: str) -> Array:
    values = output.values
    away = _up(values.shape[1], multiple) - values.shape[1]
    return np.pad(values, [(0, 0), (0, away), (0, 0), (0, 0)], constant_values=_fill(output, fill))


def _misread_channels(output: Output, multiple: int, fill: str, native: str, kept: bool) -> Output:
    padded = _pad_channels(output, multiple, fill)
    stored = np.ascontiguousarray(padded.transpose(0, 2, 3, 1)) if native == "NHWC" else padded
    return _take(output, stored, kept)


def _misread_blocks(output: Output, block: int, fill: str, kept: bool) -> Output:
    padded = _pad_channels(output, block, fill)
    _, channels, high, wide = padded.shape
    stored = padded.reshape(channels // block, block, high, wide).transpose(0, 2, 3, 1)
    return _take(output, np.ascontiguousarray(stored), kept)
