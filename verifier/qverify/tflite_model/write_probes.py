"""Writes probes of single operators as a .tflite, with the map that pairs its tensors with those of their ONNX."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from qverify.extras import import_extra
from qverify.tensors.one_op import Array, OneOp, Operand
from qverify.tflite_model.read_tflite import schema

TYPES = {"int8": "INT8", "uint8": "UINT8", "int32": "INT32"}
VERSIONS = {
    "TRANSPOSE_CONV": 3,
    "FULLY_CONNECTED": 4,
    "CONV_2D": 3,
    "DEPTHWISE_CONV_2D": 3,
    "BATCH_MATMUL": 2,
    "HARD_SWISH": 1,
    "QUANTIZE": 2,
    "ELU": 1,
}  # of int8; others have 2
SAME, VALID = 0, 1
NHWC = (0, 2, 3, 1)  # axes of the ONNX in the order of the .tflite
IMAGES = ("Conv", "ConvTranspose", "AveragePool", "GlobalAveragePool", "ReduceMean", "Concat")  # channels last
SIMPLE = {"Add": "ADD", "Mul": "MUL", "": "QUANTIZE", "Sigmoid": "LOGISTIC", "Tanh": "TANH", "Elu": "ELU",
          "HardSwish": "HARD_SWISH"}  # fmt: skip
OPTIONS = {"ADD": "AddOptions", "MUL": "MulOptions", "QUANTIZE": "QuantizeOptions", "HARD_SWISH": "HardSwishOptions"}


def can_write(probe: OneOp) -> bool:
    """Returns whether LiteRT has an operator of this probe: int8, and means and joined tensors of one scale where it
    wants that."""
    same = all((float(o.scale), o.zero) == (probe.scale, probe.zero) for o in probe.inputs) if probe.inputs else True
    if probe.dtype != "int8" or (probe.kind in ("AveragePool", "Concat") and not same):
        return False
    return not (probe.kind == "AveragePool" and probe.attributes.get("count_include_pad"))


def write_probes(probes: Sequence[OneOp]) -> tuple[bytes, dict[str, dict[str, Any]]]:
    """Returns the .tflite, and its tensors by their names in the ONNX of the same probes."""
    writer = _Writer()
    for probe in probes:
        writer.add(probe)
    return writer.data(), writer.tensors


class _Writer:
    def __init__(self) -> None:
        self._schema = schema()
        self._model, self._graph = self._schema.ModelT(), self._schema.SubGraphT()
        self._model.version, self._model.description = 3, "probes"
        self._model.buffers, self._model.operatorCodes = [self._schema.BufferT()], []
        self._graph.tensors, self._graph.operators, self._graph.name = [], [], b"main"
        self._graph.inputs, self._graph.outputs = [], []
        self.tensors: dict[str, dict[str, Any]] = {}

    def data(self) -> bytes:
        """Returns the file."""
        self._model.subgraphs = [self._graph]
        builder = import_extra("flatbuffers", "probes of LiteRT").Builder(1024)
        builder.Finish(self._model.Pack(builder), b"TFL3")
        return bytes(builder.Output())

    def add(self, probe: OneOp) -> None:
        """Adds a probe."""
        order = NHWC if probe.kind in IMAGES and probe.inputs[0].codes.ndim == 4 else ()
        sources = []
        for name, operand in zip(probe.feeds(), probe.inputs, strict=True):
            sources.append(self._shown(f"{name}_q", operand.codes.shape, operand, order))
            self._graph.inputs.append(sources[-1])
        made = Operand(np.zeros(0, probe.dtype), np.asarray(probe.scale, np.float32), probe.zero)
        shape = output_shape(probe)
        output = self._shown(probe.output, shape, made, order if len(shape) == 4 else ())
        self._graph.outputs.append(output)
        kind, inputs, table, options = self._operator(probe, sources, order)
        self._write(kind, inputs, output, table, options)

    def _operator(
        self, probe: OneOp, x: list[int], order: tuple[int, ...]
    ) -> tuple[str, list[int], str, dict[str, Any]]:
        """Returns the operator's kind, its inputs, the name of its table of options, and these."""
        kind = probe.kind
        if kind in SIMPLE:
            return SIMPLE[kind], x, OPTIONS.get(SIMPLE[kind], ""), {}
        if kind in ("Conv", "ConvTranspose", "Gemm"):
            return self._product(probe, x)
        if kind == "MatMul":
            return "BATCH_MATMUL", x, "BatchMatMulOptions", {}
        if kind == "LeakyRelu":
            return "LEAKY_RELU", x, "LeakyReluOptions", {"alpha": float(probe.attributes["alpha"])}
        if kind == "Softmax":
            return "SOFTMAX", x, "SoftmaxOptions", {"beta": 1.0}
        if kind == "Concat":
            return "CONCATENATION", x, "ConcatenationOptions", {"axis": order.index(1) if order else 1}
        if kind == "AveragePool":
            rows, columns = probe.attributes["kernel_shape"]
            window = {"filterHeight": rows, "filterWidth": columns, **_strides(probe), "padding": _padding(probe)}
            return "AVERAGE_POOL_2D", x, "Pool2DOptions", window
        axes = (2, 3) if kind == "GlobalAveragePool" else probe.axes
        chosen = np.asarray([order.index(a) if order else a for a in axes], np.int32)
        keep = bool(probe.attributes.get("keepdims", 1))
        return "MEAN", [x[0], self._constant(f"{probe.key}_axes", chosen)], "ReducerOptions", {"keepDims": keep}

    def _product(self, probe: OneOp, x: list[int]) -> tuple[str, list[int], str, dict[str, Any]]:
        weight = probe.weight
        assert weight is not None and probe.bias is not None
        bias_scale = np.asarray(probe.inputs[0].scale * weight.scale, np.float32)
        bias = self._constant(f"{probe.key}_bias", probe.bias, bias_scale)
        if probe.kind == "Gemm":
            weights = self._constant(f"{probe.key}_w", weight.codes, weight.scale)
            return "FULLY_CONNECTED", [x[0], weights, bias], "FullyConnectedOptions", {}
        padding = {"padding": _padding(probe)}
        if probe.kind == "ConvTranspose":
            weights = self._constant(f"{probe.key}_w", weight.codes.transpose(1, 2, 3, 0), weight.scale)
            dims = np.asarray([output_shape(probe)[a] for a in NHWC], np.int32)
            inputs = [self._constant(f"{probe.key}_dims", dims), weights, x[0], bias]
            return "TRANSPOSE_CONV", inputs, "TransposeConvOptions", {**_strides(probe), **padding}
        unit = {"dilationHFactor": 1, "dilationWFactor": 1, **_strides(probe), **padding}
        if probe.attributes.get("group", 1) > 1:
            weights = self._constant(f"{probe.key}_w", weight.codes.transpose(1, 2, 3, 0), weight.scale, 3)
            return "DEPTHWISE_CONV_2D", [x[0], weights, bias], "DepthwiseConv2DOptions", {**unit, "depthMultiplier": 1}
        weights = self._constant(f"{probe.key}_w", weight.codes.transpose(0, 2, 3, 1), weight.scale)
        return "CONV_2D", [x[0], weights, bias], "Conv2DOptions", unit

    def _shown(self, name: str, shape: tuple[int, ...], operand: Operand, order: tuple[int, ...]) -> int:
        """Adds a tensor that the map lists, and returns its index."""
        dims = [shape[a] for a in order] if order else list(shape)
        axes = [order.index(i) for i in range(4)] if order else list(range(len(shape)))
        index = self._tensor(name, dims, str(operand.codes.dtype), operand.scale, operand.zero, 0, 0)
        self.tensors[name] = {"tfl": index, "shape": dims, "axes": axes}
        return index

    def _constant(self, name: str, value: Array, scale: Array | None = None, axis: int = 0) -> int:
        buffer = self._schema.BufferT()
        buffer.data = np.frombuffer(np.ascontiguousarray(value).tobytes(), np.uint8)
        self._model.buffers.append(buffer)
        at = len(self._model.buffers) - 1
        return self._tensor(name, list(value.shape), str(value.dtype), scale, 0, axis, at)

    def _tensor(
        self, name: str, dims: list[int], dtype: str, scale: Array | None, zero: int, axis: int, buffer: int
    ) -> int:
        made = self._schema.TensorT()
        made.name, made.shape, made.type = name.encode(), dims, getattr(self._schema.TensorType, TYPES[dtype])
        made.buffer = buffer
        if scale is not None:
            made.quantization = self._schema.QuantizationParametersT()
            made.quantization.scale = np.atleast_1d(scale)
            made.quantization.zeroPoint = np.full(made.quantization.scale.size, zero, np.int64)
            made.quantization.quantizedDimension = axis
        self._graph.tensors.append(made)
        return len(self._graph.tensors) - 1

    def _write(self, kind: str, inputs: list[int], output: int, table: str, options: dict[str, Any]) -> None:
        code, made = self._schema.OperatorCodeT(), self._schema.OperatorT()
        code.builtinCode = getattr(self._schema.BuiltinOperator, kind)
        code.deprecatedBuiltinCode, code.version = min(code.builtinCode, 127), VERSIONS.get(kind, 2)
        made.opcodeIndex, made.inputs, made.outputs = len(self._model.operatorCodes), inputs, [output]
        if table:
            made.builtinOptionsType = getattr(self._schema.BuiltinOptions, table)
            made.builtinOptions = getattr(self._schema, f"{table}T")()
            for name, value in options.items():
                setattr(made.builtinOptions, name, value)
        self._model.operatorCodes.append(code)
        self._graph.operators.append(made)


