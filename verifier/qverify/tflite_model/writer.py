"""Builds the QDQ ONNX of a .tflite: names, layouts, quantization, and the map back to the file's tensors."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
from onnx import helper, numpy_helper

from qverify.errors import BadFileError, InternalError, UnsupportedError
from qverify.tflite_model.read_tflite import TfliteModel, TfliteOperator, TfliteTensor

Array = npt.NDArray[Any]
NCHW, NHWC = (0, 3, 1, 2), (0, 2, 3, 1)
EIGHT_BITS = ("int8", "uint8")
SIXTEEN_BITS = "com.microsoft"  # the domain whose quantizers take int16 in every opset
CLAMPS = {0: (), 1: (0.0, math.inf), 2: (-1.0, 1.0), 3: (0.0, 6.0)}  # code of a fused activation to its limits
UINT8, INT8, INT16, INT32, INT64 = 2, 3, 5, 6, 7  # ONNX's numbers of types
MAX_BYTES = 2**31 - 1  # of all constants together


def type_number(dtype: str) -> int:
    """Returns ONNX's number of a type."""
    return int(helper.np_dtype_to_tensor_dtype(np.dtype(dtype)))


@dataclass(slots=True)
class Writer:
    """Collects the nodes and constants of the ONNX.

    Attributes:
        model: the file that is converted.
        nodes, constants: what has been written.
        tensors: name of an ONNX tensor to the tensor of the file: "tfl" is its index, "shape" its dims in the file,
            "axes" their order in the ONNX, "dims" the dims in the ONNX, "dtypes" the types in the file and in the ONNX
            if they differ.
        kernels: LiteRT's kernels whose arithmetic is written: reference, optimized (which sum integers in another way) or xnnpack.
    """

    model: TfliteModel
    kernels: str = "reference"
    nodes: list[Any] = field(default_factory=list)
    constants: dict[str, Any] = field(default_factory=dict)
    tensors: dict[str, dict[str, Any]] = field(default_factory=dict)
    _names: dict[int, str] = field(default_factory=dict)
    _taken: set[str] = field(default_factory=set)
    _dequantized: set[str] = field(default_factory=set)
    _bytes: int = 0

    def tensor(self, index: int) -> TfliteTensor:
        """Returns a tensor of the file."""
        return self.model.tensors[index]

    def name(self, index: int) -> str:
        """Returns the ONNX name of a tensor: its name in the file, with `@index` appended if another tensor has the
        same name. Names of derived tensors are this name followed by `@` and a suffix."""
        if index not in self._names:
            name = self.tensor(index).name
            self._names[index] = name if name not in self._taken else f"{name}@{index}"
            self._taken.add(name)
        return self._names[index]

    def node(self, kind: str, inputs: Sequence[str], output: str, **attributes: Any) -> str:
        """Adds a node and returns the name of its output."""
        self.nodes.append(helper.make_node(kind, list(inputs), [output], name=output, **attributes))
        return output

    def split_node(self, kind: str, inputs: Sequence[str], outputs: Sequence[str]) -> None:
        """Adds a node with several outputs."""
        self.nodes.append(helper.make_node(kind, list(inputs), list(outputs), name=outputs[0]))

    def constant(self, name: str, value: Array) -> str:
        """Adds a constant, unless one of this name exists, and returns the name."""
        if name not in self.constants:
            self._bytes += value.nbytes
            if self._bytes > MAX_BYTES:
                raise UnsupportedError(f"{self.model.file}: its constants are more than {MAX_BYTES} bytes")
            self.constants[name] = numpy_helper.from_array(np.array(value, order="C"), name)
        return name

    def onnx_shape(self, index: int) -> tuple[int, ...]:
        """Returns the shape of a tensor of the file in the ONNX's layout."""
        shape = self.tensor(index).shape
        return tuple(shape[a] for a in NCHW) if len(shape) == 4 else shape

    def entry(self, name: str, index: int, axes: Sequence[int], dims: Sequence[int], dtype: str = "") -> str:
        """Records which tensor of the file an ONNX tensor represents, and returns its name. dtype: the ONNX tensor's type,
        if it is another than the file's."""
        tensor = self.tensor(index)
        self.tensors[name] = {"tfl": index, "shape": list(tensor.shape), "axes": list(axes), "dims": list(dims)}
        if dtype:
            self.tensors[name]["dtypes"] = [tensor.dtype, dtype]
        return name

    def mapped(self, index: int) -> str:
        """Records a tensor of the file in the ONNX's usual layout, and returns its name."""
        rank = len(self.tensor(index).shape)
        return self.entry(self.name(index), index, NCHW if rank == 4 else range(rank), self.onnx_shape(index))

    def stored(self, index: int) -> str:
        """Returns the name of a tensor as it is stored, in the ONNX's layout."""
        tensor, name = self.tensor(index), self.name(index)
        if tensor.data is not None:
            self.constant(name, tensor.data.transpose(NCHW) if tensor.data.ndim == 4 else tensor.data)
        return name

    def is_turned(self, index: int) -> bool:
        """Returns whether the tensor's elements have another order in the ONNX than in the file."""
        shape = self.tensor(index).shape
        return len(shape) == 4 and shape[1] * shape[2] > 1 and shape[3] > 1

    def move(self, kind: str, source: str, output: str, *more: str, **attributes: Any) -> str:
        """Adds a node that moves the elements of a stored tensor, of any type, and returns the name of its output.
        more: names of further inputs."""
        return self.node(kind, [source, *more], output, **attributes)

    def reshape(self, source: str, output: str, dims: Sequence[int]) -> str:
        """Adds a Reshape of a stored tensor and returns the name of its output."""
        shape = self.constant(f"@shape{','.join(map(str, dims))}", np.array(dims, np.int64))
        return self.move("Reshape", source, output, shape)

    def in_file_order(self, index: int) -> str:
        """Returns the name of a tensor as it is stored, with the axes that it has in the file."""
        tensor, name = self.tensor(index), self.name(index)
        if len(tensor.shape) != 4 or (self.onnx_shape(index) == tensor.shape and not self.is_turned(index)):
            return self.stored(index)
        copy = f"{name}@nhwc"
        if tensor.data is not None:
            return self.constant(copy, tensor.data)
        if copy not in self.tensors:
            self.entry(copy, index, range(4), tensor.shape)
            if self.is_turned(index):
                self.move("Transpose", name, copy, perm=list(NHWC))
            else:
                self.reshape(name, copy, tensor.shape)
        return copy

    def in_memory_order(self, index: int) -> str:
        """Returns the name of a tensor as it is stored, with its elements in the file's order and any axes."""
        return self.in_file_order(index) if self.is_turned(index) else self.stored(index)

    def reshaped(self, index: int, dims: Sequence[int]) -> str:
        """Returns the name of a tensor as it is stored, with its elements in the file's order and these dims."""
        tensor = self.tensor(index)
        if tuple(dims) == tensor.shape:
            return self.in_file_order(index)
        copy = f"{self.name(index)}@{'x'.join(map(str, dims))}"
        if tensor.data is not None:
            return self.constant(copy, tensor.data.reshape(dims))
        if copy not in self.tensors:
            self.reshape(self.in_memory_order(index), self.entry(copy, index, range(len(tensor.shape)), dims), dims)
        return copy

    def from_file_order(self, index: int, kind: str, inputs: Sequence[str], **attributes: Any) -> None:
        """Writes a tensor of the file by a node whose result has the axes of the file."""
        shape, dims = self.tensor(index).shape, self.onnx_shape(index)
        if shape == dims and not self.is_turned(index):
            self.node(kind, inputs, self.mapped(index), **attributes)
            return
        copy = self.node(kind, inputs, self.entry(f"{self.name(index)}@nhwc", index, range(4), shape), **attributes)
        if self.is_turned(index):
            self.move("Transpose", copy, self.mapped(index), perm=list(NCHW))
        else:
            self.reshape(copy, self.mapped(index), dims)

    def reshape_to(self, index: int, source: str) -> None:
        """Writes a tensor of the file as a stored tensor that has its elements, in the file's order, and other dims."""
        shape = self.tensor(index).shape
        dims = self.constant(f"@shape{','.join(map(str, shape))}", np.array(shape, np.int64))
        self.from_file_order(index, "Reshape", [source, dims])

    def parameters(self, index: int) -> list[str]:
        """Adds scale and zero point of a quantized tensor as constants and returns their names."""
        tensor, name = self.tensor(index), self.name(index)
        dtype = "int8" if tensor.dtype in ("int4", "int2") else tensor.dtype
        many, limits = tensor.scale.size > 1, np.iinfo(dtype)
        if tensor.zero.min() < limits.min or tensor.zero.max() > limits.max:
            raise UnsupportedError(f"a zero point of {tensor.zero.max()} for {tensor.dtype}")
        scale, zero = tensor.scale, tensor.zero.astype(dtype)
        return [
            self.constant(f"{name}@scale", scale if many else scale[0]),
            self.constant(f"{name}@zero", zero if many else zero[0]),
        ]

    def real(self, index: int, name: str = "") -> str:
        """Returns the name of a tensor's dequantized values, in the ONNX's layout.

        name: ONNX name of a moved copy of the tensor to use instead, or "" for the tensor itself."""
        tensor, onnx_name = self.tensor(index), name or self.name(index)
        if not name:
            self.stored(index)
        if tensor.dtype == "float32":
            return onnx_name
        if onnx_name not in self._dequantized:
            self._dequantized.add(onnx_name)
            self.quantizer("DequantizeLinear", onnx_name, index, f"{onnx_name}@real")
        return f"{onnx_name}@real"

    def quantizer(self, kind: str, source: str, index: int, output: str, **attributes: Any) -> str:
        """Adds a QuantizeLinear or DequantizeLinear with the quantization of a tensor of the file, and returns the name of
        its output."""
        if self.tensor(index).dtype == "int16":
            attributes["domain"] = SIXTEEN_BITS
        return self.node(kind, [source, *self.parameters(index)], output, **attributes)

    def quantize(self, real: str, index: int, name: str = "") -> None:
        """Writes a tensor of the file by quantizing its real values, which the last node made. name: ONNX name of a moved
        copy, "" for the tensor itself. A tensor of float32 is these values."""
        if self.tensor(index).dtype == "float32":
            self._rename(real, name or self.mapped(index))
            return
        self.quantizer("QuantizeLinear", real, index, name or self.mapped(index))

    def _rename(self, old: str, new: str) -> None:
        """Changes the name of what the last node made."""
        last = self.nodes[-1]
        if list(last.output) != [old]:
            raise InternalError(f"{new}: the last node made {list(last.output)}, wanted {old}")
        last.output[0] = last.name = new

    def quantize_file_order(self, real: str, index: int) -> None:
        """Writes a tensor of the file by quantizing real values that have the axes of the file."""
        if not self.is_turned(index) and self.onnx_shape(index) == self.tensor(index).shape:
            self.quantize(real, index)
            return
        dtype = self.tensor(index).dtype
        if dtype == "float32":
            self.from_file_order(index, "Identity", [real])
            return
        domain = {"domain": SIXTEEN_BITS} if dtype == "int16" else {}
        self.from_file_order(index, "QuantizeLinear", [real, *self.parameters(index)], **domain)

    def unquantized(self, index: int) -> str:
        """Returns the name for the real values of a tensor before they are quantized."""
        return f"{self.name(index)}@before"

    def finish(self, operator: TfliteOperator, activation: int = 0, name: str = "") -> None:
        """Quantizes the only output of an operator, after its fused activation. Its real values are called
        `unquantized(output)`. name: as in quantize()."""
        (output,) = operator.outputs
        real = self.unquantized(output)
        if limits := CLAMPS[activation]:
            low, high = (self.constant(f"@{v:g}", np.float32(v)) for v in limits)  # type: ignore[arg-type]
            clamped = f"{self.name(output)}@clamped"
            relu = limits[1] == math.inf
            real = self.node("Relu" if relu else "Clip", [real] if relu else [real, low, high], clamped)
        self.quantize(real, output, name)

    def place(self, index: int, rank: int = 0) -> str:
        """Returns the name of a tensor of 8 or 16 bits as int32, counted from the lowest stored value. rank: as in operand()."""
        dtype, source = self.tensor(index).dtype, self.operand(index, rank)
        wide = f"{source}@int32"
        if wide not in self._dequantized:
            self._dequantized.add(wide)
            self.node("Cast", [source], wide, to=INT32)
            if dtype != "uint8":
                lowest = -int(np.iinfo(dtype).min)
                self.node("Add", [wide, self.constant(f"@{lowest}", np.array(lowest, np.int32))], f"{wide}@0")
        return wide if dtype == "uint8" else f"{wide}@0"

    def operand(self, index: int, rank: int) -> str:
        """Returns the name of a tensor as it is stored, for an operator that broadcasts it to a tensor of this many axes:
        an axis of the file that is missing in front has one element."""
        shape = self.tensor(index).shape
        if rank != 4 or len(shape) in (0, 4):
            return self.in_file_order(index) if rank > 4 and len(shape) == 4 else self.stored(index)
        whole = (*(1,) * (4 - len(shape)), *shape)
        dims = [whole[a] for a in NCHW]
        axes = [a - (4 - len(shape)) for a in NCHW if a >= 4 - len(shape)]
        name, data = f"{self.name(index)}@nchw", self.tensor(index).data
        if data is not None:
            return self.constant(name, data.transpose(axes).reshape(dims))
        if name not in self.tensors:
            source = self.name(index)
            if axes != sorted(axes):
                turned = self.entry(f"{source}@turned", index, axes, [shape[a] for a in axes])
                source = self.move("Transpose", source, turned, perm=axes)
            self.reshape(source, self.entry(name, index, axes, dims), dims)
        return name

    def real_operand(self, index: int, rank: int) -> str:
        """Returns the name of a tensor's dequantized values for an operator that broadcasts it, as operand() does."""
        name = self.operand(index, rank)
        return self.real(index, "" if name == self.name(index) else name)

    def table(self, output: int, indices: str, table: Array) -> None:
        """Writes tensor `output`, of 8 or 16 bits or bool, as the elements of a table at these places."""
        y, name = self.tensor(output), self.name(output)
        if y.dtype == "bool":
            self.node("Gather", [self.constant(f"{name}@table", table.reshape(-1)), indices], self.mapped(output))
            return
        real = (table.reshape(-1).astype(np.int64) - int(y.zero[0])).astype(np.float32) * y.scale[0]
        self.node("Gather", [self.constant(f"{name}@table", real), indices], self.unquantized(output))
        self.quantize(self.unquantized(output), output)

    def rows_first(self, index: int, dims: Sequence[int]) -> str:
        """Returns the name of a tensor's real values in the file's order in memory, with these dims."""
        return self.real(index, self.reshaped(index, dims))

    def file(self, inputs: Sequence[int], outputs: Sequence[int]) -> bytes:
        """Returns the serialized ONNX with these tensors of the file as inputs and outputs. Raises BadFileError if it cannot be
        serialized."""
        used = {n for node in self.nodes for n in node.input}
        kept = [c for n, c in self.constants.items() if n in used]
        first, last = ([self._end(i) for i in indices] for indices in (inputs, outputs))
        graph = helper.make_graph(self.nodes, "tflite", first, last, kept)
        domains = [("", 17), *([(SIXTEEN_BITS, 1)] if any(n.domain == SIXTEEN_BITS for n in self.nodes) else [])]
        model = helper.make_model(
            graph, opset_imports=[helper.make_opsetid(*d) for d in domains], producer_name="qverify"
        )
        model.ir_version = 8
        try:
            return bytes(model.SerializeToString(deterministic=True))
        except ValueError as error:
            raise BadFileError(f"{self.model.file}: it cannot be written as an ONNX: {error}") from error

    def _end(self, index: int) -> Any:
        """Returns the declaration of an input or output."""
        kind = type_number(self.tensor(index).dtype)
        return helper.make_tensor_value_info(self.mapped(index), kind, self.onnx_shape(index))
