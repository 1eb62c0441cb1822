"""Files of one operator with random scales, sizes and zero points, of which a part has scales that make ties."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
from qverify.arithmetic.resize_places import fixed_point

from tests.tflite_files import File

Rng = np.random.Generator
Array = npt.NDArray[Any]
BOTH = ("int8", "uint8")
TIES = 0.3  # share of files whose scales are powers of two
OPTIONS = {"ADD": "AddOptions", "SUB": "SubOptions", "MUL": "MulOptions"}
RESIZED = (((7, 9), (23, 31)), ((20, 16), (7, 5)), ((10, 10), (20, 20)), ((5, 6), (64, 50)), ((33, 33), (65, 65)))
WINDOWS = ((2, 2), (3, 3), (7, 7), (8, 8), (3, 5), (5, 6), (4, 4))


def _scale(rng: Rng, low: float, high: float, ties: bool = False) -> float:
    value = float(np.exp(rng.uniform(np.log(low), np.log(high))))
    return float(np.float32(2.0 ** np.rint(np.log2(value)) if ties else value))


def _zero(rng: Rng, dtype: str) -> int:
    return int(rng.integers(-128, 128)) + (128 if dtype == "uint8" else 0)


def _ties(rng: Rng) -> bool:
    return bool(rng.random() < TIES)


def linear(rng: Rng, dtype: str, channels: bool, kind: str) -> bytes:
    """Returns a FULLY_CONNECTED, CONV_2D or DEPTHWISE_CONV_2D. channels: whether each output has its own scale."""
    f, ties = File(), _ties(rng)
    deep, wide = kind == "DEPTHWISE_CONV_2D", kind == "FULLY_CONNECTED"
    window = 1 if wide else int(rng.choice([3, 5] if deep else [1, 1, 3]))
    inputs, outputs = (64, 256) if wide else (16, 32) if not deep else (16, 16)
    size, stride = 48 // window, int(rng.choice([1, 1, 2]))
    added = window * window * (1 if deep else inputs)
    sx, steps = _scale(rng, 0.01, 0.1, ties), np.exp(rng.uniform(-0.7, 0.7, outputs if channels else 1))
    steps = np.exp2(np.rint(np.log2(steps))) if ties else steps
    steps = (steps * _scale(rng, 0.002, 0.02, ties)).astype(np.float32)
    sy = sx * float(np.median(steps)) * np.sqrt(added) * 74.0**2 / 50.0
    sy = float(np.float32(2.0 ** np.rint(np.log2(sy)) if ties else sy))
    shape = [64, inputs] if wide else [1, size, size, inputs]
    x = f.tensor("x", shape, dtype, sx, _zero(rng, dtype))
    low, zero = (-127, 0) if dtype == "int8" else (1, int(rng.integers(110, 140)))
    dims = [outputs, inputs] if wide else [1, window, window, outputs] if deep else [outputs, window, window, inputs]
    weights = rng.integers(low, low + 254, dims)
    w = f.tensor("w", dims, dtype, steps, zero, weights, axis=3 if deep and channels else 0)
    b = f.tensor("b", [outputs], "int32", np.float32(sx) * steps, 0, rng.integers(-4000, 4000, outputs))
    made = [64, outputs] if wide else [1, -(-size // stride), -(-size // stride), outputs]
    y = f.tensor("y", made, dtype, sy, _zero(rng, dtype))
    if wide:
        f.operator(kind, [x, w, b], [y], "FullyConnectedOptions")
    else:
        more = {"depthMultiplier": 1} if deep else {}
        table = "DepthwiseConv2DOptions" if deep else "Conv2DOptions"
        f.operator(kind, [x, w, b], [y], table, strideH=stride, strideW=stride, dilationHFactor=1, dilationWFactor=1,
                   padding=0, fusedActivationFunction=int(rng.choice([0, 1])), **more)  # fmt: skip
    f.inputs, f.outputs = [x], [y]
    return f.written()


def edges(rng: Rng, dtype: str, channels: bool, kind: str) -> bytes:
    """Returns the same operators with weights of 0 and biases next to ties, where multipliers that were computed in
    different ways part."""
    f, outputs = File(), 4096
    deep, wide = kind == "DEPTHWISE_CONV_2D", kind == "FULLY_CONNECTED"
    inputs = outputs if deep else 8
    sx, sy = _scale(rng, 0.01, 0.1), _scale(rng, 0.01, 0.1)
    steps = (np.exp(rng.uniform(-2.0, 2.0, outputs if channels else 1)) * _scale(rng, 1e-5, 1e-4)).astype(np.float32)
    zero, zero_y = 0 if dtype == "int8" else int(rng.integers(110, 140)), _zero(rng, dtype)
    lowest = -128 if dtype == "int8" else 0
    ties = np.resize(np.arange(lowest, lowest + 255) + 0.5 - zero_y, outputs)
    biases = np.rint(ties / (np.float64(sx) * steps / sy)) + rng.integers(-1, 2, outputs)
    x = f.tensor("x", [1, inputs] if wide else [1, 1, 1, inputs], dtype, sx, _zero(rng, dtype))
    dims = [outputs, inputs] if wide else [1, 1, 1, outputs] if deep else [outputs, 1, 1, inputs]
    w = f.tensor("w", dims, dtype, steps, zero, np.full(dims, zero), axis=3 if deep and channels else 0)
    b = f.tensor("b", [outputs], "int32", np.float32(sx) * steps, 0, biases)
    y = f.tensor("y", [1, outputs] if wide else [1, 1, 1, outputs], dtype, sy, zero_y)
    if wide:
        f.operator(kind, [x, w, b], [y], "FullyConnectedOptions")
    else:
        more = {"depthMultiplier": 1} if deep else {}
        table = "DepthwiseConv2DOptions" if deep else "Conv2DOptions"
        f.operator(kind, [x, w, b], [y], table, strideH=1, strideW=1, dilationHFactor=1, dilationWFactor=1,
                   padding=0, fusedActivationFunction=0, **more)  # fmt: skip
    f.inputs, f.outputs = [x], [y]
    return f.written()


def pair(rng: Rng, dtype: str, kind: str) -> bytes:
    """Returns an ADD, SUB or MUL of two tensors."""
    f, ties = File(), _ties(rng)
    sa, sb = (_scale(rng, 0.01, 0.3, ties) for _ in range(2))
    sy = sa * sb * _scale(rng, 20, 200, ties) if kind == "MUL" else (sa + sb) * _scale(rng, 0.3, 1.5)
    a, b = (f.tensor(n, [1, 1 << 16], dtype, s, _zero(rng, dtype)) for n, s in (("a", sa), ("b", sb)))
    sy = float(np.float32(2.0 ** np.rint(np.log2(sy)) if ties else sy))
    y = f.tensor("y", [1, 1 << 16], dtype, sy, _zero(rng, dtype))
    f.operator(kind, [a, b], [y], OPTIONS[kind], fusedActivationFunction=int(rng.choice([0, 0, 1])))
    f.inputs, f.outputs = [a, b], [y]
    return f.written()


def pool(rng: Rng, dtype: str) -> bytes:
    """Returns an AVERAGE_POOL_2D, of windows or of the whole image."""
    f, (rows, columns), whole = File(), WINDOWS[rng.integers(len(WINDOWS))], rng.random() < 0.3
    size, channels = ((rows, columns), 1000) if whole else ((rows + 9, columns + 7), 24)
    stride, padding = (1, 1) if whole else (2, int(rng.integers(2)))
    to = [
        -(-s // stride) if padding == 0 else (s - k) // stride + 1 for s, k in zip(size, (rows, columns), strict=True)
    ]
    how = {"scale": _scale(rng, 0.01, 0.2), "zero": _zero(rng, dtype)}
    x, y = f.tensor("x", [1, *size, channels], dtype, **how), f.tensor("y", [1, *to, channels], dtype, **how)
    f.operator("AVERAGE_POOL_2D", [x], [y], "Pool2DOptions", padding=padding, strideH=stride, strideW=stride,
               filterHeight=rows, filterWidth=columns, fusedActivationFunction=0)  # fmt: skip
    f.inputs, f.outputs = [x], [y]
    return f.written()


def mean(rng: Rng, dtype: str) -> bytes:
    """Returns a MEAN over height and width."""
    f, size, keep, same = File(), WINDOWS[rng.integers(len(WINDOWS))], rng.random() < 0.5, _ties(rng)
    sx, zx = _scale(rng, 0.01, 0.2), _zero(rng, dtype)
    sy, zy = (sx, zx) if same else (sx * _scale(rng, 0.1, 1.0), _zero(rng, dtype))
    x = f.tensor("x", [1, *size, 2000], dtype, sx, zx)
    axes = f.tensor("axes", [2], "int32", None, 0, np.array([1, 2], np.int32))
    y = f.tensor("y", [1, 1, 1, 2000] if keep else [1, 2000], dtype, float(np.float32(sy)), zy)
    f.operator("MEAN", [x, axes], [y], "ReducerOptions", keepDims=bool(keep))
    f.inputs, f.outputs = [x], [y]
    return f.written()


def change(rng: Rng, dtype: str) -> bytes:
    """Returns a QUANTIZE from one quantization of 8 bits to another, of which a third changes the type."""
    f, ties, to = File(), _ties(rng), dtype if rng.random() < 0.6 else BOTH[dtype == "int8"]
    x = f.tensor("x", [1, 1024], dtype, _scale(rng, 0.005, 0.2, ties), _zero(rng, dtype))
    y = f.tensor("y", [1, 1024], to, _scale(rng, 0.005, 0.2, ties), _zero(rng, to))
    f.operator("QUANTIZE", [x], [y], "QuantizeOptions")
    f.inputs, f.outputs = [x], [y]
    return f.written()


def logistic(rng: Rng, dtype: str) -> bytes:
    """Returns a LOGISTIC."""
    f = File()
    x = f.tensor("x", [1, 2048], dtype, _scale(rng, 0.005, 0.2), _zero(rng, dtype))
    y = f.tensor("y", [1, 2048], dtype, 1 / 256, -128 if dtype == "int8" else 0)
    f.operator("LOGISTIC", [x], [y])
    f.inputs, f.outputs = [x], [y]
    return f.written()


def join(rng: Rng, dtype: str) -> bytes:
    """Returns a CONCATENATION of three tensors; those of int8 have one quantization."""
    f, ties = File(), _ties(rng)
    scales = [_scale(rng, 0.02, 0.2, ties) for _ in range(4)]
    zeros = [_zero(rng, dtype) for _ in range(4)]
    if dtype == "int8":
        scales, zeros = scales[:1] * 4, zeros[:1] * 4
    *xs, y = (f.tensor(f"t{k}", [1, 1024 if k < 3 else 3072], dtype, scales[k], zeros[k]) for k in range(4))
    f.operator("CONCATENATION", xs, [y], "ConcatenationOptions", axis=1, fusedActivationFunction=0)
    f.inputs, f.outputs = xs, [y]
    return f.written()


def softmax(rng: Rng, dtype: str) -> bytes:
    """Returns a SOFTMAX of many rows: few elements tell its two algorithms apart."""
    f, depth = File(), int(rng.choice([2, 3, 5, 10, 17, 33]))
    x = f.tensor("x", [30000, depth], dtype, _scale(rng, 0.002, 0.3), _zero(rng, dtype))
    y = f.tensor("y", [30000, depth], dtype, 1 / 256, -128 if dtype == "int8" else 0)
    f.operator("SOFTMAX", [x], [y], "SoftmaxOptions", beta=1.0)
    f.inputs, f.outputs = [x], [y]
    return f.written()


def resize(rng: Rng, dtype: str) -> bytes:
    """Returns a RESIZE_BILINEAR whose places all lie within the input."""
    while True:
        (size, to), mode = RESIZED[rng.integers(len(RESIZED))], int(rng.integers(3))
        align, half = mode == 1, mode == 2
        if all(fixed_point(s, t, align, half)[0].max() < s for s, t in zip(size, to, strict=True)):
            break
    f, how = File(), {"scale": 0.05, "zero": _zero(rng, dtype)}
    x, y = f.tensor("x", [1, *size, 24], dtype, **how), f.tensor("y", [1, *to, 24], dtype, **how)
    sizes = f.tensor("sizes", [2], "int32", None, 0, np.array(to, np.int32))
    f.operator("RESIZE_BILINEAR", [x, sizes], [y], "ResizeBilinearOptions", alignCorners=align, halfPixelCenters=half)
    f.inputs, f.outputs = [x], [y]
    return f.written()


Make = Callable[[Rng, str], bytes]
PROBES: dict[str, tuple[int, Make]] = {  # how many files of each type
    **{
        f"{kind}, {'channels' if channels else 'one scale'}": (
            count,
            lambda rng, dtype, kind=kind, channels=channels: linear(rng, dtype, channels and dtype == "int8", kind),
        )
        for kind, count in (("CONV_2D", 16), ("DEPTHWISE_CONV_2D", 12), ("FULLY_CONNECTED", 16))
        for channels in (True, False)
    },
    **{
        f"{kind}, {'channels' if channels else 'one scale'}, at ties": (
            8,
            lambda rng, dtype, kind=kind, channels=channels: edges(rng, dtype, channels and dtype == "int8", kind),
        )
        for kind in ("CONV_2D", "DEPTHWISE_CONV_2D", "FULLY_CONNECTED")
        for channels in (True, False)
    },
    **{k: (20, lambda rng, dtype, kind=k: pair(rng, dtype, kind)) for k in OPTIONS},
    "AVERAGE_POOL_2D": (16, pool),
    "MEAN": (24, mean),
    "QUANTIZE": (32, change),
    "LOGISTIC": (32, logistic),
    "CONCATENATION": (12, join),
    "SOFTMAX": (16, softmax),
    "RESIZE_BILINEAR": (12, resize),
}


def list_probes(seed: int) -> Iterator[tuple[str, str, bytes]]:
    """Yields operator, type and bytes of each file."""
    for name, (count, make) in PROBES.items():
        for dtype in BOTH:
            rng = np.random.default_rng([seed, *name.encode(), dtype == "int8"])
            for _ in range(count):
                yield name, dtype, make(rng, dtype)


def draw_inputs(model: Any, rng: Rng) -> list[Array]:
    """Returns random inputs of a file: every code, or floats between -1 and 1."""
    found = []
    for tensor in (model.tensors[i] for i in model.inputs):
        if tensor.dtype == "float32":
            found.append(rng.random(tensor.shape, np.float32) * 2 - 1)
        else:
            limits = np.iinfo(tensor.dtype)
            found.append(rng.integers(limits.min, limits.max + 1, tensor.shape).astype(tensor.dtype))
    return found
