"""Files of one operator each on int16 activations, with random scales and with scales that make ties, by name."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np

from tests.tflite_files import File, schema

Case = Callable[[int], bytes]  # a seed to a file
STEP = 2.0**-15  # of outputs between -1 and 1


def _scales(rng: np.random.Generator, ties: bool, count: int = 1, low: float = 0.002, high: float = 0.01) -> Any:
    """Returns scales of float32; powers of two where values shall lie at ties."""
    drawn = np.exp(rng.uniform(np.log(low), np.log(high), count))
    return (2.0 ** np.rint(np.log2(drawn)) if ties else drawn).astype(np.float32)


def product(seed: int, kind: str, ties: bool, per_channel: bool, activation: int = 0, bias: str = "int64") -> bytes:
    """Returns a CONV_2D, DEPTHWISE_CONV_2D or FULLY_CONNECTED of int16 with weights of int8. bias: its type, "" for none."""
    rng, f, dense = np.random.default_rng(seed), File(), kind == "FULLY_CONNECTED"
    channels, outputs = (64, 32) if dense else (4, 8)
    x_scale = _scales(rng, ties, low=0.0005, high=0.002)[0]
    steps = _scales(rng, ties, outputs if per_channel else 1)
    dims = {"CONV_2D": [outputs, 3, 3, channels], "DEPTHWISE_CONV_2D": [1, 3, 3, outputs]}.get(
        kind, [outputs, channels]
    )
    x = f.tensor("x", [250, channels] if dense else [1, 30, 30, channels], "int16", x_scale, 0)
    weights = rng.integers(-127, 128, dims)
    w = f.tensor("w", dims, "int8", steps, 0, weights, axis=3 if kind == "DEPTHWISE_CONV_2D" else 0)
    more = [f.tensor("b", [outputs], bias, x_scale * steps, 0, rng.integers(-(10**6), 10**6, outputs))] if bias else []
    to = float(_scales(rng, ties, low=0.004, high=0.02)[0])
    y = f.tensor("y", [250, outputs] if dense else [1, 30, 30, outputs], "int16", to, 0)
    how: dict[str, Any] = {"fusedActivationFunction": activation}
    if not dense:
        how |= {"strideH": 1, "strideW": 1, "dilationHFactor": 1, "dilationWFactor": 1, "padding": 0}
    if kind == "DEPTHWISE_CONV_2D":
        how["depthMultiplier"] = outputs // channels
    table = {"CONV_2D": "Conv2DOptions", "DEPTHWISE_CONV_2D": "DepthwiseConv2DOptions"}.get(
        kind, "FullyConnectedOptions"
    )
    if bias == "int32":
        how["quantizedBiasType"] = schema().TensorType.INT32
    f.operator(kind, [x, w, *more], [y], table, **how)
    f.inputs, f.outputs = [x], [y]
    return f.written()


def pair(seed: int, kind: str, ties: bool, activation: int = 0) -> bytes:
    """Returns an ADD, SUB or MUL of two int16."""
    rng, f, shape = np.random.default_rng(seed), File(), [1, 40, 40, 8]
    a_scale, b_scale = _scales(rng, ties, 2, 0.0003, 0.003)
    low, high = (0.005, 0.05) if kind == "MUL" else (0.0005, 0.004)
    a, b = f.tensor("a", shape, "int16", a_scale, 0), f.tensor("b", shape, "int16", b_scale, 0)
    y = f.tensor("y", shape, "int16", _scales(rng, ties, 1, low, high)[0], 0)
    how = {} if kind == "MUL" else {"potScaleInt16": False}
    f.operator(kind, [a, b], [y], f"{kind.capitalize()}Options", fusedActivationFunction=activation, **how)
    f.inputs, f.outputs = [a, b], [y]
    return f.written()


def single(
    seed: int,
    kind: str,
    ties: bool,
    shape: tuple[int, ...],
    to: tuple[int, ...],
    table: str = "",
    *,
    types: tuple[str, str] = ("int16", "int16"),
    scale: float | None = None,
    same: bool = False,
    constant: Any = None,
    **options: Any,
) -> bytes:
    """Returns an operator with one input. types: of input and output. scale: of the output; None for a random one. same:
    whether the output has the input's. constant: a second input, of int32."""
    rng, f = np.random.default_rng(seed), File()
    given = [float(_scales(rng, ties, 1, *((0.0003, 0.003) if t == "int16" else (0.05, 0.2)))[0]) for t in types]
    zeros = [0 if t == "int16" else int(rng.integers(-20, 20)) for t in types]
    x = f.tensor("x", list(shape), types[0], given[0] if types[0] != "float32" else None, zeros[0])
    more = (
        [] if constant is None else [f.tensor("c", list(np.shape(constant)), "int32", None, value=np.array(constant))]
    )
    out = given[0] if same else scale or given[1]
    y = f.tensor("y", list(to), types[1], out if types[1] != "float32" else None, zeros[1])
    f.operator(kind, [x, *more], [y], table, **options)
    f.inputs, f.outputs = [x], [y]
    return f.written()


