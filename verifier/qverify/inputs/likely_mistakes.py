"""Finds inputs that fit by size but are almost certainly mistakes: values outside of the quantized range, or bytes in
the other layout (INPUTS.md section 8)."""

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
OUTSIDE = 0.1  # share of the elements outside of the range
SMOOTHER = 0.8  # roughness in the other layout, relative to that in the input's own
MIN_SIDE = 16  # pixels


@dataclass(frozen=True, slots=True)
class LikelyMistake:
    """A likely mistake.

    Attributes:
        input: name of the input.
        text: description of the mistake, without numbers that are specific to this frame.
        draft: TOML draft of a description that the user should write, or "" if none is known.
    """

    input: str
    text: str
    draft: str


def find_likely_mistakes(graph: Graph, prepared: PreparedInputs) -> list[LikelyMistake]:
    """Returns at most one mistake for each input that was not random: a wrong layout, else a wrong range."""
    described = described_inputs(graph)
    mistakes = []
    for prepared_input in prepared.inputs:
        if prepared_input.seed is None and prepared_input.spec.name not in described:
            mistake = _find_wrong_layout(prepared_input) or _find_wrong_range(graph, prepared_input)
            mistakes += [mistake] if mistake is not None else []
    return mistakes


def _find_wrong_range(graph: Graph, prepared_input: PreparedInput) -> LikelyMistake | None:
    """Returns a mistake if many values lie outside of the range to which the input is quantized, else None."""
    spec = prepared_input.spec
    name = spec.name
    quantized = quantization_of(graph, name) if spec.dtype in ("float32", "float16") else None
    if quantized is None:
        return None
    low, high = covered_range(quantized)
    values, step = prepared_input.array().astype(np.float32, copy=False), quantized.scale[0]
    outside = np.count_nonzero((values < low - step) | (values > high + step))
    if not values.size or outside < OUTSIDE * values.size:
        return None
    pixels = values.min() >= 0 and values.max() <= 255 and bool((values == np.rint(values)).all())
    values_text = "8-bit pixels (0..255)" if pixels else "a tenth of the values or more"
    text = (
        f"input {name}: {values_text} do not fit its quantized range {low:.4g}..{high:.4g}: "
        "normalized otherwise, or not at all?"
    )
    return LikelyMistake(name, text, draft_description(name, spec, quantized))


def _find_wrong_layout(prepared_input: PreparedInput) -> LikelyMistake | None:
    """Returns a mistake if the bytes are much smoother in the layout that is not the input's, else None."""
    spec = prepared_input.spec
    layout = layout_of(spec) or _find_layout_of_four_channels(spec)
    if not layout or spec.dtype not in ("float32", "float16", "int8", "uint8"):
        return None
    channels, height, width = spec.shape[1:] if layout == "NCHW" else (spec.shape[3], *spec.shape[1:3])
    if channels < 3 or min(height, width) < MIN_SIDE:
        return None
    flat = prepared_input.array().reshape(-1).astype(np.float32)
    planes, pixels = flat.reshape(channels, height, width), flat.reshape(height, width, channels)
    roughness = {"NCHW": _measure_roughness(planes, 1, 2), "NHWC": _measure_roughness(pixels, 0, 1)}
    other = "NHWC" if layout == "NCHW" else "NCHW"
    if not roughness[other] <= SMOOTHER * roughness[layout] or not roughness[layout]:
        return None
    text = f"input {spec.name}: the bytes look like {other} (by the differences of neighbours), the input is {layout}"
    return LikelyMistake(spec.name, text, draft_layout(spec.name, spec))


def _find_layout_of_four_channels(spec: TensorSpec) -> str:
    """Returns the layout NCHW or NHWC of a picture with 4 channels, or "" for any other tensor."""
    if len(spec.shape) != 4 or spec.shape[0] != 1:
        return ""
    return "NCHW" if spec.shape[1] == 4 else "NHWC" if spec.shape[3] == 4 else ""


def _measure_roughness(values: Array, *axes: int) -> float:
    """Returns the mean absolute difference of neighbours along each axis, summed over the axes."""
    return sum(float(np.abs(np.diff(values, axis=axis)).mean(dtype=np.float64)) for axis in axes)
