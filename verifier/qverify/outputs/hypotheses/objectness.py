"""Class score and objectness are put together otherwise."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from qverify.outputs.agreement import Wanted
from qverify.outputs.recipe import OutputRecipe
from qverify.outputs.steps import has_rows, is_detector, with_rows

NAME = "score"
FIX = "compute the score as the network's family defines it: objectness times class score (YuNet: its square root)"
SAID = {
    "product": "the product of objectness and class score",
    "root": "the square root of the product",
    "class": "the class score alone, without objectness",
    "objectness": "the objectness alone",
    "objectness-twice": "objectness multiplied twice",
}


def variants(recipe: OutputRecipe) -> Iterator[tuple[str, OutputRecipe]]:
    if is_detector(recipe):
        for combine, said in SAID.items():
            for variant in recipe.with_settings(combine=combine):
                yield f"score: {said}", variant
    if has_rows(recipe) or recipe.evidence.kind in ("classes", "vector"):
        yield "score: as a percentage", with_rows(recipe, "percent", lambda rows: _scores(rows, rows.scores * 100))
        yield "score: 1 - score", with_rows(recipe, "complement", lambda rows: _scores(rows, 1 - rows.scores))


def _scores(rows: Wanted, scores: np.ndarray) -> Wanted:
    return Wanted(rows.numbers, scores, rows.classes, rows.unit)
