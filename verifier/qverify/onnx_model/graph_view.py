"""A typed view of an ONNX graph, for the matcher and for triage: producers, consumers, constants, shapes, quantized
tensors."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx

from qverify.errors import NotOnHostError, UnsupportedError
from qverify.onnx_model.held_data import value_of
from qverify.onnx_model.light_model import FLOATS, INTEGERS, light_copy
from qverify.onnx_model.opsets import standard_opset
from qverify.onnx_model.value_shaped import input_that_shapes
from qverify.tensors.spec import TensorSpec

Array = npt.NDArray[Any]
DTYPES = {
    onnx.TensorProto.FLOAT: "float32",
    onnx.TensorProto.UINT8: "uint8",
    onnx.TensorProto.INT8: "int8",
    onnx.TensorProto.UINT16: "uint16",
    onnx.TensorProto.INT16: "int16",
    onnx.TensorProto.INT32: "int32",
    onnx.TensorProto.INT64: "int64",
    onnx.TensorProto.BOOL: "bool",
    onnx.TensorProto.FLOAT16: "float16",  # of inputs and outputs only
}
ELEMENT = {v: k for k, v in DTYPES.items()}

MIN_OVERFLOWING_SCALE = 2.0**95  # with a smaller scale no difference of two 32-bit integers exceeds float32


@dataclass(frozen=True, slots=True)
class QuantizedTensor:
    """A quantized tensor and its parameters.

    Attributes:
        name: name of the integer tensor.
        scale, zero_point: one element, or one for each index of `axis`.
        dtype: numpy's name of the integer type.
        axis: axis of the scales, -1 for a single scale.
        scale_name, zero_name: names of the constants with scale and zero point.
        value: the integers of a constant, None if they are computed.
    """

    name: str
    scale: Array
    zero_point: Array
    dtype: str
    axis: int
    scale_name: str
    zero_name: str
    value: Array | None = None

    @property
    def eight_bit(self) -> bool:
        """Whether the dtype is int8 or uint8."""
        return self.dtype in ("int8", "uint8")

    @property
    def sixteen_bit(self) -> bool:
        """Whether the dtype is int16 or uint16."""
        return self.dtype in ("int16", "uint16")

    def same_parameters(self, other: QuantizedTensor) -> bool:
        """Returns whether dtype, scale and zero point are equal."""
        return (
            self.dtype == other.dtype
            and np.array_equal(self.scale, other.scale)
            and np.array_equal(self.zero_point, other.zero_point)
        )

    def spec(self, name: str, shape: tuple[int, ...], **more: Any) -> TensorSpec:
        """Returns the spec of a tensor that is quantized like this one. more: further fields of TensorSpec."""
        axis = self.axis if len(self.scale) > 1 else -1
        return TensorSpec(
            name,
            self.dtype,
            shape,
            scale=tuple(map(float, self.scale)),
            zero_point=tuple(map(int, self.zero_point)),
            channel_axis=axis,
            **more,
        )


def attributes(node: onnx.NodeProto) -> dict[str, Any]:
    """Returns the node's attributes by name."""
    return {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute}


