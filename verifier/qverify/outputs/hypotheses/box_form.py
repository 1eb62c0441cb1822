"""The four numbers of a box are taken for others: corners, centre, width and height."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any

from qverify.outputs.forms import FORMS, WRONG
from qverify.outputs.recipe import OutputRecipe
from qverify.outputs.steps import has_rows, is_detector, with_anchor_boxes, with_boxes

NAME = "box-form"
FIX = "convert boxes once, from the form that the decoder gives to the form that is wanted (x1, y1, x2, y2; or centre and size)"


def variants(recipe: OutputRecipe) -> Iterator[tuple[str, OutputRecipe]]:
    if not has_rows(recipe) and not is_detector(recipe):
        return
    for form in FORMS:
        if form != recipe.form:
            yield f"box form: {form} written instead of {recipe.form}", replace(recipe, form=form)
    for text, change in WRONG.items():
        if is_detector(recipe):
            early = with_anchor_boxes(recipe, f"{NAME} {text}", partial(_early, change=change))
            yield f"box form: {text}, before NMS", early
        if not has_rows(recipe):
            continue
        yield f"box form: {text}, after NMS", with_boxes(recipe, "found", f"{NAME} {text}", change)
        yield f"box form: {text}, in the picture", with_boxes(recipe, "placed", f"{NAME} {text}", change)


def _early(boxes: Any, _i: Any, _r: Any, _c: Any, change: Callable[[Any], Any]) -> Any:
    return change(boxes)
