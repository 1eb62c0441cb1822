"""CMSIS-NN's functions for int8, compiled for this processor from its sources: files of one operator."""

from __future__ import annotations

import ctypes
import platform
import subprocess
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from qverify.arithmetic.multipliers import parameters
from qverify.tflite_model.windows import pads_of, strides_of

Array = npt.NDArray[Any]
FOLDERS = ("Activation", "BasicMath", "Convolution", "FullyConnected", "NNSupport", "Pooling", "Softmax")
OTHER_TYPES = ("s4", "f16", "f32")
BUFFER = 64 << 20
LEFT_SHIFT, FRACTION = 20, 26  # of an addition's operands; of a softmax's differences
RELU = 1


class NotRun(Exception):
    """A file that an engine refuses or fails to run."""


def _ints(*values: int) -> Any:
    """Returns a structure of int32."""
    return (ctypes.c_int32 * len(values))(*values)


def _pointer(value: Array) -> Any:
    return value.ctypes.data_as(ctypes.c_void_p)


class _Context(ctypes.Structure):
    _fields_ = (("buffer", ctypes.c_void_p), ("size", ctypes.c_int32))


class _Quantization(ctypes.Structure):
    _fields_ = (("multiplier", ctypes.c_void_p), ("shift", ctypes.c_void_p), ("per_channel", ctypes.c_int32))


