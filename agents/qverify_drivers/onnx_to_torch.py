"""Translates a quantized ONNX (QDQ) into a torch module, node by node, with torch's operators of quantize and dequantize, so
that torch's exporters and backends see the quantization that the ONNX states. Wants the packages onnx and torch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import onnx
import torch
import torch.ao.quantization.fx._decomposed
from drive import Refused
from onnx import numpy_helper

TYPES = {"int8": torch.int8, "uint8": torch.uint8, "int16": torch.int16, "int32": torch.int32}
ONNX_NODE = "onnx_node"
ATEN, QUANTIZED = torch.ops.aten, torch.ops.quantized_decomposed
LIMITS = {
    torch.int8: (-128, 127),
    torch.uint8: (0, 255),
    torch.int16: (-(2**15), 2**15 - 1),
    torch.int32: (-(2**31), 2**31 - 1),
}
SIMPLE = {
    "Relu": ATEN.relu.default,
    "Sigmoid": ATEN.sigmoid.default,
    "Tanh": ATEN.tanh.default,
    "Identity": None,
    "Add": ATEN.add.Tensor,
    "Sub": ATEN.sub.Tensor,
    "Mul": ATEN.mul.Tensor,
    "MatMul": ATEN.matmul.default,
}


def program_of_onnx(model: bytes, inputs: dict[str, Any], wanted: list[str]) -> tuple[Any, list[str]]:
    """Returns a module whose results are the wanted tensors that the ONNX has, and their names. Each torch node has the
    ONNX's in meta["custom"][ONNX_NODE]. Raises Refused for an operator that is not translated."""
    builder = _Builder(onnx.load_from_string(model), inputs)
    for node in builder.graph.node:
        builder.add(node)
    names = [name for name in wanted if name in builder.values]
    builder.fx.output(tuple(builder.argument(name) for name in names))
    module = torch.fx.GraphModule(builder.root, builder.fx).eval()
    return module, names


