"""Boxes or scores pass through float16 on their way."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from qverify.decoders.parts.results import Boxes
from qverify.outputs.agreement import Wanted
from qverify.outputs.recipe import OutputRecipe, Step
from qverify.outputs.steps import has_rows, is_detector, with_anchor_boxes, with_rows

Array = npt.NDArray[Any]
NAME = "float16"
FIX = "keep coordinates in float32: float16 has 11 bits, half a pixel at 1000"


def variants(recipe: OutputRecipe) -> Iterator[tuple[str, OutputRecipe]]:
    if has_rows(recipe):
        yield "float16: corners in the picture", recipe.with_step("placed", Step("halves", _boxes))
        both = with_rows(recipe.with_step("placed", Step("halves", _boxes)), "halved scores", _scores)
        yield "float16: corners in the picture and scores", both
        yield "float16: corners in the input", recipe.with_step("found", Step("halves", _boxes))
    if is_detector(recipe):
        yield (
            "float16: corners before NMS",
            with_anchor_boxes(recipe, "halves", lambda boxes, _i, _r, _c: _round(boxes)),
        )


def _scores(rows: Wanted) -> Wanted:
    return Wanted(rows.numbers, _round(rows.scores), rows.classes, rows.unit)


def _round(values: Array) -> Array:
    with np.errstate(over="ignore"):
        return values.astype(np.float16).astype(np.float64)


def _boxes(found: Boxes, _: OutputRecipe) -> Boxes:
    points = None if found.keypoints is None else _round(found.keypoints)
    return replace(found, boxes=_round(found.boxes), keypoints=points)
