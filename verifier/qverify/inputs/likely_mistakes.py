"""Finds inputs that fit by size and surely are not meant: values outside of the quantized range, the other layout's
bytes (INPUTS.md section 8)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from qverify.inputs.described_inputs import described_inputs, layout_of
from qverify.inputs.draft import covered_range, draft_description, draft_layout
from qverify.inputs.random_inputs import quantization_of
from qverify.model_bin.graph import Graph
from qverify.tensors.prepared import PreparedInput, PreparedInputs
from qverify.tensors.spec import TensorSpec

Array = npt.NDArray[Any]
OUTSIDE = 0.1  # of the elements
ROUGHER = 0.8  # roughness of the other layout, as a part of the input's own
LEAST_SIDE = 16  # pixels


@dataclass(frozen=True, slots=True)
class LikelyMistake:
    """input: its name. said: what is wrong, without numbers of this frame. draft: of the description to write, TOML;
    "" where none is known."""

    input: str
    said: str
    draft: str


def find_likely_mistakes(graph: Graph, prepared: PreparedInputs) -> list[LikelyMistake]:
    """Returns at most one mistake of each input that was given: its layout, else its range."""
    described = described_inputs(graph)
    found = []
    for one in prepared.inputs:
        if one.seed is None and one.spec.name not in described:
            mistake = _find_layout(one) or _find_range(graph, one)
            found += [mistake] if mistake is not None else []
    return found


def _find_range(graph: Graph, one: PreparedInput) -> LikelyMistake | None:
    name = one.spec.name
    quantized = quantization_of(graph, name) if one.spec.dtype == "float32" else None
    if quantized is None:
        return None
    low, high = covered_range(quantized)
    values, step = one.array().astype(np.float32, copy=False), quantized.scale[0]
    outside = np.count_nonzero((values < low - step) | (values > high + step))
    if not values.size or outside < OUTSIDE * values.size:
        return None
    pixels = values.min() >= 0 and values.max() <= 255 and bool((values == np.rint(values)).all())
    what = "8-bit pixels (0..255)" if pixels else "a tenth of the values or more"
    said = f"input {name}: {what} do not fit its quantized range {low:.4g}..{high:.4g}: normalized otherwise, or not at all?"
    return LikelyMistake(name, said, draft_description(name, one.spec, quantized))


def _find_layout(one: PreparedInput) -> LikelyMistake | None:
    spec = one.spec
    layout = layout_of(spec) or _layout_of_four(spec)
    if not layout or spec.dtype not in ("float32", "int8", "uint8"):
        return None
    channels, height, width = spec.shape[1:] if layout == "NCHW" else (spec.shape[3], *spec.shape[1:3])
    if channels < 3 or min(height, width) < LEAST_SIDE:
        return None
    flat = one.array().reshape(-1).astype(np.float32)
    planes, pixels = flat.reshape(channels, height, width), flat.reshape(height, width, channels)
    rough = {"NCHW": _roughness(planes, 1, 2), "NHWC": _roughness(pixels, 0, 1)}
    other = "NHWC" if layout == "NCHW" else "NCHW"
    if not rough[other] <= ROUGHER * rough[layout] or not rough[layout]:
        return None
    said = f"input {spec.name}: the bytes look like {other} (by the differences of neighbours), the input is {layout}"
    return LikelyMistake(spec.name, said, draft_layout(spec.name, spec))


def _layout_of_four(spec: TensorSpec) -> str:
    """Returns NCHW or NHWC of a picture with 4 channels; "" of any other tensor."""
    if len(spec.shape) != 4 or spec.shape[0] != 1:
        return ""
    return "NCHW" if spec.shape[1] == 4 else "NHWC" if spec.shape[3] == 4 else ""


def _roughness(values: Array, *axes: int) -> float:
    """Returns the sum over the axes of the mean absolute difference of neighbours."""
    return sum(float(np.abs(np.diff(values, axis=axis)).mean(dtype=np.float64)) for axis in axes)
