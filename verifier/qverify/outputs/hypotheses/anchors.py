"""Anchors of another level, another network, or in other units."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import permutations

from qverify.outputs.recipe import OutputRecipe
from qverify.outputs.steps import is_detector

NAME = "anchors"
FIX = "give every level its own anchors, in input pixels: the smallest to the smallest stride"
KNOWN = {
    "yolov5": ((10, 13, 16, 30, 33, 23), (30, 61, 62, 45, 59, 119), (116, 90, 156, 198, 373, 326)),
    "yolov7": ((12, 16, 19, 36, 40, 28), (36, 75, 76, 55, 72, 146), (142, 110, 192, 243, 459, 401)),
    "yolov4": ((12, 16, 19, 36, 40, 28), (36, 75, 76, 55, 72, 146), (142, 110, 192, 243, 459, 401)),
    "yolov3-tiny": ((10, 14, 23, 27, 37, 58), (81, 82, 135, 169, 344, 319)),
}
MOST_LEVELS = 4


def variants(recipe: OutputRecipe) -> Iterator[tuple[str, OutputRecipe]]:
    own, strides = recipe.settings.anchors, recipe.settings.strides
    if not own or not is_detector(recipe):
        return
    levels = range(len(own))
    for order in permutations(levels) if len(own) <= MOST_LEVELS else (tuple(reversed(levels)),):
        text = (
            "in reverse order of the levels"
            if order == tuple(reversed(levels))
            else f"of levels {', '.join(map(str, order))}"
        )
        for variant in recipe.with_settings(anchors=tuple(own[at] for at in order)):
            yield f"anchors: {text}", variant
    for name, known in KNOWN.items():
        for variant in recipe.with_settings(anchors=known):
            yield f"anchors: those of {name}", variant
    exchanged = tuple(tuple(row[at ^ 1] for at in range(len(row))) for row in own)
    for variant in recipe.with_settings(anchors=exchanged):
        yield "anchors: width and height exchanged", variant
    turned = tuple(tuple(v for pair in reversed([*zip(row[::2], row[1::2], strict=True)]) for v in pair) for row in own)
    for variant in recipe.with_settings(anchors=turned):
        yield "anchors: in reverse order within each level", variant
    for text, sign in (("multiplied by the stride", 1), ("divided by the stride", -1)):
        scaled = tuple(tuple(v * s if sign > 0 else v / s for v in row) for row, s in zip(own, strides, strict=True))
        for variant in recipe.with_settings(anchors=scaled):
            yield f"anchors: {text}", variant
