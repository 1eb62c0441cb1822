"""Writes small .tflite files with LiteRT's own flatbuffers code."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

TYPES = {"int8": "INT8", "uint8": "UINT8", "int32": "INT32", "float32": "FLOAT32", "int64": "INT64", "int16": "INT16", "bool": "BOOL", "float16": "FLOAT16", "int4": "INT4", "int2": "INT2"}  # fmt: skip
PACKED = {"int4": 4, "int2": 2}  # bits of an element


def schema() -> Any:
    from ai_edge_litert import schema_py_generated

    return schema_py_generated


def packed(value: np.ndarray, dtype: str) -> np.ndarray:
    """Returns the bytes of a constant; of elements of fewer than 8 bits the first are in the lowest bits."""
    if dtype not in PACKED:
        return np.frombuffer(np.ascontiguousarray(value, dtype).tobytes(), np.uint8)
    bits, fields = PACKED[dtype], np.asarray(value).reshape(-1).astype(np.int64) & ((1 << PACKED[dtype]) - 1)
    rows = np.pad(fields, (0, -len(fields) % (8 // bits))).reshape(-1, 8 // bits)
    return (rows << np.arange(0, 8, bits)).sum(1).astype(np.uint8)


@dataclass
class File:
    """A .tflite to write: tensors and operators in order, then `written`."""

    tensors: list[Any] = field(default_factory=list)
    buffers: list[Any] = field(default_factory=list)
    operators: list[tuple[str, list[int], list[int], Any]] = field(default_factory=list)
    inputs: list[int] = field(default_factory=list)
    outputs: list[int] = field(default_factory=list)

    def tensor(
        self,
        name: str,
        shape: list[int],
        dtype: str = "int8",
        scale: float | np.ndarray | None = 0.5,
        zero: int = 0,
        value: np.ndarray | None = None,
        axis: int = 0,
    ) -> int:
        s = schema()
        made = s.TensorT()
        made.name, made.shape, made.type = name.encode(), shape, getattr(s.TensorType, TYPES[dtype])
        made.buffer = 0
        if value is not None:
            buffer = s.BufferT()
            buffer.data = packed(value, dtype)
            self.buffers.append(buffer)
            made.buffer = len(self.buffers)
        if scale is not None:
            made.quantization = s.QuantizationParametersT()
            scales = np.atleast_1d(np.asarray(scale, np.float32))
            made.quantization.scale = scales
            made.quantization.zeroPoint = np.full(scales.size, zero, np.int64)
            made.quantization.quantizedDimension = axis
        self.tensors.append(made)
        return len(self.tensors) - 1

    def operator(self, kind: str, inputs: list[int], outputs: list[int], table: str = "", **options: Any) -> None:
        s = schema()
        made = getattr(s, f"{table}T")() if table else None
        for name, value in options.items():
            assert hasattr(made, name), name
            setattr(made, name, value)
        self.operators.append((kind, inputs, outputs, (getattr(s.BuiltinOptions, table) if table else 0, made)))

    def written(self) -> bytes:
        import flatbuffers

        s = schema()
        model, graph = s.ModelT(), s.SubGraphT()
        model.version, model.description, model.buffers = 3, "a test", [s.BufferT(), *self.buffers]
        model.operatorCodes, graph.operators = [], []
        for kind, inputs, outputs, (which, options) in self.operators:
            code, one = s.OperatorCodeT(), s.OperatorT()
            kind, _, custom = kind.partition(":")  # CUSTOM:NAME
            code.builtinCode, code.customCode = getattr(s.BuiltinOperator, kind), custom.encode() or None
            code.deprecatedBuiltinCode, code.version = min(code.builtinCode, 127), 1
            one.opcodeIndex, one.inputs, one.outputs = len(model.operatorCodes), inputs, outputs
            one.builtinOptionsType, one.builtinOptions = which, options
            model.operatorCodes.append(code)
            graph.operators.append(one)
        graph.tensors, graph.inputs, graph.outputs, graph.name = self.tensors, self.inputs, self.outputs, b"main"
        model.subgraphs = [graph]
        builder = flatbuffers.Builder(1024)
        builder.Finish(model.Pack(builder), b"TFL3")
        return bytes(builder.Output())


def dense(
    rows: int = 1, length: int = 8, outputs: int = 4, per_channel: bool = False, dtype: str = "int8", seed: int = 0
) -> bytes:
    """Returns one FULLY_CONNECTED."""
    rng, f = np.random.default_rng(seed), File()
    zero = 3 if dtype == "int8" else 120
    x = f.tensor("x", [rows, length], dtype, 0.04, zero)
    steps = rng.uniform(0.002, 0.01, outputs if per_channel else 1).astype(np.float32)
    low = -127 if dtype == "int8" else 1
    w = f.tensor(
        "w",
        [outputs, length],
        dtype,
        steps,
        0 if dtype == "int8" else 128,
        rng.integers(low, low + 254, (outputs, length)),
    )
    b = f.tensor("b", [outputs], "int32", np.float32(0.04) * steps, 0, rng.integers(-4000, 4000, outputs))
    y = f.tensor("y", [rows, outputs], dtype, 0.31, zero - 8)
    f.operator("FULLY_CONNECTED", [x, w, b], [y], "FullyConnectedOptions")
    f.inputs, f.outputs = [x], [y]
    return f.written()


def conv(
    depthwise: bool = False,
    per_channel: bool = True,
    dtype: str = "int8",
    size: int = 9,
    activation: int = 1,
    seed: int = 0,
) -> bytes:
    """Returns one CONV_2D or DEPTHWISE_CONV_2D with SAME padding."""
    rng, f = np.random.default_rng(seed), File()
    zero, channels, outputs = (3 if dtype == "int8" else 120), 4, 8
    x = f.tensor("x", [1, size, size, channels], dtype, 0.04, zero)
    steps = rng.uniform(0.002, 0.01, outputs if per_channel else 1).astype(np.float32)
    low = -127 if dtype == "int8" else 1
    shape = [1, 3, 3, outputs] if depthwise else [outputs, 3, 3, channels]
    w = f.tensor(
        "w",
        shape,
        dtype,
        steps,
        0 if dtype == "int8" else 128,
        rng.integers(low, low + 254, shape),
        axis=3 if depthwise else 0,
    )
    b = f.tensor("b", [outputs], "int32", np.float32(0.04) * steps, 0, rng.integers(-4000, 4000, outputs))
    y = f.tensor("y", [1, size, size, outputs], dtype, 0.21, zero - 8)
    kind, table = ("DEPTHWISE_CONV_2D", "DepthwiseConv2DOptions") if depthwise else ("CONV_2D", "Conv2DOptions")
    more = {"depthMultiplier": 2} if depthwise else {}
    f.operator(kind, [x, w, b], [y], table, strideH=1, strideW=1, dilationHFactor=1, dilationWFactor=1, padding=0,
               fusedActivationFunction=activation, **more)  # fmt: skip
    f.inputs, f.outputs = [x], [y]
    return f.written()
