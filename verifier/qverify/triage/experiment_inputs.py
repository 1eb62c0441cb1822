"""Draws new inputs of a unit, for which causes that all fit the recorded bytes predict different bytes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from qverify.tensors.spec import TensorSpec
from qverify.triage.case import SMALL_INTEGERS, Array, Case
from qverify.triage.drawn_integers import draw_integers

NONZERO_SHARE = 0.03  # of the elements of a sparse input
EXCHANGED_SHARE = 0.1  # of the elements of an input that is otherwise as recorded
SUBNORMAL = np.float32(2.0**-133)
Draw = Callable[[Array, TensorSpec, Case, np.random.Generator], Array]


def _nearby(values: Array, spec: TensorSpec, case: Case, rng: np.random.Generator) -> Array:
    chosen = rng.random(values.shape) < EXCHANGED_SHARE
    return np.where(chosen, rng.permutation(values.reshape(-1)).reshape(values.shape), values)


def _uniform(values: Array, spec: TensorSpec, case: Case, rng: np.random.Generator) -> Array:
    if values.dtype.kind == "f":
        low, high = _range(values)
        return rng.uniform(low, high, values.shape).astype(values.dtype)
    info = np.iinfo(values.dtype)
    return rng.integers(info.min, info.max, values.shape, values.dtype, endpoint=True)


def _shuffled(values: Array, spec: TensorSpec, case: Case, rng: np.random.Generator) -> Array:
    return rng.permutation(values.reshape(-1)).reshape(values.shape)


def _extremes(values: Array, spec: TensorSpec, case: Case, rng: np.random.Generator) -> Array:
    ends: list[Any]
    if values.dtype.kind == "f":
        low, high = _range(values)
        ends = [low, high, 0.0, -0.0, SUBNORMAL, -SUBNORMAL, low / 64, high / 64, *_half_steps(case, rng)]
    else:
        info = np.iinfo(values.dtype)
        ends = [info.min, info.max, *spec.zero_point[:1], int(values.reshape(-1)[0])]
    return rng.choice(np.array(ends, values.dtype), values.shape)


def _sparse(values: Array, spec: TensorSpec, case: Case, rng: np.random.Generator) -> Array:
    zero = spec.zero_point[0] if spec.zero_point and values.dtype.kind in "iu" else 0
    chosen = rng.random(values.shape) < NONZERO_SHARE
    chosen.reshape(-1)[rng.integers(values.size)] = True
    return np.where(chosen, _uniform(values, spec, case, rng), np.array(zero, values.dtype))


def _level(values: Array, spec: TensorSpec, case: Case, rng: np.random.Generator) -> Array:
    """Returns elements that all lie within a tenth of the range, so that sums are far from their usual values."""
    drawn = _uniform(values, spec, case, rng)
    if values.dtype.kind == "f":
        low, high = _range(values)
        share = (drawn.astype(np.float64) - low) * 0.1  # in float64, because the range may be larger than a float32
        return np.asarray(low + rng.random() * (high - low) * 0.9 + share, values.dtype)
    info = np.iinfo(values.dtype)
    width = (int(info.max) - int(info.min)) // 10
    start = (info.min, info.max - width, int(rng.integers(info.min, info.max - width)))[rng.integers(3)]
    return (start + drawn.astype(np.int64) % width).astype(values.dtype)


def _range(values: Array) -> tuple[float, float]:
    finite = values[np.isfinite(values)]
    low, high = (float(finite.min()), float(finite.max())) if finite.size else (-1.0, 1.0)
    return (low, high) if low < high else (low - 1.0, high + 1.0)


def _half_steps(case: Case, rng: np.random.Generator) -> list[float]:
    """Returns values half way between two steps of the unit's output, which rounding rules treat differently."""
    spec = case.spec
    if not spec.quantized:
        return []
    return [float(np.float32((k + 0.5) * spec.scale[0])) for k in rng.integers(-60, 60, 16)]


KINDS: dict[str, tuple[str, Draw]] = {
    "uniform": ("random over the whole type", _uniform),
    "shuffled": ("the recorded values in another order", _shuffled),
    "sparse": ("zero but for a few elements", _sparse),
    "level": ("all within a tenth of the range", _level),
    "extremes": ("the ends of the type, zeros and ties", _extremes),
    "nearby": ("the recorded values, a tenth of them exchanged", _nearby),
}


def draw_inputs(case: Case, kind: str, seed: int) -> dict[str, Array]:
    """Returns new inputs of the unit by tensor name, in the shapes and dtypes of the recorded ones.

    kind is a key of KINDS. Indices, conditions and dividends are drawn from those that are legal for their node
    (draw_integers). The same kind and seed give the same values."""
    drawn = {}
    for name, values in case.inputs.items():
        rng = np.random.Generator(np.random.PCG64([seed, *kind.encode(), *name.encode()]))
        if values.dtype.name in SMALL_INTEGERS:
            drawn[name] = np.ascontiguousarray(draw_integers(case.graph, case.unit, name, values, kind, rng))
        elif values.size:
            drawn[name] = np.ascontiguousarray(KINDS[kind][1](values, case.graph.spec(name), case, rng))
        else:
            drawn[name] = values
    return drawn
