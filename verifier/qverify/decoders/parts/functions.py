"""Sigmoid and softmax in float64, the same bits on every processor."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from qverify.arithmetic import functions64

Array = npt.NDArray[Any]


def sigmoid(x: Array) -> Array:
    """Returns 1 / (1 + exp(-x)) in float64."""
    with np.errstate(over="ignore"):
        return 1.0 / (1.0 + functions64.exp(-np.asarray(x, np.float64)))


def logit(p: float) -> float:
    """Returns the value whose sigmoid is p; infinite at 0 and 1."""
    with np.errstate(divide="ignore"):
        return float(functions64.log(np.float64(p)) - functions64.log(np.float64(1.0 - p)))


LARGE_OF_PROBABILITIES = 10  # values from which their sum is that of probabilities by chance hardly ever


def are_probabilities(x: Array, step: float = 0.0) -> bool:
    """Returns whether two or more values are plainly probabilities of classes: none negative, and they add up to 1. step:
    of their quantization, whose roundings may add up, 0 for floats."""
    values = np.asarray(x, np.float64).reshape(-1)
    if len(values) < 2 or not np.isfinite(values).all():
        return False
    slack = 2.0**-6 if len(values) >= LARGE_OF_PROBABILITIES else 2.0**-10
    slack += min(step * len(values) / 2, 0.25)
    return bool(values.min() >= 0 and abs(float(values.sum()) - 1.0) <= slack)


def softmax(x: Array) -> Array:
    """Returns the softmax over the last axis in float64."""
    x = np.asarray(x, np.float64)
    powers = functions64.exp(x - x.max(axis=-1, keepdims=True))
    return powers / powers.sum(axis=-1, keepdims=True)
