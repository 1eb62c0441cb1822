"""Batch norm and normalize use another channel's parameters, apply them in another order or by another formula, or
round them to a narrower format."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np

from qverify.arithmetic.float32 import fma32
from qverify.model_bin.graph import Graph, Node
from qverify.triage.altered_kernels.bind_last import bind_last
from qverify.triage.altered_kernels.channel_choice import channel_choices
from qverify.triage.altered_kernels.float_formats import FIXED, FORMATS, LARGEST, flushed, rarity
from qverify.triage.altered_kernels.replaced_kernels import LIKELY, Kernel, kernel_variant, nodes_of
from qverify.triage.case import Array, Case
from qverify.triage.hypotheses import FaultVariant

NAME = "channel-affine"
OPS = ("batch_norm", "normalize")
F = np.float32
Formula = Callable[[Array, Array, Array], Array]  # of x and the two parameters of its channel, all float32 [N, C, ...]
BATCH_NORM: dict[str, Formula] = {
    "x*k + b with one rounding (fused multiply-add)": fma32,
    "x*k + b in float64": lambda x, k, b: x.astype(float) * k + b,
    "(x + b)*k": lambda x, k, b: (x + b) * k,
    "x*k (b left out)": lambda x, k, b: x * k,
    "x + b (k left out)": lambda x, k, b: x + b,
    "x*k - b": lambda x, k, b: x * k - b,
    "x*b + k (k and b exchanged)": lambda x, k, b: x * b + k,
    "x/k + b": lambda x, k, b: x / k + b,
    "x*|k| + b": lambda x, k, b: x * np.abs(k) + b,
    "x*k*k + b": lambda x, k, b: x * k * k + b,
    "(x - b)*k": lambda x, k, b: (x - b) * k,
    "x*k + 2b": lambda x, k, b: x * k + b + b,
    "b - x*k": lambda x, k, b: b - x * k,
    "max(x*k + b, 0) (relu applied)": lambda x, k, b: np.maximum(x * k + b, 0),
    "k*(x + b/k) in float32": lambda x, k, b: k * (x + b / k),
}
NORMALIZE: dict[str, Formula] = {
    "x*scale - mean*scale in float32, both products rounded": lambda x, m, s: x * s - m * s,
    "x*scale - mean*scale with one rounding of the first (fused)": lambda x, m, s: fma32(x, s, -(m * s)),
    "(x - mean)*scale in float64": lambda x, m, s: (x.astype(float) - m) * s,
    "(x - mean)/(1/scale) in float32": lambda x, m, s: (x - m) / (F(1) / s),
    "(x - mean)/scale": lambda x, m, s: (x - m) / s,
    "x*scale - mean": lambda x, m, s: x * s - m,
    "x*scale (the mean left out)": lambda x, m, s: x * s,
    "x - mean (the scale left out)": lambda x, m, s: x - m,
    "(x + mean)*scale": lambda x, m, s: (x + m) * s,
    "(mean - x)*scale": lambda x, m, s: (m - x) * s,
    "(x - scale)*mean (mean and scale exchanged)": lambda x, m, s: (x - s) * m,
    "(x - mean)*scale with the mean rounded to a whole number": lambda x, m, s: (x - np.rint(m)) * s,
    "(x - mean)*scale with the mean cut to a whole number": lambda x, m, s: (x - np.trunc(m)) * s,
    "(x - mean)*scale with x - mean rounded to a whole number": lambda x, m, s: np.rint(x - m) * s,
    "(x - mean)*scale with x - mean cut to a whole number": lambda x, m, s: np.trunc(x - m) * s,
    "(x - mean)*scale with x - mean saturated to -128..127": lambda x, m, s: np.clip(x - m, -128, 127) * s,
    "(x - mean)*scale with x - mean not below 0": lambda x, m, s: np.maximum(x - m, 0) * s,
    "(x/255 - mean)*scale": lambda x, m, s: (x / F(255) - m) * s,
    "(x/256 - mean)*scale": lambda x, m, s: (x / F(256) - m) * s,
    "(x - 128 - mean)*scale": lambda x, m, s: (x - F(128) - m) * s,
    "(x + 128 - mean)*scale": lambda x, m, s: (x + F(128) - m) * s,
}
NAMES = {"batch_norm": ("k", "b"), "normalize": ("mean", "scale")}
HEALTHY: dict[str, Formula] = {"batch_norm": lambda x, k, b: x * k + b, "normalize": lambda x, m, s: (x - m) * s}


def variants(case: Case) -> Iterator[FaultVariant]:
    for op, formulas in (("batch_norm", BATCH_NORM), ("normalize", NORMALIZE)):
        for node in nodes_of(case, op)[:1]:
            for text, formula in formulas.items():
                yield kernel_variant(
                    f"{op.replace('_', ' ')}: {text} is computed", {op: partial(_computed, formula=formula)}, LIKELY
                )
            shape = case.graph.spec(node.inputs[0] or "").shape
            yield from _chosen(op, shape)
            yield from _narrow(op)


def _parameters(node: Node, inputs: list[Array]) -> list[Array]:
    """Returns the two parameters of every channel, float32 [C]."""
    if node.op == "batch_norm":
        return [inputs[1].reshape(-1), inputs[2].reshape(-1)]
    return list(np.array(node.words, np.int32).view(F).reshape(2, -1))


def _computed(
    node: Node,
    inputs: list[Array],
    graph: Graph,
    formula: Formula,
    place: tuple[Array | None, Array | None] = (None, None),
    change: tuple[Any, Any] = (None, None),
) -> Array:
    x = inputs[0].astype(F)
    both = []
    for value, at, changed in zip(_parameters(node, inputs), place, change, strict=True):
        value = value if changed is None else changed(value.astype(float)).astype(F)
        both.append(value.reshape([1, -1] + [1] * (x.ndim - 2)) if at is None else value[at].reshape(x.shape))
    return formula(x, *both)


def _chosen(op: str, shape: tuple[int, ...]) -> Iterator[FaultVariant]:
    first, second = NAMES[op]
    for text, place in _places(shape).items():
        for what, of in (
            (f"{first} and {second} are", (place, place)),
            (f"{first} is", (place, None)),
            (f"{second} is", (None, place)),
        ):
            kernel: Kernel = partial(_computed, formula=HEALTHY[op], place=of)
            yield kernel_variant(
                f"{op.replace('_', ' ')}: {what} that of {text}".replace("are that", "are those"), {op: kernel}
            )


def _places(shape: tuple[int, ...]) -> dict[str, Array]:
    """Returns, by text, the index of the channel whose parameters each element uses."""
    batch, channels, plane = shape[0], shape[1], int(np.prod(shape[2:]))
    at = np.arange(batch * channels * plane)
    c, n = at // plane % channels, at // plane // channels
    channels_by_text = {
        "the last channel in the second and later batch items": np.where(n > 0, channels - 1, c),
        "the first channel in the second and later batch items": np.where(n > 0, 0, c),
        "the element's number modulo the channels (as if channels were the last axis)": at % channels,
        "the batch item's number": n % channels,
        "the channel of the row's number": at // max(shape[-1], 1) % channels,
        "the channel plus the batch item's number": (c + n) % channels,
        "the next channel from the last column on": (at + 1) // plane % channels,
    }
    for lanes in (8, 4, 16, 32, 2, 64, 128):
        first = at // lanes * lanes
        channels_by_text[
            f"the first element of its vector of {lanes} in memory (vectors run over the ends of channels)"
        ] = first // plane % channels
        channels_by_text[
            f"the last element of its vector of {lanes} in memory (vectors run over the ends of channels)"
        ] = np.minimum(first + lanes - 1, len(at) - 1) // plane % channels
        if plane % lanes:
            whole = -(-plane // lanes) * lanes
            channels_by_text[f"the plane where planes are padded to a multiple of {lanes} elements"] = (
                at // whole % channels
            )
            channels_by_text[f"the plane where planes are cut to a multiple of {lanes} elements"] = (
                at // max(plane // lanes * lanes, 1) % channels
            )
    for more in (1, -1):
        channels_by_text[f"the plane where planes are {'longer' if more > 0 else 'shorter'} by one element"] = (
            at // max(plane + more, 1) % channels
        )
    channels_by_text |= {text: choice[c] for text, choice in channel_choices(channels).items()}
    return {text: place for text, place in channels_by_text.items() if (place != c).any()}


def _narrow(op: str) -> Iterator[FaultVariant]:
    first, second = NAMES[op]
    formula, title = HEALTHY[op], op.replace("_", " ")
    for name, narrow in {"float32 without subnormals": flushed, **FORMATS, **FIXED, **LARGEST}.items():
        for what, change in (
            (f"{first} and {second} are", (narrow, narrow)),
            (f"{first} is", (narrow, None)),
            (f"{second} is", (None, narrow)),
        ):
            yield kernel_variant(
                f"{title}: {what} rounded to {name}",
                {op: partial(_computed, formula=formula, change=change)},
                9.0 + rarity(name),
            )
        for what, wrapped in {
            "x is": bind_last(lambda x, a, b, f: formula(f(x.astype(float)).astype(F), a, b), narrow),
            "the result is": bind_last(lambda x, a, b, f: f(formula(x, a, b).astype(float)), narrow),
            "the step before the result is": bind_last(
                lambda x, a, b, f: (
                    f((x * a if op == "batch_norm" else x - a).astype(float)).astype(F) + b
                    if op == "batch_norm"
                    else f((x - a).astype(float)).astype(F) * b
                ),
                narrow,
            ),
        }.items():
            yield kernel_variant(
                f"{title}: {what} rounded to {name}", {op: partial(_computed, formula=wrapped)}, 9.0 + rarity(name)
            )