class _Builder:
    """Builds the torch graph. values: its node by ONNX tensor."""

    def __init__(self, model: Any, inputs: dict[str, Any]):
        self.graph, self.root, self.fx = model.graph, torch.nn.Module(), torch.fx.Graph()
        self.opset = next((o.version for o in model.opset_import if o.domain in ("", "ai.onnx")), 1)
        self.constants = {t.name: numpy_helper.to_array(t) for t in model.graph.initializer}
        self.values: dict[str, Any] = {name: self.fx.placeholder(f"in_{at}") for at, name in enumerate(inputs)}
        self._weights: dict[str, tuple[list[str], dict[str, Any]]] = {}  # dequantized constants: inputs and attributes
        self._node, self._buffers = "", 0

    def add(self, node: Any) -> None:
        """Adds one ONNX node."""
        self._node = node.name or node.output[0]
        attributes = {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute}
        if node.op_type == "Constant" and "value" in attributes:
            self.constants[node.output[0]] = numpy_helper.to_array(attributes["value"])
            return
        if node.op_type == "DequantizeLinear" and node.input[0] in self.constants:
            if self.constants[node.input[0]].dtype == "int32":  # a bias: backends want it as real values
                self.constants[node.output[0]] = self._real(list(node.input), attributes)
                return
            self._weights[node.output[0]] = list(node.input), attributes
        method: Callable[..., Any] | None = getattr(self, f"_{node.op_type}", None)
        if node.op_type in SIMPLE:
            target = SIMPLE[node.op_type]
            arguments = [self.argument(name) for name in node.input]
            self.values[node.output[0]] = arguments[0] if target is None else self.call(target, *arguments)
        elif method is None or any(node.output[1:]):
            raise Refused(f"{self._node} ({node.op_type}): not translated to torch; wanted another operator, or a .pte")
        else:
            self.values[node.output[0]] = method(list(node.input), attributes)

    def call(self, target: Any, *arguments: Any) -> Any:
        """Returns a new torch node."""
        made = self.fx.call_function(target, arguments)
        made.meta["custom"] = {ONNX_NODE: self._node}  # torch's exporters keep it
        return made

    def argument(self, name: str) -> Any:
        """Returns the torch node of an ONNX tensor; a constant becomes a buffer."""
        if name not in self.values:
            if name not in self.constants:
                raise Refused(f"{self._node}: no tensor {name!r} before it")
            attribute = f"constant_{self._buffers}"
            self._buffers += 1
            self.root.register_buffer(attribute, torch.from_numpy(self.constants[name].copy()))
            self.values[name] = self.fx.get_attr(attribute)
        return self.values[name]

    def constant(self, name: str) -> Any:
        """Returns the numpy array of a constant."""
        if name not in self.constants:
            raise Refused(f"{self._node}: {name!r} is computed; wanted a constant")
        return self.constants[name]

    def _scales(self, names: list[str]) -> tuple[Any, Any, Any]:
        """Returns scale, zero point and torch's type of a quantization."""
        scale = self.constant(names[1])
        zero = self.constant(names[2]) if len(names) > 2 and names[2] else None
        kind = "uint8" if zero is None else str(zero.dtype)
        if zero is None and names[0] in self.constants:
            kind = str(self.constants[names[0]].dtype)
        if kind not in TYPES:
            raise Refused(f"{self._node}: quantized as {kind}; wanted {', '.join(TYPES)}")
        return scale, zero, TYPES[kind]

    def _real(self, names: list[str], attributes: dict[str, Any]) -> Any:
        """Returns the real values of a quantized constant, in float32."""
        codes, (scale, zero, _) = self.constants[names[0]], self._scales(names)
        axis = attributes.get("axis", 1) if codes.ndim > 1 else 0
        dims = [-1 if at == axis else 1 for at in range(codes.ndim)] if scale.size > 1 else [1] * codes.ndim
        shifted = codes if zero is None else codes - zero.astype(codes.dtype).reshape(dims)
        return (shifted.astype("float32") * scale.astype("float32").reshape(dims)).astype("float32")

    def _transposed(self, name: str) -> Any:
        """Returns the torch node of a matrix with its axes exchanged; a quantized constant is exchanged before it is
        dequantized, as backends want it."""
        if name not in self._weights:
            return self.call(ATEN.permute.default, self.argument(name), [1, 0])
        names, attributes = self._weights[name]
        turned = f"{names[0]} transposed"
        self.constants[turned] = self.constants[names[0]].T.copy()
        return self._DequantizeLinear([turned, *names[1:]], {**attributes, "axis": 1 - attributes.get("axis", 1) % 2})

    def _QuantizeLinear(self, names: list[str], attributes: dict[str, Any]) -> Any:
        return self._converted(QUANTIZED.quantize_per_tensor.default, None, names, attributes)

    def _DequantizeLinear(self, names: list[str], attributes: dict[str, Any]) -> Any:
        channels = QUANTIZED.dequantize_per_channel.default
        return self._converted(QUANTIZED.dequantize_per_tensor.default, channels, names, attributes)

    def _converted(self, whole: Any, channels: Any, names: list[str], attributes: dict[str, Any]) -> Any:
        scale, zero, kind = self._scales(names)
        low, high = LIMITS[kind]
        data = self.argument(names[0])
        if scale.size == 1:
            zero_point = 0 if zero is None else int(zero.reshape(-1)[0])
            return self.call(whole, data, float(scale.reshape(-1)[0]), zero_point, low, high, kind)
        if channels is None:
            raise Refused(f"{self._node}: an activation quantized per channel; wanted one scale")
        scales = self._buffer(torch.from_numpy(scale.astype("float32")))
        zeros = torch.zeros(scale.size, dtype=torch.int64) if zero is None else torch.from_numpy(zero.astype("int64"))
        return self.call(channels, data, scales, self._buffer(zeros), attributes.get("axis", 1), low, high, kind)

    def _buffer(self, tensor: Any) -> Any:
        attribute = f"constant_{self._buffers}"
        self._buffers += 1
        self.root.register_buffer(attribute, tensor)
        return self.fx.get_attr(attribute)

    def _pads(self, attributes: dict[str, Any], data: Any, value: float) -> tuple[Any, list[int]]:
        """Returns the data and the paddings of both sides that the operator itself applies; others are applied here."""
        pads = list(attributes.get("pads", [0, 0, 0, 0]))
        auto = attributes.get("auto_pad", b"NOTSET")
        if auto not in (b"NOTSET", b"VALID") or len(pads) != 4 or min(pads) < 0:
            raise Refused(f"{self._node}: auto_pad={auto.decode()}, pads={pads}; wanted explicit pads of a picture")
        if pads[0] == pads[2] and pads[1] == pads[3]:
            return data, pads[:2]
        widths = [pads[1], pads[3], pads[0], pads[2]]
        return self.call(ATEN.constant_pad_nd.default, data, widths, value), [0, 0]

    def _Conv(self, names: list[str], attributes: dict[str, Any]) -> Any:
        data, pads = self._pads(attributes, self.argument(names[0]), 0.0)
        strides, dilations = list(attributes.get("strides", [1, 1])), list(attributes.get("dilations", [1, 1]))
        if len(strides) != 2:
            raise Refused(f"{self._node}: a convolution of {len(strides)} dimensions; wanted 2")
        bias = self.argument(names[2]) if len(names) > 2 and names[2] else None
        group = attributes.get("group", 1)
        return self.call(ATEN.conv2d.default, data, self.argument(names[1]), bias, strides, pads, dilations, group)

    def _Gemm(self, names: list[str], attributes: dict[str, Any]) -> Any:
        if attributes.get("alpha", 1.0) != 1 or attributes.get("beta", 1.0) != 1 or attributes.get("transA", 0):
            raise Refused(f"{self._node}: Gemm with alpha, beta or transA; wanted none")
        weight = self.argument(names[1]) if attributes.get("transB", 0) else self._transposed(names[1])
        bias = self.argument(names[2]) if len(names) > 2 and names[2] else None
        return self.call(ATEN.linear.default, self.argument(names[0]), weight, bias)

    def _MaxPool(self, names: list[str], attributes: dict[str, Any]) -> Any:
        data, pads = self._pads(attributes, self.argument(names[0]), float("-inf"))
        kernel, strides = list(attributes["kernel_shape"]), list(attributes.get("strides", [1, 1]))
        if attributes.get("ceil_mode", 0) or set(attributes.get("dilations", [1])) != {1}:
            raise Refused(f"{self._node}: MaxPool with ceil_mode or dilations; wanted none")
        return self.call(ATEN.max_pool2d.default, data, kernel, strides, pads)

    def _AveragePool(self, names: list[str], attributes: dict[str, Any]) -> Any:
        pads, counted = list(attributes.get("pads", [0] * 4)), bool(attributes.get("count_include_pad", 0))
        if pads[:2] != pads[2:] or attributes.get("ceil_mode", 0):
            raise Refused(f"{self._node}: AveragePool with pads={pads} or ceil_mode; wanted equal pads on both sides")
        kernel, strides = list(attributes["kernel_shape"]), list(attributes.get("strides", [1, 1]))
        return self.call(ATEN.avg_pool2d.default, self.argument(names[0]), kernel, strides, pads[:2], False, counted)

    def _GlobalAveragePool(self, names: list[str], attributes: dict[str, Any]) -> Any:
        return self.call(ATEN.mean.dim, self.argument(names[0]), [2, 3], True)

    def _ReduceMean(self, names: list[str], attributes: dict[str, Any]) -> Any:
        axes = attributes.get("axes") or (self.constant(names[1]).tolist() if len(names) > 1 else None)
        if axes is None:
            raise Refused(f"{self._node}: ReduceMean over all axes; wanted axes")
        return self.call(ATEN.mean.dim, self.argument(names[0]), list(axes), bool(attributes.get("keepdims", 1)))

    def _Softmax(self, names: list[str], attributes: dict[str, Any]) -> Any:
        return self.call(
            ATEN.softmax.int, self.argument(names[0]), attributes.get("axis", -1 if self.opset > 12 else 1)
        )

    def _Flatten(self, names: list[str], attributes: dict[str, Any]) -> Any:
        if attributes.get("axis", 1) != 1:
            raise Refused(f"{self._node}: Flatten of axis {attributes['axis']}; wanted 1")
        return self.call(ATEN.flatten.using_ints, self.argument(names[0]), 1)

    def _Reshape(self, names: list[str], attributes: dict[str, Any]) -> Any:
        dims = self.constant(names[1]).tolist()
        if 0 in dims:
            raise Refused(f"{self._node}: Reshape to {dims}; wanted dims without 0")
        return self.call(ATEN.reshape.default, self.argument(names[0]), dims)

    def _Transpose(self, names: list[str], attributes: dict[str, Any]) -> Any:
        return self.call(ATEN.permute.default, self.argument(names[0]), list(attributes["perm"]))

    def _Concat(self, names: list[str], attributes: dict[str, Any]) -> Any:
        return self.call(ATEN.cat.default, [self.argument(name) for name in names], attributes["axis"])

    def _Clip(self, names: list[str], attributes: dict[str, Any]) -> Any:
        low, high = attributes.get("min"), attributes.get("max")
        if self.opset >= 11:
            low = float(self.constant(names[1])) if len(names) > 1 and names[1] else None
            high = float(self.constant(names[2])) if len(names) > 2 and names[2] else None
        return self.call(ATEN.clamp.default, self.argument(names[0]), low, high)

    def _Resize(self, names: list[str], attributes: dict[str, Any]) -> Any:
        scales = self.constant(names[2]).tolist() if len(names) > 2 and names[2] else []
        whole = [int(s) for s in scales]
        plain = attributes.get("coordinate_transformation_mode", b"half_pixel") in (b"asymmetric", b"half_pixel")
        if attributes.get("mode") != b"nearest" or whole != scales or scales[:2] != [1, 1] or not plain:
            raise Refused(
                f"{self._node}: Resize mode={attributes.get('mode')}, scales {scales}; wanted nearest, whole numbers"
            )
        return self.call(ATEN.upsample_nearest2d.vec, self.argument(names[0]), None, [float(s) for s in whole[2:]])