def _strides(probe: OneOp) -> dict[str, int]:
    rows, columns = probe.attributes.get("strides", (1, 1))
    return {"strideH": rows, "strideW": columns}


def _padding(probe: OneOp) -> int:
    return SAME if any(probe.attributes.get("pads", ())) else VALID


def output_shape(probe: OneOp) -> tuple[int, ...]:
    """Returns the shape of a probe's output, in the ONNX."""
    shape = probe.inputs[0].codes.shape
    if probe.kind in ("Conv", "ConvTranspose", "AveragePool"):
        assert probe.weight is not None or probe.kind == "AveragePool"
        kernel = probe.attributes["kernel_shape"] if probe.weight is None else probe.weight.codes.shape[2:]
        pads, strides = probe.attributes.get("pads", (0, 0, 0, 0)), probe.attributes.get("strides", (1, 1))
        sides = []
        for size, side, before, after, step in zip(shape[2:], kernel, pads[:2], pads[2:], strides, strict=True):
            if probe.kind == "ConvTranspose":
                sides.append((size - 1) * step + side - before - after)
            else:
                sides.append((size + before + after - side) // step + 1)
        channels = shape[1] if probe.weight is None else probe.weight.codes.shape[probe.weight.axis]
        return (shape[0], channels, *sides)
    if probe.kind == "Gemm":
        assert probe.weight is not None
        return (shape[0], probe.weight.codes.shape[0])
    if probe.kind == "MatMul":
        return (*shape[:-1], probe.inputs[1].codes.shape[-1])
    if probe.kind == "GlobalAveragePool":
        return (*shape[:2], 1, 1)
    if probe.kind == "ReduceMean":
        keep = probe.attributes.get("keepdims", 1)
        return tuple(1 if i in probe.axes else d for i, d in enumerate(shape) if keep or i not in probe.axes)
    if probe.kind == "Concat":
        return (shape[0], sum(o.codes.shape[1] for o in probe.inputs), *shape[2:])
    return shape
