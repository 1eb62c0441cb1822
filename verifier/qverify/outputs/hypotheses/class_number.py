"""Classes are numbered from another number, or by another list."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from qverify.outputs.agreement import Wanted
from qverify.outputs.recipe import OutputRecipe
from qverify.outputs.steps import has_rows, with_rows

NAME = "class-number"
FIX = "number classes from 0 as the network does (or subtract the background once), and use the network's own list of names"
COCO = np.array(
    [c for c in range(1, 91) if c not in (12, 26, 29, 30, 45, 66, 68, 69, 71, 83)]
)  # 80 of COCO's 90 numbers


def variants(recipe: OutputRecipe) -> Iterator[tuple[str, OutputRecipe]]:
    classes = recipe.evidence.classes
    if classes is None or not (has_rows(recipe) or recipe.evidence.kind in ("classes", "vector")):
        return
    for away in (1, -1, 2, -2):
        yield f"class number: {away:+d}", with_rows(recipe, f"class {away:+d}", _mapped(lambda c, a=away: c + a))
    yield "class number: COCO's category (1 to 90) of 80 classes", with_rows(recipe, "coco", _mapped(_to_coco))
    yield "class number: 80 classes of COCO's category", with_rows(recipe, "from coco", _mapped(_from_coco))
    for same in (0, 1, -1):
        if classes == (same, same):
            yield (
                f"class number: always {same}",
                with_rows(recipe, f"all {same}", _mapped(lambda c, s=same: np.full(c.shape, s))),
            )


def _mapped(change: Any) -> Any:
    return lambda rows: Wanted(rows.numbers, rows.scores, change(rows.classes), rows.unit)


def _to_coco(classes: np.ndarray) -> np.ndarray:
    known = (classes >= 0) & (classes < len(COCO))
    return np.where(known, COCO[np.clip(classes, 0, len(COCO) - 1)], -1)


def _from_coco(classes: np.ndarray) -> np.ndarray:
    place = np.searchsorted(COCO, classes)
    known = (place < len(COCO)) & (COCO[np.minimum(place, len(COCO) - 1)] == classes)
    return np.where(known, place, -1)
