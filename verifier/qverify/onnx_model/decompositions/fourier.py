"""Writes Fourier transforms of a constant length, DFT and STFT, as products with a constant matrix of cosines and sines."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx

from qverify.arithmetic import functions64
from qverify.onnx_model.rewriter import Dims, Rewriter, attribute, input_name

Array = npt.NDArray[Any]
MAX_ELEMENTS = 1 << 25  # of a matrix or of the places of frames, which become constants of model.bin
REAL, COMPLEX = 1, 2  # sizes of the last dim of a signal


def dft(r: Rewriter, node: onnx.NodeProto) -> None:
    """Writes a DFT: the signal is cut to the length; zeros that would lengthen it need no rows of the matrix."""
    signal, shape = node.input[0], _signal_dims(r, node)
    axis, inverse = _axis(r, node, len(shape)), bool(attribute(node, "inverse", 0))
    onesided, parts = bool(attribute(node, "onesided", 0)), shape[-1]
    if onesided and parts != (COMPLEX if inverse else REAL):
        raise r.refusal("onesided is defined from real signals, and with inverse from complex ones")
    to_real = onesided and inverse
    length = _number(r, input_name(node, 1), "dft_length", 2 * (shape[axis] - 1) if to_real else shape[axis])
    if to_real and (length < 1 or shape[axis] != length // 2 + 1):
        raise r.refusal(
            f"inverse and onesided from {shape[axis]} values to {length} is not supported; from {max(length, 0) // 2 + 1} it is"
        )
    if length < shape[axis] and not to_real:
        cut = [signal, r.ints("first", [0]), r.ints("length", [length]), r.ints("axis", [axis])]
        signal = r.step("Slice", cut, "cut")
    matrix = _matrix(r, min(length, shape[axis]), parts, length, onesided and not inverse, inverse)
    around = tuple(d for at, d in enumerate(shape[:-1]) if at != axis)
    _along_axis(r, signal, axis, around, _real_signal(matrix, length) if to_real else matrix, node.output[0])


def stft(r: Rewriter, node: onnx.NodeProto) -> None:
    """Writes an STFT: the frames are gathered, multiplied by the window, and each is transformed."""
    shape, window = _signal_dims(r, node), input_name(node, 2)
    step = _number(r, node.input[1], "frame_step", 0)
    length = _number(r, input_name(node, 3), "frame_length", r.dims(window)[0] if window else 0)
    if len(shape) != 3 or not 1 <= length <= shape[1] or (window and r.dims(window) != (length,)):
        raise r.refusal(f"frame_length={length} does not fit the signal {list(shape)}, or the window")
    count = (shape[1] - length) // step + 1
    _check_size(r, count * length)
    matrix = _matrix(r, length, shape[2], length, bool(attribute(node, "onesided", 1)), False)
    places = r.ints("places", np.arange(count)[:, None] * step + np.arange(length))
    frames = r.step("Gather", [node.input[0], places], "frames", axis=1)
    if window:
        column = r.step("Reshape", [window, r.ints("window_dims", [length, 1])], "window")
        frames = r.step("Mul", [frames, column], "windowed")
    _multiply(r, frames, (shape[0], count), matrix, node.output[0])


def _signal_dims(r: Rewriter, node: onnx.NodeProto) -> Dims:
    """Returns the dims of the signal. Raises UnsupportedError unless it has real or complex values of float32."""
    shape = r.dims(node.input[0])
    if len(shape) < 2 or shape[-1] not in (REAL, COMPLEX) or r.kind(node.input[0]) != onnx.TensorProto.FLOAT:
        raise r.refusal(f"a signal of {list(shape)} is not supported; wanted float32 whose last dim is 1 or 2")
    return shape


def _axis(r: Rewriter, node: onnx.NodeProto, rank: int) -> int:
    """Returns the axis of a DFT, an attribute before opset 20 and an input since then, counted from the front."""
    axis = _constant(r, input_name(node, 2), "axis", -2) if r.opset >= 20 else int(attribute(node, "axis", 1))
    if not -rank <= axis < rank or axis % rank == rank - 1:
        raise r.refusal(f"axis={axis} of {rank} dims is not supported")
    return axis % rank


def _number(r: Rewriter, name: str, what: str, default: int) -> int:
    """Returns a number of elements, which a constant input states. Raises UnsupportedError if it is less than 1."""
    number = _constant(r, name, what, default)
    if name and number < 1:
        raise r.refusal(f"{what}={number} is not supported; wanted 1 or more")
    return number


def _constant(r: Rewriter, name: str, what: str, default: int) -> int:
    """Returns the only element of a constant input, the default if the node does not have it."""
    value = r.value(name) if name else np.array(default)
    if value is None or value.size != 1:
        raise r.refusal(f"its {what} is computed at run time; only one constant number can be compiled")
    return int(value.reshape(-1)[0])


def _check_size(r: Rewriter, elements: int) -> None:
    if elements > MAX_ELEMENTS:
        raise r.refusal(f"its matrix or its frames would have {elements} elements; up to {MAX_ELEMENTS} are supported")


def _matrix(r: Rewriter, size: int, parts: int, length: int, half: bool, inverse: bool) -> Array:
    """Returns the float32 matrix [size, parts, frequencies, 2] of a transform of this length, of which the signal has
    the first `size` elements. half: whether only the frequencies up to length/2 are wanted. Each element is computed
    in float64 and rounded once."""
    frequencies = length // 2 + 1 if half else length
    _check_size(r, size * parts * frequencies * 2)
    circle = _circle(length).conj() if not inverse else _circle(length) / length
    real = circle.astype(np.complex64)[np.outer(np.arange(size), np.arange(frequencies)) % length]
    waves = np.stack([real, real * np.complex64(1j)][:parts], 1)
    return np.stack([waves.real, waves.imag], -1)


def _circle(length: int) -> Array:
    """Returns the points exp(2 pi i k / length). Those of a whole number of quarter turns are exact."""
    quarters, rest = np.divmod(4 * np.arange(length), length)
    angles = rest * (np.pi / 2) / length
    return np.asarray((functions64.cos(angles) + 1j * functions64.sin(angles)) * np.array([1, 1j, -1, -1j])[quarters])


def _real_signal(matrix: Array, length: int) -> Array:
    """Returns the matrix of an inverse transform to a real signal: a frequency stands for its conjugate, too, except
    the first one and, if the length is even, the last one."""
    weights = np.full((len(matrix), 1, 1, 1), 2, np.float32)
    weights[:: length if length % 2 else length // 2] = 1
    return matrix[..., :1] * weights


def _along_axis(r: Rewriter, signal: str, axis: int, around: Dims, matrix: Array, output: str) -> None:
    """Writes the product of the signal and the matrix along an axis. around: the dims of the signal without the axis
    and the last one."""
    rank = len(around) + 2
    if axis == rank - 2:
        _multiply(r, signal, around, matrix, output)
        return
    order = [*(at for at in range(rank - 1) if at != axis), axis, rank - 1]
    turned = r.step("Transpose", [signal], "turned", perm=order)
    product = _multiply(r, turned, around, matrix, r.fresh("transformed"))
    r.node("Transpose", [product], output, perm=[order.index(at) for at in range(rank)])


def _multiply(r: Rewriter, signal: str, around: Dims, matrix: Array, output: str) -> str:
    """Writes the product of a signal [*around, size, parts] and a matrix [size, parts, frequencies, parts]."""
    flat = matrix.reshape(matrix.shape[0] * matrix.shape[1], -1)
    rows = r.step("Reshape", [signal, r.ints("rows_dims", [prod(around), len(flat)])], "rows")
    product = r.step("MatMul", [rows, r.constant("matrix", flat)], "product")
    return r.node("Reshape", [product, r.ints("dims", [*around, *matrix.shape[2:]])], output)


REPLACED = {("", "DFT"): dft, ("", "STFT"): stft}
