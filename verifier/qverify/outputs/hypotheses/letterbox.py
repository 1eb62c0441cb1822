"""The way back from the network's input to the picture: not taken, or another one."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from qverify.decoders.parts.results import Boxes
from qverify.decoders.parts.selection import find_placement
from qverify.outputs.recipe import OutputRecipe, Step
from qverify.outputs.steps import is_detector

Array = npt.NDArray[Any]
NAME = "letterbox"
FIX = (
    "undo the letterbox as it was made: subtract the padding of each side in input pixels, then divide by the one ratio"
)
SAID = {
    "stretch": "taken as stretched: each side by its own ratio",
    "letterbox": "taken as centred in the input",
    "letterbox-top-left": "taken as lying at the top left: the padding is not cut",
}


def variants(recipe: OutputRecipe) -> Iterator[tuple[str, OutputRecipe]]:
    settings = recipe.settings
    if recipe.evidence.kind not in ("boxes", "plain boxes", "keypoints"):
        return
    if settings.frame == (0, 0):
        return
    for variant in recipe.with_settings(frame=(0, 0)):
        yield "letterbox: not undone, results in pixels of the input and clipped to it", variant
    for fit, said in SAID.items():
        for variant in recipe.with_settings(fit=fit):
            yield f"letterbox: {said}", variant
    for variant in recipe.with_settings(frame=settings.frame[::-1]):
        yield "letterbox: width and height of the picture exchanged", variant
    if is_detector(recipe):
        has_padding = any(find_placement(recipe.evidence.size, settings).pad)
        for text, change in WAYS.items():
            if (not has_padding and "padding" in text) or _is_own(text, recipe):
                continue
            yield f"letterbox: {text}", recipe.with_step("found", Step(f"{NAME} {text}", _as_found(change)))


def _is_own(text: str, recipe: OutputRecipe) -> bool:
    """Returns whether a side's ratio is that of the letterbox, which another mistake names already."""
    size, frame = recipe.evidence.size, recipe.settings.frame
    ratio = find_placement(size, recipe.settings).ratio
    sides = {"both sides by the ratio of the width": 0, "both sides by the ratio of the height": 1}
    at = sides.get(text)
    return at is not None and recipe.settings.fit != "stretch" and abs(size[at] / frame[at] - ratio[at]) < 1e-12


def _as_found(change: Any) -> Any:
    """Returns a step in input pixels after which the way back gives what `change` makes of input pixels."""

    def apply(found: Boxes, recipe: OutputRecipe) -> Boxes:
        size = recipe.evidence.size
        placement = find_placement(size, recipe.settings)
        pad, ratio = np.array(placement.pad), np.array(placement.ratio)
        sides = np.array(size, np.float64), np.array(recipe.settings.frame, np.float64)

        def move(points: Array) -> Array:
            return change(points, pad, ratio, *sides) * ratio + pad

        points = None if found.keypoints is None else found.keypoints.copy()
        if points is not None:
            points[..., :2] = move(points[..., :2])
        return replace(found, boxes=move(found.boxes.reshape(-1, 2, 2)).reshape(-1, 4), keypoints=points)

    return apply


def _exact_pad(x: Array, pad: Array, ratio: Array, size: Array, frame: Array) -> Array:
    return (x - (size - frame * ratio) / 2) / ratio


WAYS = {
    "not undone": lambda x, pad, ratio, size, frame: x,
    "the ratio is not undone": lambda x, pad, ratio, size, frame: x - pad,
    "the padding is subtracted after the division": lambda x, pad, ratio, size, frame: x / ratio - pad,
    "the padding is added": lambda x, pad, ratio, size, frame: (x + pad) / ratio,
    "multiplied by the ratio": lambda x, pad, ratio, size, frame: (x - pad) * ratio,
    "the padding of x and y exchanged": lambda x, pad, ratio, size, frame: (x - pad[::-1]) / ratio,
    "twice the padding is cut": lambda x, pad, ratio, size, frame: (x - 2 * pad) / ratio,
    "the padding is not rounded to whole pixels": _exact_pad,
    "by the larger ratio": lambda x, pad, ratio, size, frame: (
        (x - (size - frame * (size / frame).max()) / 2) / (size / frame).max()
    ),
    "both sides by the ratio of the width": lambda x, pad, ratio, size, frame: x * (frame[0] / size[0]),
    "both sides by the ratio of the height": lambda x, pad, ratio, size, frame: x * (frame[1] / size[1]),
    "stretched after the padding is cut": lambda x, pad, ratio, size, frame: (x - pad) * frame / size,
    "x by the height's ratio and y by the width's": lambda x, pad, ratio, size, frame: x * (frame / size)[::-1],
}