def matrices(seed: int, ties: bool, adjoint: bool = False, second: str = "int16") -> bytes:
    """Returns a BATCH_MATMUL of an int16 with another tensor, which is a constant if it is int8."""
    rng, f = np.random.default_rng(seed), File()
    dims = [2, 5, 20, 30] if adjoint else [2, 5, 30, 20]
    a = f.tensor("a", [2, 5, 12, 30], "int16", _scales(rng, ties, 1, 0.0005, 0.002)[0], 0)
    value = rng.integers(-127, 128, dims) if second == "int8" else None
    b = f.tensor("b", dims, second, _scales(rng, ties)[0], 0, value)
    low, high = (0.002, 0.01) if second == "int8" else (0.3, 1.0)
    y = f.tensor("y", [2, 5, 12, 20], "int16", _scales(rng, ties, 1, low, high)[0], 0)
    f.operator("BATCH_MATMUL", [a, b], [y], "BatchMatMulOptions", adjY=adjoint)
    f.inputs, f.outputs = [a] if second == "int8" else [a, b], [y]
    return f.written()


def transposed(seed: int, ties: bool, per_channel: bool) -> bytes:
    """Returns a TRANSPOSE_CONV of int16 with weights of int8 and a bias of int64."""
    rng, f = np.random.default_rng(seed), File()
    x_scale, steps = _scales(rng, ties, low=0.0005, high=0.002)[0], _scales(rng, ties, 6 if per_channel else 1)
    x = f.tensor("x", [1, 9, 9, 8], "int16", x_scale, 0)
    w = f.tensor("w", [6, 3, 3, 8], "int8", steps, 0, rng.integers(-127, 128, [6, 3, 3, 8]))
    dims = f.tensor("dims", [4], "int32", None, value=np.array([1, 18, 18, 6]))
    b = f.tensor("b", [6], "int64", x_scale * steps, 0, rng.integers(-(10**6), 10**6, 6))
    y = f.tensor("y", [1, 18, 18, 6], "int16", _scales(rng, ties, low=0.004, high=0.02)[0], 0)
    f.operator("TRANSPOSE_CONV", [dims, w, x, b], [y], "TransposeConvOptions", strideH=2, strideW=2, padding=0)
    f.inputs, f.outputs = [x], [y]
    return f.written()


def _pools() -> Iterator[tuple[str, Case]]:
    for kind in ("AVERAGE_POOL_2D", "MAX_POOL_2D"):
        for size, step, padding in ((2, 2, 1), (3, 1, 0), (7, 2, 0), (28, 1, 1)):
            side = (28 - size) // step + 1 if padding else -(-28 // step)
            how = {"strideH": step, "strideW": step, "filterHeight": size, "filterWidth": size, "padding": padding}
            shapes = (1, 28, 28, 16), (1, side, side, 16)
            yield (
                f"{kind} {size} by {step}",
                partial(
                    single,
                    kind=kind,
                    ties=False,
                    shape=shapes[0],
                    to=shapes[1],
                    table="Pool2DOptions",
                    same=True,
                    **how,
                ),
            )