class GraphView:
    """Look-ups over the graph of one model. Methods raise UnsupportedError that names a node which is not supported.

    Attributes:
        model: a copy without nodes, value_info and the data of large constants.
        file: name of the model in messages.
        opset: version of the standard ONNX opset.
        constants: values of initializers and Constant nodes, by name.
        nodes: the other nodes, with unique names.
        order: node name to its position in `nodes`.
        inputs, outputs: names of the graph's inputs and outputs.
        ends: the outputs, as a set.
        producer: tensor name to the node that computes it.
        consumers: tensor name to the nodes that read it.
        tensors: all names that are taken.
        types: tensor name to dtype and static shape, where both are known.
        foreign: tensor name to the ONNX type, for types that cannot be compiled.
        empty: tensor name to dims, for tensors without elements.
    """

    def __init__(self, model: onnx.ModelProto, name: str, taken: Collection[str] = ()):
        """taken: further names that no new tensor may get."""
        self.model = light_copy(model, {**INTEGERS, **FLOATS}, ("node", "value_info"))[0]
        self.file = name
        graph = model.graph
        self.opset = standard_opset(model)
        self.constants: dict[str, Array] = {i.name: value_of(i) for i in graph.initializer}
        self.nodes: list[onnx.NodeProto] = []
        uses: dict[str, int] = {}  # node name to the number of nodes that would have it
        for i, node in enumerate(graph.node):
            if node.op_type == "Constant":
                self.constants[node.output[0]] = self._constant(node)
                continue
            copy = onnx.NodeProto()
            copy.CopyFrom(node)
            copy.name = node.name or f"{node.op_type}_{i}"
            while copy.name in uses:
                uses[copy.name] += 1
                copy.name += "~" if uses[copy.name] == 2 else f"~{uses[copy.name]}"
            uses[copy.name] = 1
            self.nodes.append(copy)
        self.order = {node.name: i for i, node in enumerate(self.nodes)}
        self.inputs = [i.name for i in graph.input if i.name not in self.constants]
        self.outputs = [o.name for o in graph.output]
        self.ends = frozenset(self.outputs)
        self.producer = {o: n for n in self.nodes for o in n.output if o}
        self.consumers: dict[str, list[onnx.NodeProto]] = defaultdict(list)
        for node in self.nodes:
            for tensor in node.input:
                self.consumers[tensor].append(node)
        self.tensors = {*self.inputs, *self.constants, *self.producer, *taken}
        self.types: dict[str, tuple[str, tuple[int, ...]]] = {}
        self._zeros: dict[str, str] = {}  # quantized tensor to the constant added for its omitted zero point
        self.foreign: dict[str, str] = {}
        self.empty: dict[str, tuple[int, ...]] = {}
        ends = {*self.inputs, *self.outputs}
        for value in [*graph.input, *graph.value_info, *graph.output]:
            kind = value.type.tensor_type
            inside = kind.elem_type == onnx.TensorProto.FLOAT16 and value.name not in ends
            if kind.elem_type and (inside or kind.elem_type not in DTYPES):
                self.foreign[value.name] = onnx.TensorProto.DataType.Name(kind.elem_type).lower()
            elif kind.elem_type and kind.HasField("shape"):
                dims = tuple(d.dim_value for d in kind.shape.dim)
                if all(d > 0 for d in dims):
                    self.types[value.name] = (DTYPES[kind.elem_type], dims)
                elif all(d.HasField("dim_value") and d.dim_value >= 0 for d in kind.shape.dim):
                    self.empty[value.name] = dims

    def _constant(self, node: onnx.NodeProto) -> Array:
        """Returns the value of a Constant node."""
        for key, value in attributes(node).items():
            if key == "value":
                return value_of(value)
            if key in ("value_float", "value_int", "value_floats", "value_ints"):
                return np.array(value, np.float32 if "float" in key else np.int64)
        raise UnsupportedError(f"{self.file}: Constant {node.output[0]!r} of a kind that is not supported")

    def zero_of(self, name: str, zero: Array) -> str:
        """Adds a constant for the omitted zero point of the quantized tensor `name`, once per tensor, and returns its
        name."""
        if name not in self._zeros:
            self._zeros[name] = self.fresh(f"{name}/zero_point")
            self.constants[self._zeros[name]] = zero
        return self._zeros[name]

    def fresh(self, name: str) -> str:
        """Returns the name, with `~` appended while a tensor of the model has it."""
        while name in self.tensors:
            name += "~"
        return name

    def shape(self, name: str) -> tuple[int, ...]:
        """Returns the tensor's shape. Raises UnsupportedError if it is unknown or the type is not supported."""
        if name in self.constants:
            return tuple(self.constants[name].shape)
        if name not in self.types:
            why, wanted, next_step = self.why_undescribed(name)
            raise UnsupportedError(f"{self.file}: {why}{wanted and '; '}{wanted}. {next_step}")
        return self.types[name][1]

    def why_undescribed(self, name: str) -> tuple[str, str, str]:
        """Returns why model.bin cannot describe a tensor that is not in `types`, what it could describe, "" if nothing is
        to be said, and the next step."""
        if name in self.foreign:
            kind = self.foreign[name]
            known = [k for k in ELEMENT if k != "float16" or name in {*self.inputs, *self.outputs}]
            only = "; float16 only as an input or output of the graph" if kind == "float16" else ""
            return f"{name!r} is {kind}", f"a tensor may be {', '.join(known)}{only}", _other_type(kind)
        if name in self.empty:
            why = f"{name!r} has dims {list(self.empty[name])}, so no elements"
            return why, "wanted dims of 1 or more", "Export the model without it"
        shaping = input_that_shapes(self.nodes, name, self.inputs)
        why = f"the shape of {name!r} is not known: it depends on the values of "
        if shaping:
            return f"{why}input {shaping!r}", "", "Make that input a constant, or export the model with fixed shapes"
        return f"{why}the inputs", "", "Export the model with fixed shapes"

    def dtype(self, name: str) -> str:
        """Returns the tensor's dtype. Raises UnsupportedError if it is unknown or not supported."""
        if name in self.constants:
            return str(self.constants[name].dtype)
        self.shape(name)
        return self.types[name][0]

    def parameters(self, node: onnx.NodeProto, name: str) -> QuantizedTensor:
        """Returns the integer tensor `name` with the scale and zero point of its QuantizeLinear or DequantizeLinear.
        Raises UnsupportedError."""
        scale = self.constants.get(node.input[1])
        zero_name = node.input[2] if len(node.input) > 2 else ""
        zero = self.constants.get(zero_name) if zero_name else None
        if scale is None or (zero_name and zero is None):
            raise UnsupportedError(
                f"{node.name} ({node.op_type}): scale or zero point is computed at run time; only constants can be compiled"
            )
        if attributes(node).get("block_size"):
            raise UnsupportedError(
                f"{node.name} ({node.op_type}): blocked quantization is supported for constants that a DequantizeLinear "
                "reads, in types that onnxruntime has a kernel for; use per tensor or per channel"
            )
        if zero is None:
            declared = onnx.TensorProto.DataType.Name(attributes(node).get("output_dtype", 0) or 2).lower()  # 2: uint8
            zero = np.zeros(scale.shape, self.dtype(name) if node.op_type == "DequantizeLinear" else declared)
            zero_name = self.zero_of(name, zero)
        if scale.dtype != np.float32:
            raise UnsupportedError(f"{node.name} ({node.op_type}): scale is {scale.dtype}, wanted float32")
        if not (np.isfinite(scale) & (scale > 0)).all():
            raise NotOnHostError(
                f"{node.name} ({node.op_type}): a scale is not finite and positive; quantize again with finite values "
                "there (a mask of -inf makes such a scale), or leave the operator before it out of the quantization"
            )
        if str(zero.dtype) not in ("uint8", "int8", "uint16", "int16", "int32"):
            raise UnsupportedError(
                f"{node.name} ({node.op_type}): {zero.dtype} is not supported; use integers of 8 or 16 bits"
            )
        shape = self.shape(name)
        axis = attributes(node).get("axis", 1) % (len(shape) or 1) if scale.size > 1 else -1
        if scale.size != zero.size or not scale.size or (scale.size > 1 and shape[axis : axis + 1] != (scale.size,)):
            raise NotOnHostError(
                f"{node.name} ({node.op_type}): {scale.size} scales and {zero.size} zero points for a tensor of shape "
                f"{list(shape)} along axis {axis}; wanted one of each, or one for each element of that axis"
            )
        return QuantizedTensor(
            name,
            scale.reshape(-1),
            zero.reshape(-1),
            str(zero.dtype),
            axis,
            node.input[1],
            zero_name,
            self.constants.get(name),
        )

    def dequantized(self, name: str) -> QuantizedTensor | None:
        """Returns the quantized tensor from which a DequantizeLinear computes the float tensor `name`. Returns None if
        another operator computes it, for int32 (dequantized_bias returns these), and for a tensor that dequantizes to
        infinity (a mask of the lowest float32); these are treated as floats."""
        quantized = self.dequantized_bias(name)
        return quantized if quantized is not None and quantized.dtype != "int32" and not _overflows(quantized) else None

    def dequantized_bias(self, name: str) -> QuantizedTensor | None:
        """Returns the integer tensor, also int32, from which a DequantizeLinear computes the float tensor `name`, or None
        if another operator computes it."""
        node = self.producer.get(name)
        return self.parameters(node, node.input[0]) if node is not None and node.op_type == "DequantizeLinear" else None

    def float_constant(self, name: str) -> Array | None:
        """Returns the value of a constant: an initializer, or a dequantized constant (fl32(fl32(q-z)*s)), also behind
        Identity. Returns None for tensors that are computed."""
        while (node := self.producer.get(name)) is not None and node.op_type == "Identity":
            name = node.input[0]
        if name in self.constants:
            return self.constants[name]
        quantized = self.dequantized_bias(name)
        return None if quantized is None or quantized.value is None else _floats(quantized.value, quantized)

    def sole_consumer(self, name: str) -> onnx.NodeProto | None:
        """Returns the only node that reads the tensor, or None if there is none or several, or it is a graph output."""
        users = self.consumers[name]
        return users[0] if len(users) == 1 and name not in self.ends else None


