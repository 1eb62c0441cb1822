"""Classification: the classes by falling score."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from qverify.decoders.parts.functions import are_probabilities, sigmoid, softmax
from qverify.decoders.parts.levels import refuse, squeeze_batch
from qverify.decoders.parts.results import Classes
from qverify.decoders.parts.settings import Settings

Outputs = Mapping[str, npt.NDArray[Any]]
NAME = "softmax"
ALSO = ("classification",)
RESULT = "classes"
DEFAULTS = Settings(top=5, score=0.0)


def decode(outputs: Outputs, settings: Settings) -> Classes:
    """Returns the `top` classes with a score not below `score` (0: any, also negative ones) of the one output that has one
    axis longer than 1. Without an activation in the settings it is none if the values are probabilities already (none
    negative, they add up to 1), else softmax."""
    vectors = [v.reshape(-1) for v in squeeze_batch(outputs).values() if v.size == max(v.shape, default=1) > 1]
    if len(vectors) != 1 or (settings.classes and len(vectors[0]) != settings.classes):
        raise refuse(outputs, f"one with {settings.classes or 'the'} classes on its only axis above 1")
    functions = {"softmax": softmax, "sigmoid": sigmoid}
    activation = settings.activation or ("none" if are_probabilities(vectors[0]) else "softmax")
    scores = np.asarray(functions.get(activation, np.asarray)(vectors[0]), np.float64)
    order = np.argsort(-scores, kind="stable")[: settings.top or None]
    if settings.score > 0:
        order = order[scores[order] >= settings.score]
    return Classes(order.astype(np.int64), scores[order])
