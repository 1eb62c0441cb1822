"""Sigmoid or softmax is missing, applied twice, or taken for each other."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from qverify.decoders.parts.functions import sigmoid, softmax
from qverify.decoders.parts.selection import Candidates
from qverify.outputs.recipe import OutputRecipe, Step
from qverify.outputs.steps import check_highest, is_detector, list_targets, with_real

NAME = "activation"
FIX = "apply the activation once: look at the last node of the network, which may have applied it already"


def variants(recipe: OutputRecipe) -> Iterator[tuple[str, OutputRecipe]]:
    kind = recipe.evidence.kind
    if kind == "arrays":
        yield from _of_arrays(recipe)
    elif is_detector(recipe):
        for text, change in CHANGES.items():
            yield f"activation: {text}", recipe.with_step("candidates", Step(text, change))
        yield from _named(recipe)
    elif kind == "keypoints":
        yield from _of_maps(recipe)
    elif kind in ("classes", "vector"):
        yield from recipe.vary("activation", ("none", "sigmoid", "softmax"), "activation")
        twice = with_real(
            recipe, "softmax", lambda v: softmax(v.reshape(-1)).reshape(v.shape), frozenset(recipe.evidence.outputs)
        )
        yield "activation: softmax applied twice, or to probabilities", twice


def _of_maps(recipe: OutputRecipe) -> Iterator[tuple[str, OutputRecipe]]:
    """Yields activations that heatmaps do not need."""
    names = frozenset(recipe.evidence.outputs)
    yield "activation: sigmoid of the heatmaps", with_real(recipe, "sigmoid", sigmoid, names)
    yield "activation: softmax over each heatmap", with_real(recipe, "softmax", _softmax_of_maps, names)
    yield (
        "activation: softmax over the keypoints",
        with_real(recipe, "softmax 1", partial(_softmax_over, axis=1), names),
    )


def _softmax_of_maps(values: np.ndarray) -> np.ndarray:
    if values.ndim != 4:
        return values
    return softmax(values.reshape(*values.shape[:2], -1)).reshape(values.shape)


def _named(recipe: OutputRecipe) -> Iterator[tuple[str, OutputRecipe]]:
    """Yields the settings of activations; that the own one is missing is named so."""
    names = {
        "none": "activation: missing",
        "sigmoid": "activation: sigmoid",
        "softmax": "activation: softmax over the classes",
    }
    if recipe.settings.activation == "none":
        names["sigmoid"] = "activation: sigmoid of probabilities, which is twice"
    for name, said in names.items():
        for variant in recipe.with_settings(activation=name):
            yield said, variant
    if recipe.settings.anchors and not recipe.settings.box_activation:  # their boxes have an activation, too
        for variant in recipe.with_settings(activation="none", box_activation="sigmoid"):
            yield "activation: missing for the scores, not for the boxes", variant


def _of_arrays(recipe: OutputRecipe) -> Iterator[tuple[str, OutputRecipe]]:
    (target,) = (names for _, names in list_targets(recipe))
    yield "activation: sigmoid applied, or once too often", with_real(recipe, "sigmoid", sigmoid, target)
    yield "activation: sigmoid applied twice", with_real(recipe, "sigmoid 2", lambda v: sigmoid(sigmoid(v)), target)
    shape = recipe.evidence.outputs[recipe.evidence.target].values.shape
    for axis in (at for at, length in enumerate(shape) if length > 1):
        said = f"activation: softmax over axis {axis} applied, or once too often"
        yield (
            said,
            with_real(recipe, f"softmax {axis}", partial(_softmax_over, axis=axis), target),
        )


def _softmax_over(values: np.ndarray, axis: int) -> np.ndarray:
    return np.moveaxis(softmax(np.moveaxis(values, axis, -1)), -1, axis)


def _more(candidates: Candidates, of_values: bool, of_objectness: bool) -> Candidates:
    """Returns the candidates with one sigmoid more."""
    values, objectness = candidates.values, candidates.objectness
    return replace(
        candidates,
        values=sigmoid(values) if of_values else values,
        objectness=sigmoid(objectness) if of_objectness and objectness is not None else objectness,
    )


def _twice(candidates: Candidates, recipe: OutputRecipe) -> Candidates:
    check_highest(candidates, recipe, lambda v: sigmoid(sigmoid(v)))
    return replace(_more(candidates, True, True), activation="sigmoid")


def _only(of_values: bool) -> Any:
    def apply(candidates: Candidates, _: OutputRecipe) -> Candidates:
        return candidates if candidates.objectness is None else _more(candidates, of_values, not of_values)

    return apply


def _without(**missing: str) -> Any:
    def apply(candidates: Candidates, recipe: OutputRecipe) -> Candidates:
        own = recipe.settings.activation or candidates.activation
        if candidates.objectness is None or own != "sigmoid":
            return candidates
        return replace(candidates, **missing)  # type: ignore[arg-type]

    return apply


CHANGES: dict[str, Any] = {
    "sigmoid applied twice": _twice,
    "sigmoid of the class scores once too often": _only(True),
    "sigmoid of the objectness once too often": _only(False),
    "sigmoid of the objectness missing": _without(of_objectness="none"),
    "sigmoid of the class scores missing": _without(of_values="none"),
}
