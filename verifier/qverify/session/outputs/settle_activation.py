"""Decides from the reference's values whether the network applied the activation of its scores itself (OUTPUTS.md section 1),
and says what was assumed."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from qverify.decoders import Decoder
from qverify.decoders.parts.functions import are_probabilities
from qverify.decoders.parts.selection import Candidates
from qverify.errors import UsageError
from qverify.outputs.recipe import Output

Array = npt.NDArray[Any]
MANY = 64  # values that are hardly all between 0 and 1 by chance
ROUNDED = 2.0**-10  # what probabilities may be beyond 0 and 1


def settle_activation(decoder: Decoder, outputs: dict[str, Output]) -> tuple[Decoder, list[str]]:
    """Returns the decoder with the activation that the values of the final outputs need, and what was assumed, in words.
    Raises UsageError if the settings state softmax of values that are probabilities already, or the outputs do not fit."""
    if decoder.name == "softmax":
        return _settle_classes(decoder, outputs)
    if decoder.candidates is None:
        return decoder, []
    found = decoder.candidates({name: output.real() for name, output in outputs.items()}, decoder.settings)
    return _settle_scores(decoder, outputs, found)


def _settle_classes(decoder: Decoder, outputs: dict[str, Output]) -> tuple[Decoder, list[str]]:
    vectors = [o for o in outputs.values() if o.values.size == max(o.values.shape, default=1) > 1]
    if len(vectors) != 1:
        return decoder, []  # the decoder refuses them
    step = max(vectors[0].scale, default=0.0)
    known = are_probabilities(vectors[0].real(), step)
    stated = decoder.settings.activation
    if known and stated == "softmax":
        raise _twice(decoder)
    if stated:
        return decoder, []
    if known:
        return _with(decoder, activation="none"), [
            "activation=none is assumed: the reference's values are probabilities already (none negative, sum 1)"
        ]
    return _with(decoder, activation="softmax"), [
        "activation=softmax is assumed: the reference's values are no probabilities that add up to 1"
    ]


def _settle_scores(decoder: Decoder, outputs: dict[str, Output], found: Candidates) -> tuple[Decoder, list[str]]:
    stated = decoder.settings.activation
    of_scores = [found.values, *([] if found.objectness is None else [found.objectness])]
    shares = found.values.size >= MANY and all(_are_shares(values) for values in of_scores)
    if stated == "softmax" and shares and _add_up(found.values):
        raise _twice(decoder)
    if stated or not found.values.size:
        return decoder, []
    if found.activation == "sigmoid" and shares:
        note = "activation=none is assumed: the reference's scores are between 0 and 1 already"
        if decoder.settings.anchors and not all(_are_shares(output.real()) for output in outputs.values()):
            return _with(decoder, activation="none", box_activation="sigmoid"), [f"{note}, its boxes are not"]
        return _with(decoder, activation="none"), [note]
    if found.activation == "none" and not shares and any(_are_far(values) for values in of_scores):
        return decoder, [
            "activation=none is assumed, but the reference's scores are not between 0 and 1: "
            "state activation=sigmoid or activation=softmax if the application applies it"
        ]
    return decoder, []


def _with(decoder: Decoder, **settings: str) -> Decoder:
    return replace(decoder, settings=replace(decoder.settings, **settings))  # type: ignore[arg-type]


def _twice(decoder: Decoder) -> UsageError:
    return UsageError(
        f"--decoder {decoder.name}: activation=softmax of values that are probabilities already (none negative, sum 1) "
        "is softmax twice; leave it out, or give activation=none"
    )


def _are_shares(values: Array) -> bool:
    finite = values[np.isfinite(values)]  # of a heatmap, what is no peak is -inf
    return bool(finite.size) and bool(finite.min() >= -ROUNDED and finite.max() <= 1 + ROUNDED)


def _are_far(values: Array) -> bool:
    finite = values[np.isfinite(values)]
    return bool(finite.size) and bool(finite.min() < -0.1 or finite.max() > 1.1)


def _add_up(values: Array) -> bool:
    return values.shape[1] > 1 and bool((np.abs(np.asarray(values, np.float64).sum(axis=1) - 1.0) <= ROUNDED * 2).all())
