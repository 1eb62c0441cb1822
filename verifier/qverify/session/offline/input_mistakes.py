"""Inputs that a device was given by a known mistake in place of the intended ones, for `-m MODEL,DUMP -i INPUT`: the first node is
recomputed from each."""

from __future__ import annotations

import time
from collections.abc import Iterator
from itertools import chain
from typing import Any

import numpy as np

from qverify.errors import MissingExtraError, UsageError
from qverify.inputs import buffers, encoding
from qverify.inputs.described_inputs import description_for_tensor, layout_of
from qverify.inputs.hypotheses import pages
from qverify.inputs.hypotheses.normalization import USUAL
from qverify.inputs.hypotheses.orientation import WAYS
from qverify.inputs.recipe import Recipe, RecipeStep
from qverify.inputs.reproduction import Reproduction, Start, compute_size, from_bytes
from qverify.mistakes import list_single_mistakes
from qverify.tensors.real_values import to_float64
from qverify.tensors.recording import Array
from qverify.tensors.spec import TensorSpec

MAX_BYTES = 1 << 26  # of an input
SECONDS = 10.0  # of computing, after which no further mistake is begun
NORMALIZATIONS = (((0.0,), (1.0,)), *USUAL.values())


def list_mistaken(spec: TensorSpec, intended: Array) -> Iterator[tuple[str, Array]]:
    """Yields what a picture's tensor would have been by each single mistake of `qverify inputs diff` that its values allow to
    try, with the mistake in words; nothing for another tensor. intended: the tensor's values."""
    start = _open_start(spec, intended)
    if start is None:
        return
    deadline, trial, recipe = time.monotonic() + SECONDS, Reproduction(start), start.intended(intended.nbytes)
    listed = ((e.said, e.recipe) for e in list_single_mistakes(pages(), recipe))
    for said, mistaken in listed if start.stage == "fitted" else chain(_list_moved(recipe), listed):
        if time.monotonic() > deadline:
            return
        if compute_size(mistaken) == intended.nbytes and start.can_reach(mistaken):
            data = _make_bytes(trial, mistaken)
            if data is not None and data != intended.tobytes():
                yield said, np.frombuffer(data, intended.dtype).reshape(intended.shape)


def _open_start(spec: TensorSpec, intended: Array) -> Start | None:
    """Returns the tensor as the start of a search for mistakes: as pixels if a usual normalization gives the values from whole
    ones, else as elements; None if it is no picture's."""
    if not layout_of(spec) or intended.nbytes > MAX_BYTES or intended.shape != spec.shape:
        return None
    starts = [_start_from(spec, intended, *normalization) for normalization in NORMALIZATIONS]
    known = [start for start in starts if start is not None]
    return next((start for start in known if start.stage == "fitted"), next(iter(known), None))


def _start_from(spec: TensorSpec, intended: Array, mean: tuple[float, ...], scale: tuple[float, ...]) -> Start | None:
    """Returns the start if the tensor was normalized so."""
    data = intended.tobytes()
    try:
        wanted = description_for_tensor({"format": "featuremap", "mean": [*mean], "scale": [*scale]}, spec)
        if wanted is None:
            return None
        with np.errstate(all="ignore"):
            pixels = np.ascontiguousarray(buffers.make_picture(data, wanted))
            again = np.frombuffer(encoding.encode_fitted(pixels, wanted), intended.dtype).reshape(intended.shape)
        if np.ptp(pixels) > 1 and np.allclose(to_float64(again), to_float64(intended), rtol=1e-5, atol=1e-6):
            return Start("fitted", pixels, wanted)
        return from_bytes(data, wanted)
    except (UsageError, ValueError):
        return None


def _list_moved(recipe: Recipe) -> Iterator[tuple[str, Recipe]]:
    """Yields the mistakes that only move values, of an input whose pixels are not known."""
    reversed_ = RecipeStep("channels reversed", lambda values, _: [np.ascontiguousarray(v[..., ::-1]) for v in values])
    yield "channel order: red and blue exchanged", recipe.with_step("elements", reversed_)
    for name, way in WAYS.items():

        def turn(values: Any, _: Recipe, way: Any = way) -> Any:
            return [np.ascontiguousarray(way(v)) for v in values]

        yield f"orientation: {name}", recipe.with_step("elements", RecipeStep(name, turn))


def _make_bytes(trial: Reproduction, recipe: Recipe) -> bytes | None:
    """Returns the bytes of a recipe, None if they cannot be made."""
    try:
        with np.errstate(all="ignore"):
            return trial.make_bytes(recipe)
    except (MissingExtraError, UsageError, ValueError):
        return None
