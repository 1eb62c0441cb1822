"""Writes the QDQ ONNX of a .tflite: names, layouts, quantization, and the map back to the file's tensors."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
from onnx import helper, numpy_helper

from qverify.errors import BadFileError, UnsupportedError
from qverify.tflite_model.read_tflite import TfliteModel, TfliteOperator, TfliteTensor

Array = npt.NDArray[Any]
NCHW, NHWC = (0, 3, 1, 2), (0, 2, 3, 1)
EIGHT_BITS = ("int8", "uint8")
CLAMPS = {0: (), 1: (0.0, math.inf), 2: (-1.0, 1.0), 3: (0.0, 6.0)}  # by code of the fused activation: its limits
MOST_BYTES = 2**31 - 1  # of all constants


@dataclass(slots=True)
class Writer:
    """Collects the nodes and constants of the ONNX. tensors: the map, ONNX name to the file's tensor: `tfl` its index,
    `shape` its dims there, `axes` their order in the ONNX, `dims` the ONNX's dims."""

    model: TfliteModel
    nodes: list[Any] = field(default_factory=list)
    constants: dict[str, Any] = field(default_factory=dict)
    tensors: dict[str, dict[str, Any]] = field(default_factory=dict)
    multipliers: dict[str, Array] = field(default_factory=dict)
    _names: dict[int, str] = field(default_factory=dict)
    _taken: set[str] = field(default_factory=set)
    _dequantized: set[str] = field(default_factory=set)
    _bytes: int = 0

    def tensor(self, index: int) -> TfliteTensor:
        return self.model.tensors[index]

    def name(self, index: int) -> str:
        """Returns the ONNX's name of a tensor: the file's, with the index where two are alike. No name of the ONNX that
        is made of another contains `@` elsewhere than after it."""
        if index not in self._names:
            name = self.tensor(index).name
            self._names[index] = name if name not in self._taken else f"{name}@{index}"
            self._taken.add(name)
        return self._names[index]

    def node(self, kind: str, inputs: Sequence[str], output: str, **attributes: Any) -> str:
        self.nodes.append(helper.make_node(kind, list(inputs), [output], name=output, **attributes))
        return output

    def constant(self, name: str, value: Array) -> str:
        """Adds a constant, once."""
        if name not in self.constants:
            self._bytes += value.nbytes
            if self._bytes > MOST_BYTES:
                raise UnsupportedError(f"{self.model.file}: its constants are more than {MOST_BYTES} bytes")
            self.constants[name] = numpy_helper.from_array(np.array(value, order="C"), name)
        return name

    def onnx_shape(self, index: int) -> tuple[int, ...]:
        shape = self.tensor(index).shape
        return tuple(shape[a] for a in NCHW) if len(shape) == 4 else shape

    def entry(self, name: str, index: int, axes: Sequence[int], dims: Sequence[int]) -> str:
        """Notes which tensor of the file a tensor of the ONNX is."""
        shape = list(self.tensor(index).shape)
        self.tensors[name] = {"tfl": index, "shape": shape, "axes": list(axes), "dims": list(dims)}
        return name

    def mapped(self, index: int) -> str:
        """Returns the name of a tensor of the file in the ONNX's layout, which is in the map."""
        rank = len(self.tensor(index).shape)
        return self.entry(self.name(index), index, NCHW if rank == 4 else range(rank), self.onnx_shape(index))

    def parameters(self, index: int) -> list[str]:
        """Returns the names of scale and zero point of a quantized tensor."""
        tensor, name = self.tensor(index), self.name(index)
        many, limits = tensor.scale.size > 1, np.iinfo(tensor.dtype)
        if tensor.zero.min() < limits.min or tensor.zero.max() > limits.max:
            raise UnsupportedError(f"a zero point of {tensor.zero.max()} for {tensor.dtype}")
        scale, zero = tensor.scale, tensor.zero.astype(tensor.dtype)
        return [
            self.constant(f"{name}@scale", scale if many else scale[0]),
            self.constant(f"{name}@zero", zero if many else zero[0]),
        ]

    def real(self, index: int, name: str = "") -> str:
        """Returns the real values of a tensor, in the ONNX's layout. name: of a movement of it, in the map."""
        tensor, own = self.tensor(index), name or self.name(index)
        if tensor.data is not None and not name:
            value = tensor.data.transpose(NCHW) if tensor.data.ndim == 4 else tensor.data
            self.constant(own, value)
        if tensor.dtype == "float32":
            return own
        if own not in self._dequantized:
            self._dequantized.add(own)
            self.node("DequantizeLinear", [own, *self.parameters(index)], f"{own}@real")
        return f"{own}@real"

    def quantize(self, real: str, index: int, name: str = "") -> None:
        """Writes a tensor of the file from its real values. name: of a movement of it, in the map."""
        self.node("QuantizeLinear", [real, *self.parameters(index)], name or self.mapped(index))

    def made(self, index: int) -> str:
        """Returns a name for the real values of a tensor before they are quantized."""
        return f"{self.name(index)}@before"

    def finish(self, operator: TfliteOperator, activation: int = 0) -> None:
        """Writes the only output of an operator, whose real values have the name `made`."""
        (output,) = operator.outputs
        real = self.made(output)
        if limits := CLAMPS[activation]:
            low, high = (self.constant(f"@{v:g}", np.float32(v)) for v in limits)  # type: ignore[arg-type]
            clamped = f"{self.name(output)}@clamped"
            relu = limits[1] == math.inf
            real = self.node("Relu" if relu else "Clip", [real] if relu else [real, low, high], clamped)
        self.quantize(real, output)

    def unchanged(self, index: int, name: str, axes: Sequence[int], dims: Sequence[int], kind: str, **how: Any) -> str:
        """Returns the real values of tensor `index` in another layout, which is a tensor of its own in the ONNX."""
        if name not in self.tensors:
            constants = [self.constant(f"{name}@shape", np.array(dims, np.int64))] if kind == "Reshape" else []
            self.node(kind, [how.pop("source", None) or self.real(index), *constants], f"{name}@before", **how)
            self.quantize(f"{name}@before", index, self.entry(name, index, axes, dims))
        return self.real(index, name)

    def rows_first(self, index: int, dims: Sequence[int], suffix: str) -> str:
        """Returns the real values of a tensor as the file has them in memory, with these dims."""
        shape, name = self.tensor(index).shape, self.name(index)
        same = list(range(len(shape)))
        if len(shape) == 4 and shape[1] * shape[2] > 1 and shape[3] > 1:
            source: str = self.unchanged(index, f"{name}@nhwc", same, shape, "Transpose", perm=list(NHWC))
            if tuple(dims) == shape:
                return source
        else:
            source = self.real(index)
        return self.unchanged(index, f"{name}@{suffix}", same, dims, "Reshape", source=source)

    def file(self) -> bytes:
        """Returns the ONNX, serialized. BadFileError where it is none."""
        inputs = [self._end(i) for i in self.model.inputs]
        outputs = [self._end(i) for i in self.model.outputs]
        used = {n for node in self.nodes for n in node.input}
        kept = [c for n, c in self.constants.items() if n in used]
        graph = helper.make_graph(self.nodes, "tflite", inputs, outputs, kept)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], producer_name="qverify")
        model.ir_version = 8
        try:
            return bytes(model.SerializeToString(deterministic=True))
        except ValueError as error:
            raise BadFileError(f"{self.model.file}: it cannot be written as an ONNX: {error}") from error

    def _end(self, index: int) -> Any:
        kind = helper.np_dtype_to_tensor_dtype(np.dtype(self.tensor(index).dtype))
        return helper.make_tensor_value_info(self.mapped(index), kind, self.onnx_shape(index))