def int16_cases() -> dict[str, Case]:
    """Returns the cases by name, which begins with the operator."""
    cases: dict[str, Case] = {}
    for ties in (False, True):
        at = ", ties" if ties else ""
        for kind in ("CONV_2D", "DEPTHWISE_CONV_2D", "FULLY_CONNECTED"):
            for many in (False, True):
                name = f"{kind} {'per channel' if many else 'one scale'}{at}"
                cases[name] = partial(product, kind=kind, ties=ties, per_channel=many)
            cases[f"{kind} with an activation{at}"] = partial(
                product, kind=kind, ties=ties, per_channel=True, activation=1
            )
        cases[f"FULLY_CONNECTED without a bias{at}"] = partial(
            product, kind="FULLY_CONNECTED", ties=ties, per_channel=True, bias=""
        )
        for kind in ("CONV_2D", "FULLY_CONNECTED"):
            cases[f"{kind} with a bias of 32 bits{at}"] = partial(
                product, kind=kind, ties=ties, per_channel=True, bias="int32"
            )
        for second in ("int16", "int8"):
            cases[f"BATCH_MATMUL by {second}{at}"] = partial(matrices, ties=ties, second=second)
        cases[f"BATCH_MATMUL adjoint{at}"] = partial(matrices, ties=ties, adjoint=True)
        for many in (False, True):
            name = f"TRANSPOSE_CONV {'per channel' if many else 'one scale'}{at}"
            cases[name] = partial(transposed, ties=ties, per_channel=many)
        for kind in ("ADD", "SUB", "MUL"):
            cases[f"{kind}{at}"] = partial(pair, kind=kind, ties=ties)
            cases[f"{kind} with an activation{at}"] = partial(pair, kind=kind, ties=ties, activation=1)
        one = partial(single, ties=ties)
        for depth in (2, 10, 700):
            shape = (1400 // depth, depth)
            cases[f"SOFTMAX of {depth}{at}"] = partial(
                one, kind="SOFTMAX", shape=shape, to=shape, table="SoftmaxOptions", scale=STEP, beta=1.0
            )
        for kind in ("LOGISTIC", "TANH"):
            cases[f"{kind}{at}"] = partial(one, kind=kind, shape=(1, 20000), to=(1, 20000), scale=STEP)
        for kind, how in (("EXP", {}), ("GELU", {"approximate": False}), ("GELU", {"approximate": True})):
            cases[f"{kind}{' by tanh' * bool(sum(how.values()))}{at}"] = partial(
                one, kind=kind, shape=(1, 20000), to=(1, 20000), table="GeluOptions" if how else "", **how
            )
        cases[f"LEAKY_RELU{at}"] = partial(
            one, kind="LEAKY_RELU", shape=(1, 20000), to=(1, 20000), table="LeakyReluOptions", alpha=0.2
        )
        for keep in (False, True):
            to = (1, 1, 1, 500) if keep else (1, 500)
            cases[f"MEAN keep {keep}{at}"] = partial(
                one, kind="MEAN", shape=(1, 14, 14, 500), to=to, table="ReducerOptions", constant=[1, 2], keepDims=keep
            )
        for types in (("int16", "int16"), ("int16", "int8"), ("int8", "int16")):
            cases[f"QUANTIZE {types[0]} to {types[1]}{at}"] = partial(
                one, kind="QUANTIZE", shape=(1, 20000), to=(1, 20000), types=types
            )
    cases |= dict(_pools())
    plain = partial(single, ties=False, same=True)
    cases["RESHAPE to rows"] = partial(plain, kind="RESHAPE", shape=(1, 4, 6, 8), to=(1, 192), constant=[1, 192])
    cases["RESHAPE to an image"] = partial(
        plain, kind="RESHAPE", shape=(1, 192), to=(1, 4, 6, 8), constant=[1, 4, 6, 8]
    )
    for size in ((12, 12), (5, 9), (13, 4)):
        for how in ({}, {"alignCorners": True}, {"halfPixelCenters": True}):
            cases[f"RESIZE_BILINEAR to {size[0]}x{size[1]} {next(iter(how), '')}"] = partial(
                plain, kind="RESIZE_BILINEAR", shape=(1, 6, 6, 8), to=(1, *size, 8), table="ResizeBilinearOptions",
                constant=list(size), **how,
            )  # fmt: skip
    for kind in ("REDUCE_MAX", "REDUCE_MIN"):
        cases[kind] = partial(
            plain, kind=kind, shape=(1, 12, 20), to=(1, 20), table="ReducerOptions", constant=[1], keepDims=False
        )
    pads = [[0, 0], [1, 2], [0, 3], [0, 0]]
    cases["PAD"] = partial(plain, kind="PAD", shape=(1, 6, 6, 4), to=(1, 9, 9, 4), constant=pads)
    cases["DEQUANTIZE"] = partial(
        single, kind="DEQUANTIZE", ties=False, shape=(1, 20000), to=(1, 20000), types=("int16", "float32")
    )
    return cases
