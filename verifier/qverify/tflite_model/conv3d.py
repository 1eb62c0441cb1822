"""Converts CONV_3D of float32: each output is a product of the weights with a row, the elements of the input below its kernel."""

from __future__ import annotations

from math import prod

import numpy as np

from qverify.tflite_model.checks import activation_of, require
from qverify.tflite_model.dynamic_range import Steps
from qverify.tflite_model.read_tflite import Array, TfliteOperator
from qverify.tflite_model.writer import Writer

AXES = "DHW"
MOST_PLACES = 1 << 24
SAME, VALID = 0, 1  # the schema's numbers of paddings


def conv_3d(writer: Writer, operator: TfliteOperator) -> None:
    """Writes a CONV_3D (input NDHWC, weights DHWIO)."""
    require(len(operator.inputs) in (2, 3) and min(operator.inputs[:2]) >= 0, f"{len(operator.inputs)} inputs")
    x, weights = (writer.tensor(i) for i in operator.inputs[:2])
    y, bias = writer.tensor(operator.outputs[0]), [writer.tensor(i) for i in operator.inputs[2:] if i >= 0]
    require({t.dtype for t in (x, weights, y, *bias)} == {"float32"}, "tensors that are not all float32")
    require(weights.data is not None and all(t.data is not None for t in bias), "weights that are no constant")
    assert weights.data is not None
    require(len(x.shape) == len(y.shape) == weights.data.ndim == 5, "its tensors do not have five axes")
    kernel, (channels, outputs) = weights.data.shape[:3], weights.data.shape[3:]
    require(x.shape[4] == channels and y.shape[4] == outputs and x.shape[0] == y.shape[0], "channels that do not fit")
    inside, made = prod(x.shape[1:4]), prod(y.shape[1:4])
    places = _places(operator, x.shape[1:4], y.shape[1:4], kernel)
    require(places.size * channels <= MOST_PLACES, f"{places.size * channels} elements below its kernels")
    step, name = Steps(writer, writer.name(y.index)), writer.name(y.index)
    flat = step("Reshape", writer.real(x.index), _dims(writer, (x.shape[0], inside, channels)))
    if (places == inside).any():  # of padding
        border = writer.constant(f"{name}@border", np.zeros((x.shape[0], 1, channels), np.float32))
        flat = step("Concat", flat, border, axis=1)
    taken = step("Gather", flat, writer.constant(f"{name}@places", places.reshape(-1)), axis=1)
    rows = step("Reshape", taken, _dims(writer, (x.shape[0] * made, prod(kernel) * channels)))
    stored = writer.constant(f"{name}@weights", np.ascontiguousarray(weights.data.reshape(-1, outputs)))
    added = [writer.real(t.index) for t in bias]
    writer.node("Gemm", [rows, stored, *added], writer.unquantized(y.index))
    copy = writer.entry(f"{name}@rows", y.index, range(5), (x.shape[0] * made, outputs))
    writer.finish(operator, activation_of(operator), copy)
    writer.reshape_to(y.index, copy)


def _dims(writer: Writer, dims: tuple[int, ...]) -> str:
    return writer.constant(f"@shape{','.join(map(str, dims))}", np.array(dims, np.int64))


def _places(operator: TfliteOperator, given: tuple[int, ...], made: tuple[int, ...], kernel: tuple[int, ...]) -> Array:
    """Returns the places of an input of D x H x W elements that each output reads, int64 [outputs, kernel]; D*H*W for one in the
    padding."""
    padding, along = operator.options["Padding"], list[Array]()
    require(padding in (SAME, VALID), f"padding {padding}")
    for axis, size, to, width in zip(AXES, given, made, kernel, strict=True):
        stride, dilation = int(operator.options[f"Stride{axis}"]), int(operator.options[f"Dilation{axis}Factor"])
        span = (width - 1) * dilation + 1
        require(min(stride, dilation, width, to) > 0, f"a stride of {stride}, a dilation of {dilation}")
        wanted = -(-size // stride) if padding == SAME else (size - span) // stride + 1
        require(to == wanted, f"an output of {to} of {size} elements")
        before = max((to - 1) * stride + span - size, 0) // 2 if padding == SAME else 0
        along.append(np.arange(to)[:, None] * stride + np.arange(width) * dilation - before)
    require(prod(made) * prod(kernel) <= MOST_PLACES, f"{prod(made) * prod(kernel)} places below its kernels")
    flat, within = np.zeros((*made, *kernel), np.int64), np.ones((*made, *kernel), bool)
    for at, (size, places) in enumerate(zip(given, along, strict=True)):
        spread = np.expand_dims(places, [k for k in range(6) if k not in (at, at + 3)])
        within &= (spread >= 0) & (spread < size)
        flat = flat * size + spread
    return np.where(within, flat, prod(given)).reshape(prod(made), prod(kernel))
