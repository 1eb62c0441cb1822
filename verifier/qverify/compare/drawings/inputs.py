"""Computes the drawings of the prepared inputs: a picture if the input can be shown as one, and a histogram of
values."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from qverify.compare.drawings.draw_tensor import (
    BINS,
    Span,
    compute_quantized_range,
    count_at_ends,
    iterate_known_blocks,
)
from qverify.compare.paired_values import PairedValues
from qverify.report.drawings import InputDrawing, ValueHistogram
from qverify.tensors.prepared import PreparedInput, PreparedInputs
from qverify.tensors.recording import Array
from qverify.tensors.spec import TensorSpec

# Largest side of a drawn picture, smallest side of a plane that is drawn as a picture (pixels), largest number of
# inputs
SIDE, SMALLEST, MAX_INPUTS = 224, 8, 8
CHANNELS = (1, 3)


def draw_inputs(prepared: PreparedInputs) -> list[InputDrawing]:
    """Returns the drawings of the first MAX_INPUTS inputs."""
    return [_draw_input(prepared_input) for prepared_input in prepared.inputs[:MAX_INPUTS]]


def _draw_input(prepared_input: PreparedInput) -> InputDrawing:
    value, spec = prepared_input.array(), prepared_input.spec
    picture, description = _make_picture(value, prepared_input.is_bgr)
    return InputDrawing(spec.name, spec.dtype, spec.shape, picture, _make_histogram(value, spec), description)


def _make_histogram(value: Array, spec: TensorSpec) -> ValueHistogram | None:
    values, span, counts = PairedValues(value, value, spec, spec), Span(), np.zeros(BINS, np.int64)
    for block in iterate_known_blocks(values):
        span.add(block.a)
    if not span.known:
        return None
    for block in iterate_known_blocks(values):
        counts += np.bincount(span.bins(block.a, BINS), block.count, BINS).astype(np.int64)
    limits = compute_quantized_range(spec)
    return ValueHistogram(span.low, span.high, counts, None, limits, count_at_ends(value) if limits else None, None)


def _make_picture(value: Array, is_bgr: bool) -> tuple[npt.NDArray[np.uint8] | None, str]:
    """Returns a picture (height, width, 3) and its description, or None and "" if the input does not have 1 or 3
    channels. is_bgr: whether three channels are blue, green and red."""
    if value.ndim not in (3, 4) or value.dtype.kind not in "iuf" or not value.size:
        return None, ""
    first = value[0] if value.ndim == 4 else value
    planes = first if first.shape[2] in CHANNELS else np.moveaxis(first, 0, 2)
    height, width, channels = planes.shape
    if channels not in CHANNELS or min(height, width) < SMALLEST:
        return None, ""
    step = -(-max(height, width) // SIDE)
    small = planes[::step, ::step].astype(np.float64)
    small = np.where(np.isfinite(small), small, 0.0)
    low, high = float(small.min()), float(small.max())
    shades = (small / (high - low) - low / (high - low)) * 255 if high > low else np.zeros_like(small)
    whole = np.repeat(shades, 3, axis=2) if channels == 1 else shades[..., ::-1] if is_bgr else shades
    words = f"{width} x {height}" + (f", one pixel of {step} x {step}" if step > 1 else "")
    more = f", the first of {value.shape[0]}" if value.ndim == 4 and value.shape[0] > 1 else ""
    fed = "fed as BGR, shown in its colours" if is_bgr else "channels in the order in which they were fed"
    order = f", {fed}" if channels == 3 else ""
    return np.clip(np.rint(whole), 0, 255).astype(
        np.uint8
    ), f"{words}{order}{more}; its least value is black, its largest full"