def _other_type(kind: str) -> str:
    """Returns a sentence that suggests another type than one that cannot be compiled."""
    other = "int32 or int64" if "int" in kind else "float32"
    return f"Export it as {other}, or cut the model before it"


def _floats(value: Array, quantized: QuantizedTensor) -> Array:
    """Returns the dequantized values of a constant, infinite if they exceed float32."""
    along = [1] * value.ndim
    if quantized.axis >= 0 and value.ndim:
        along[quantized.axis] = -1
    centred = value.astype(np.int64) - quantized.zero_point.astype(np.int64).reshape(along)
    with np.errstate(over="ignore"):
        return (centred.astype(np.float32) * quantized.scale.reshape(along)).astype(np.float32)


def _overflows(quantized: QuantizedTensor) -> bool:
    """Returns whether a dequantized value exceeds float32: of a constant, one of its values; of another tensor of 16
    bits, one that its type can have. Those of 8 bits are read by integer kernels, which do not compute such values."""
    if quantized.scale.max(initial=0.0) < MIN_OVERFLOWING_SCALE:
        return False
    if quantized.value is not None:
        return bool(np.isinf(_floats(quantized.value, quantized)).any())
    if not quantized.sixteen_bit:
        return False
    limits = np.iinfo(quantized.dtype)
    ends = np.array([[limits.min], [limits.max]]) - quantized.zero_point.astype(np.int64)
    with np.errstate(over="ignore"):
        return bool(np.isinf(ends.astype(np.float32) * quantized.scale).any())
