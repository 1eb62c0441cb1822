"""Only some of the results are written."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np

from qverify.decoders.parts.selection import Scored
from qverify.outputs.agreement import Wanted
from qverify.outputs.hypotheses.suppression import in_order, iou
from qverify.outputs.recipe import OutputRecipe, Step
from qverify.outputs.steps import take_rows, with_rows

NAME = "top"
FIX = "write all results, or the same number of best ones on both sides"


def variants(recipe: OutputRecipe) -> Iterator[tuple[str, OutputRecipe]]:
    rows = recipe.evidence.rows
    if recipe.evidence.kind not in ("boxes", "plain boxes", "classes") or not rows:
        return
    text = f"top: only the best {rows} results are written"
    sort = recipe.evidence.kind != "classes"  # these are in their order already
    yield text, with_rows(recipe, "best", lambda r: take_rows(r, (_fall(r) if sort else np.arange(len(r)))[:rows]))
    yield (
        "top: the first result is left out",
        with_rows(recipe, "first", lambda r: take_rows(r, np.arange(1, len(r))), False),
    )
    yield (
        "top: the last result is left out",
        with_rows(recipe, "last", lambda r: take_rows(r, np.arange(max(len(r) - 1, 0)))),
    )
    for variant in recipe.with_settings(top=0):
        yield "top: no limit of results", variant
    for most in (5, 10, 20, 30, 50, 100, 200, 300, 400, 500, 1000):
        for variant in recipe.with_settings(before_nms=most):
            yield f"top: only the best {most} anchors go into NMS", variant
        if recipe.evidence.kind == "boxes" and not recipe.kept and most <= 200:
            said = f"top: only the first {most} anchors above the threshold go into NMS"
            yield said, recipe.with_step("kept", Step(said, in_order(partial(_fall_of_first, most=most), iou), False))
    whole = next(iter(recipe.with_settings(top=0)), recipe)
    for most in {rows, recipe.settings.top, 100, 300} - {0}:
        text = f"top: at most {most} results of each class"
        yield text, with_rows(whole, f"class {most}", partial(_most_of_each, most=most), False)
    yield "top: the best of each class only", with_rows(recipe, "class", _best_of_each, False)


def _fall_of_first(scored: Scored, most: int) -> np.ndarray:
    return np.argsort(-scored.scores[:most], kind="stable")


def _fall(rows: Wanted) -> np.ndarray:
    return np.argsort(-rows.scores, kind="stable")


def _most_of_each(rows: Wanted, most: int) -> Wanted:
    order = _fall(rows)
    kept = [order[rows.classes[order] == label][:most] for label in np.unique(rows.classes)]
    return take_rows(rows, np.sort(np.concatenate(kept))) if kept else rows


def _best_of_each(rows: Wanted) -> Wanted:
    order = _fall(rows)
    first = np.unique(rows.classes[order], return_index=True)[1]
    return take_rows(rows, order[np.sort(first)])
