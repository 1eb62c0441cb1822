"""Rows, planes or the buffer are padded to another multiple, or not at all."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from qverify.inputs import buffers
from qverify.inputs.description import Description
from qverify.inputs.recipe import Recipe, RecipeStep

NAME = "alignment"
MULTIPLES = {
    "width_align": (1, 2, 4, 8, 16, 32, 64, 128, 256),
    "height_align": (1, 2, 4, 8, 16, 32, 64),
    "innermost_align": (1, 4, 8, 16, 32),
    "buffer_align": (1, 16, 32, 64, 128, 256, 512, 1024, 4096),
}
NONE = {"stride": 0, **dict.fromkeys(MULTIPLES, 1)}


def variants(recipe: Recipe) -> Iterator[tuple[str, Recipe]]:
    """Yields alignments that change a plane or the size. Some of them may have the same result."""
    own = _shape(recipe.wanted)
    for cause, changes in _changes():
        for changed in recipe.with_changes(**changes):
            if _shape(changed.wanted) != own:
                yield f"alignment: {cause}", changed
    yield from _by_size(recipe)
    if _bare_bytes(recipe) < recipe.wanted.size_bytes:
        yield "alignment: rows without their stride, the rest at the end", recipe.with_step("bytes", _ROWS_TOGETHER)


def _bare_bytes(recipe: Recipe) -> int:
    """Returns the size of the buffer without any alignment."""
    return next(recipe.with_changes(**NONE), recipe).wanted.size_bytes


def _by_size(recipe: Recipe) -> Iterator[tuple[str, Recipe]]:
    """Yields recipes with a row length or a number of rows that follows from the captured size, but is no usual
    multiple."""
    captured, valid = recipe.evidence.size_bytes, _bare_bytes(recipe)
    for side, name, unit in ((0, "width_align", "elements wide"), (1, "height_align", "rows high")):
        own = recipe.wanted.frame[side]
        side_length = own * captured // valid
        if side_length > own and all(-(-own // m) * m != side_length for m in MULTIPLES[name]):
            for changed in recipe.with_changes(**{**NONE, name: side_length}):
                if changed.wanted.size_bytes == captured:
                    yield f"alignment: stored {side_length} {unit}", changed


def _changes() -> Iterator[tuple[str, dict[str, int]]]:
    yield "none at all", NONE
    for name, multiples in MULTIPLES.items():
        for multiple in multiples:
            more = {"stride": 0} if name == "width_align" else {}  # a stride would override it
            yield f"{name.replace('_', ' ')} {multiple}", {name: multiple, **more}
    for multiple in (2, 4, 8, 16, 32, 64):
        yield f"width and height align {multiple}", {"stride": 0, "width_align": multiple, "height_align": multiple}


def _shape(wanted: Description) -> tuple[Any, ...]:
    return tuple((p.aligned_shape, p.offset) for p in wanted.planes), wanted.size_bytes


def _together(data: bytes, recipe: Recipe) -> bytes:
    if len(data) != recipe.wanted.size_bytes:  # another mistake changed it before
        return data
    valid = b"".join(plane.tobytes() for plane in buffers.unpack(data, recipe.wanted))
    return valid.ljust(len(data), b"\0")


_ROWS_TOGETHER = RecipeStep("rows without their stride", _together)