class CmsisNn:
    """CMSIS-NN, with multipliers and shifts as its users compute them (TFLM). folder: of its sources."""

    def __init__(self, folder: str):
        self._folder, source = tempfile.TemporaryDirectory(), Path(folder)
        files = sorted(f for name in FOLDERS for f in (source / "Source" / f"{name}Functions").glob("*.c"))
        files = [f for f in files if not any(f"_{t}" in f.name for t in OTHER_TYPES)]
        if not files:
            raise NotRun(f"{folder}: no sources of CMSIS-NN there; --source FOLDER (ARM-software/CMSIS-NN)")
        library = Path(self._folder.name) / "cmsis_nn.so"
        command = [
            "gcc",
            "-O1",
            "-w",
            "-shared",
            "-fPIC",
            f"-I{source / 'Include'}",
            "-o",
            str(library),
            *map(str, files),
        ]
        made = subprocess.run(command, capture_output=True, text=True, check=False)
        if made.returncode:
            raise NotRun(f"{folder}: gcc: {made.stderr.strip()[-200:]}")
        self._library, self._memory = ctypes.CDLL(str(library)), np.zeros(BUFFER, np.int8)
        text = (source / "Include" / "arm_nnfunctions.h").read_text()
        revision = next((w for w in text.split() if w.startswith("V.")), "")
        self.name = f"CMSIS-NN {revision}, C code without extensions, {platform.machine()}"

    def run(self, model: Any, data: bytes, feed: Sequence[Array], wanted: Sequence[int]) -> Mapping[int, Array]:
        """Returns inputs and output of a file of one operator by index."""
        (operator,), y = model.operators, model.tensors[model.operators[0].outputs[0]]
        functions: dict[str, Callable[..., int]] = {
            "CONV_2D": self._convolve,
            "DEPTHWISE_CONV_2D": self._convolve,
            "FULLY_CONNECTED": self._multiply_matrix,
            "ADD": self._add,
            "MUL": self._multiply,
            "AVERAGE_POOL_2D": self._pool,
            "SOFTMAX": self._softmax,
        }
        if operator.kind not in functions or y.dtype != "int8":
            raise NotRun("no function for it")
        values = dict(zip(model.inputs, map(np.ascontiguousarray, feed), strict=True))
        operands = [model.tensors[i] for i in operator.inputs]
        arrays = [values[t.index] if t.data is None else np.ascontiguousarray(t.data) for t in operands]
        result = np.zeros(y.shape, np.int8)
        status = functions[operator.kind](operator, operands, y, arrays, result)
        if status:
            raise NotRun(f"its function returns {status}")
        return values | {y.index: result}

    @property
    def _context(self) -> Any:
        return ctypes.byref(_Context(self._memory.ctypes.data, BUFFER))

    def _limits(self, operator: Any, y: Any) -> tuple[int, int]:
        relu = int(operator.options.get("FusedActivationFunction", 0)) == RELU
        return (max(-128, int(y.zero[0])) if relu else -128), 127

    def _convolve(self, operator: Any, operands: Any, y: Any, arrays: Any, result: Array) -> int:
        x, w, b = operands
        deep = operator.kind == "DEPTHWISE_CONV_2D"
        kernel = [int(k) for k in w.shape[1:3]]
        pads, strides = pads_of(operator, x.shape[1:3], y.shape[1:3], kernel), strides_of(operator)
        place = [strides[1], strides[0], pads[1], pads[0], 1, 1]
        how = _ints(-int(x.zero[0]), int(y.zero[0]), *([1] if deep else []), *place, *self._limits(operator, y))
        scales = float(x.scale[0]) * np.resize(w.scale.astype(np.float64), y.shape[3]) / float(y.scale[0])
        multiplier, shift = (np.ascontiguousarray(row) for row in parameters("gemmlowp", scales))
        quantization = _Quantization(multiplier.ctypes.data, shift.ctypes.data, 1)
        function = self._library.arm_depthwise_conv_wrapper_s8 if deep else self._library.arm_convolve_wrapper_s8
        dims = [_ints(*t.shape) for t in (x, w)] + [_ints(1, 1, 1, b.shape[0]), _ints(*y.shape)]
        pointers = [*map(_pointer, arrays), _pointer(result)]
        pairs = [part for pair in zip(dims, pointers, strict=True) for part in pair]
        return int(function(self._context, how, ctypes.byref(quantization), *pairs))

    def _multiply_matrix(self, operator: Any, operands: Any, y: Any, arrays: Any, result: Array) -> int:
        x, w, b = operands
        scales = float(x.scale[0]) * w.scale.astype(np.float64) / float(y.scale[0])
        multiplier, shift = (np.ascontiguousarray(row) for row in parameters("gemmlowp", scales))
        quantization = _Quantization(multiplier.ctypes.data, shift.ctypes.data, int(len(scales) > 1))
        how = _ints(-int(x.zero[0]), 0, int(y.zero[0]), *self._limits(operator, y))
        sums = np.zeros(w.shape[0], np.int32)  # of the weights, which some processors' kernels read from the buffer
        sums[:] = -int(x.zero[0]) * arrays[1].astype(np.int64).sum(1) + arrays[2]
        self._memory[: sums.nbytes] = sums.view(np.int8)
        dims = [_ints(x.shape[0], 1, 1, x.shape[1]), _ints(x.shape[1], 1, 1, w.shape[0])]
        dims += [_ints(1, 1, 1, b.shape[0]), _ints(y.shape[0], 1, 1, y.shape[1])]
        pointers = [*map(_pointer, arrays), _pointer(result)]
        pairs = [part for pair in zip(dims, pointers, strict=True) for part in pair]
        function = self._library.arm_fully_connected_wrapper_s8
        return int(function(self._context, how, ctypes.byref(quantization), *pairs))

    def _add(self, operator: Any, operands: Any, y: Any, arrays: Any, result: Array) -> int:
        a, b = (float(t.scale[0]) for t in operands)
        twice = 2 * max(a, b)
        rq = parameters("gemmlowp", [a / twice, b / twice, twice / (float(y.scale[0]) * 2**LEFT_SHIFT)]).T.tolist()
        zeros = [-int(t.zero[0]) for t in operands]
        words = [zeros[0], *rq[0], zeros[1], *rq[1], LEFT_SHIFT]
        ends = [int(y.zero[0]), *rq[2], *self._limits(operator, y), result.size]
        pointers = [*map(_pointer, arrays)]
        return int(self._library.arm_elementwise_add_s8(*pointers, *words, _pointer(result), *ends))

    def _multiply(self, operator: Any, operands: Any, y: Any, arrays: Any, result: Array) -> int:
        scale = float(operands[0].scale[0]) * float(operands[1].scale[0]) / float(y.scale[0])
        zeros = [-int(t.zero[0]) for t in operands]
        ends = [int(y.zero[0]), *parameters("gemmlowp", scale)[:, 0].tolist(), *self._limits(operator, y), result.size]
        pointers = [*map(_pointer, arrays)]
        return int(self._library.arm_elementwise_mul_s8(*pointers, *zeros, _pointer(result), *ends))

    def _pool(self, operator: Any, operands: Any, y: Any, arrays: Any, result: Array) -> int:
        (x,), kernel = operands, [int(operator.options[f]) for f in ("FilterHeight", "FilterWidth")]
        pads, strides = pads_of(operator, x.shape[1:3], y.shape[1:3], kernel), strides_of(operator)
        how = _ints(strides[1], strides[0], pads[1], pads[0], *self._limits(operator, y))
        dims = _ints(*x.shape), _ints(1, *kernel, 1), _ints(*y.shape)
        function = self._library.arm_avgpool_s8
        return int(function(self._context, how, dims[0], _pointer(arrays[0]), *dims[1:], _pointer(result)))

    def _softmax(self, operator: Any, operands: Any, y: Any, arrays: Any, result: Array) -> int:
        multiplier, left = parameters("gemmlowp", float(operands[0].scale[0]) * 2.0**FRACTION)[:, 0].tolist()
        least = -int(31 * 2.0**FRACTION / 2.0**left)
        rows, depth = y.shape
        self._library.arm_softmax_s8(_pointer(arrays[0]), rows, depth, multiplier, left, least, _pointer(result))
        return 0
