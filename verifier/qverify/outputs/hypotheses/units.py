"""Coordinates in other units: shares of the picture or of the input, pixels, exchanged axes."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np

from qverify.outputs.agreement import Wanted
from qverify.outputs.recipe import OutputRecipe
from qverify.outputs.steps import with_rows

NAME = "units"
FIX = "give coordinates in pixels of the picture, or state that they are shares of it"


def variants(recipe: OutputRecipe) -> Iterator[tuple[str, OutputRecipe]]:
    size, frame = recipe.evidence.size, recipe.settings.frame
    if recipe.evidence.kind not in ("boxes", "plain boxes", "keypoints"):
        return
    known = {"of the input": size, "of the picture": frame}
    for name, sides in known.items():
        if sides == (0, 0) or (name == "of the input" and sides == frame):
            continue
        pair = np.array(sides, np.float64)
        yield f"units: divided by width and height {name}", with_rows(recipe, f"/ {name}", _scaled(1 / pair, True))
        yield f"units: multiplied by width and height {name}", with_rows(recipe, f"* {name}", _scaled(pair, False))
        if sides[0] != sides[1]:
            exchanged = with_rows(recipe, f"/ {name} exchanged", _scaled(1 / pair[::-1], True))
            yield f"units: divided by height and width {name}", exchanged
    for text, away in (("one pixel added", 1.0), ("one pixel subtracted", -1.0)):
        yield (
            f"units: {text}",
            with_rows(recipe, text, partial(_moved, away=away)),
        )
    ends = "x2 and y2 with one pixel "
    for text, away in (("less", -1.0), ("more", 1.0)):
        yield f"units: {ends}{text}", with_rows(recipe, f"{ends}{text}", partial(_ends, away=away))


def _moved(rows: Wanted, away: float) -> Wanted:
    return Wanted(rows.numbers + away, rows.scores, rows.classes, rows.unit)


def _scaled(factors: np.ndarray, shares: bool) -> Any:
    def apply(rows: Wanted) -> Wanted:
        if not rows.numbers.shape[1]:
            return rows
        numbers = rows.numbers * np.resize(factors, rows.numbers.shape[1])
        return Wanted(numbers, rows.scores, rows.classes, 1.0 if shares else rows.unit * float(factors.max()))

    return apply


def _ends(rows: Wanted, away: float) -> Wanted:
    numbers = rows.numbers.copy()
    numbers[:, 2:4] += away
    return Wanted(numbers, rows.scores, rows.classes, rows.unit)
