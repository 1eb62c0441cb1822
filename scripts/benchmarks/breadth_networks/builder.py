"""A small builder of ONNX graphs with random, well scaled weights."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

Array = NDArray[Any]
Inputs = dict[str, Array]


@dataclass
class Net:
    """One graph under construction. Every method returns the name of the tensor it made."""

    name: str
    opset: int = 17
    inputs: list[onnx.ValueInfoProto] = field(default_factory=list)
    nodes: list[onnx.NodeProto] = field(default_factory=list)
    weights: list[onnx.TensorProto] = field(default_factory=list)
    counts: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.rng = np.random.default_rng(sum(ord(c) * (i + 1) for i, c in enumerate(self.name)))

    def fresh(self, stem: str) -> str:
        """A name not used before: stem_0, stem_1, ..."""
        number = self.counts.get(stem, 0)
        self.counts[stem] = number + 1
        return f"{stem}_{number}"

    def input(self, name: str, shape: Sequence[int | str], dtype: int = TensorProto.FLOAT) -> str:
        self.inputs.append(helper.make_tensor_value_info(name, dtype, list(shape)))
        return name

    def const(self, value: Any, dtype: Any = np.float32, stem: str = "const") -> str:
        name = self.fresh(stem)
        self.weights.append(numpy_helper.from_array(np.asarray(value, dtype), name))
        return name

    def ints(self, *values: int) -> str:
        return self.const(list(values), np.int64, "shape")

    def normal(self, *shape: int, std: float = 1.0, mean: float = 0.0) -> str:
        return self.const(self.rng.normal(mean, std, shape), stem="weight")

    def op(self, op_type: str, *inputs: str, **attributes: Any) -> str:
        return self.ops(op_type, 1, *inputs, **attributes)[0]

    def ops(self, op_type: str, outputs: int, *inputs: str, **attributes: Any) -> list[str]:
        """A node with several outputs."""
        name = self.fresh(op_type.lower())
        names = [name] if outputs == 1 else [f"{name}_{i}" for i in range(outputs)]
        self.nodes.append(helper.make_node(op_type, list(inputs), names, name=f"/{name}", **attributes))
        return names

    def conv(
        self,
        x: str,
        channels: tuple[int, int],
        kernel: int | Sequence[int] = 3,
        stride: int = 1,
        dims: int = 2,
        group: int = 1,
        dilation: int = 1,
        pads: Sequence[int] | None = None,
    ) -> str:
        """Convolution with bias, padded to keep the size when `pads` is None and the kernel odd."""
        size = [kernel] * dims if isinstance(kernel, int) else list(kernel)
        fan_in = channels[0] // group * math.prod(size)
        weight = self.normal(channels[1], channels[0] // group, *size, std=math.sqrt(2 / fan_in))
        bias = self.normal(channels[1], std=0.1)
        edges = [dilation * (k - 1) // 2 for k in size]
        return self.op(
            "Conv", x, weight, bias, kernel_shape=size, strides=[stride] * dims, group=group,
            dilations=[dilation] * dims, pads=list(pads) if pads is not None else edges * 2,
        )  # fmt: skip

    def conv_transpose(self, x: str, channels: tuple[int, int], kernel: int = 2, stride: int = 2, dims: int = 2) -> str:
        """Upsampling by `stride` exactly: the kernel must exceed it by an even number."""
        edge = (kernel - stride) // 2
        size = [kernel] * dims
        taps = channels[0] * math.prod(size) / stride**dims
        weight = self.normal(channels[0], channels[1], *size, std=math.sqrt(2 / taps))
        bias = self.normal(channels[1], std=0.1)
        return self.op(
            "ConvTranspose", x, weight, bias, kernel_shape=size, strides=[stride] * dims, pads=[edge] * (2 * dims)
        )

    def batch_norm(self, x: str, channels: int) -> str:
        scale, bias = self.normal(channels, std=0.1, mean=1.0), self.normal(channels, std=0.1)
        mean = self.normal(channels, std=0.1)
        variance = self.const(self.rng.uniform(0.5, 1.5, channels), stem="weight")
        return self.op("BatchNormalization", x, scale, bias, mean, variance, epsilon=1e-5)

    def conv_bn(self, x: str, channels: tuple[int, int], kernel: int = 3, stride: int = 1, group: int = 1) -> str:
        return self.batch_norm(self.conv(x, channels, kernel, stride, group=group), channels[1])

    def linear(self, x: str, size: tuple[int, int], bias: bool = True) -> str:
        """MatMul and Add, as torch writes a Linear on three dimensions."""
        y = self.op("MatMul", x, self.normal(*size, std=math.sqrt(1 / size[0])))
        return self.op("Add", self.normal(size[1], std=0.1), y) if bias else y

    def gemm(self, x: str, size: tuple[int, int]) -> str:
        """Gemm with the weight transposed, as torch writes a Linear on two dimensions."""
        weight = self.normal(size[1], size[0], std=math.sqrt(1.5 / size[0]))
        return self.op("Gemm", x, weight, self.normal(size[1], std=0.1), alpha=1.0, beta=1.0, transB=1)

    def layer_norm(self, x: str, size: int) -> str:
        scale, bias = self.normal(size, std=0.1, mean=1.0), self.normal(size, std=0.1)
        return self.op("LayerNormalization", x, scale, bias, axis=-1, epsilon=1e-5)

    def relu6(self, x: str) -> str:
        return self.op("Clip", x, self.const(0.0), self.const(6.0))

    def swish(self, x: str) -> str:
        return self.op("Mul", x, self.op("Sigmoid", x))

    def gelu(self, x: str) -> str:
        """The form with Erf that exporters write below opset 20."""
        inner = self.op("Erf", self.op("Div", x, self.const(math.sqrt(2))))
        product = self.op("Mul", x, self.op("Add", inner, self.const(1.0)))
        return self.op("Mul", product, self.const(0.5))

    def reshape(self, x: str, *shape: int) -> str:
        return self.op("Reshape", x, self.ints(*shape))

    def reshape_like_batch(self, x: str, *shape: int) -> str:
        """Reshape whose first size is read from x at run time: Shape, Gather, Unsqueeze, Concat, as torch exports it."""
        batch = self.op("Gather", self.op("Shape", x), self.const(0, np.int64), axis=0)
        sizes = self.op("Concat", self.op("Unsqueeze", batch, self.ints(0)), self.ints(*shape), axis=0)
        return self.op("Reshape", x, sizes)

    def transpose(self, x: str, *perm: int) -> str:
        return self.op("Transpose", x, perm=list(perm))

    def slice(self, x: str, start: int, end: int, axis: int, step: int = 1) -> str:
        return self.op("Slice", x, self.ints(start), self.ints(end), self.ints(axis), self.ints(step))

    def pool(self, kind: str, x: str, kernel: int, stride: int, dims: int = 2, pad: int = 0, **attributes: Any) -> str:
        """MaxPool or AveragePool with a square window."""
        return self.op(
            kind, x, kernel_shape=[kernel] * dims, strides=[stride] * dims, pads=[pad] * (2 * dims), **attributes
        )

    def attention(self, x: str, tokens: int, width: int, heads: int, bias: str | None = None) -> str:
        """Self-attention over [1, tokens, width]; `bias` is added to the scores before the Softmax."""

        def split(name: str, perm: Sequence[int]) -> str:
            return self.transpose(self.reshape(name, 1, tokens, heads, width // heads), *perm)

        query = split(self.linear(x, (width, width)), (0, 2, 1, 3))
        key = split(self.linear(x, (width, width)), (0, 2, 3, 1))
        value = split(self.linear(x, (width, width)), (0, 2, 1, 3))
        scores = self.op("Mul", self.op("MatMul", query, key), self.const((width // heads) ** -0.5))
        if bias is not None:
            scores = self.op("Add", scores, bias)
        mixed = self.op("MatMul", self.op("Softmax", scores, axis=-1), value)
        return self.linear(self.reshape(self.transpose(mixed, 0, 2, 1, 3), 1, tokens, width), (width, width))

    def finish(self, **outputs: str) -> onnx.ModelProto:
        """The model, its outputs renamed to the keywords and their shapes inferred."""
        renamed = {tensor: name for name, tensor in outputs.items()}
        for node in self.nodes:
            node.input[:] = [renamed.get(name, name) for name in node.input]
            node.output[:] = [renamed.get(name, name) for name in node.output]
        graph = helper.make_graph(self.nodes, self.name, self.inputs, [], self.weights)
        graph.output.extend(onnx.ValueInfoProto(name=name) for name in outputs)
        ir_version = 8 if self.opset < 19 else 9 if self.opset < 21 else 10
        model = helper.make_model(
            graph, opset_imports=[helper.make_opsetid("", self.opset)], ir_version=ir_version, producer_name="pytorch"
        )
        model = onnx.shape_inference.infer_shapes(model, strict_mode=True, data_prop=True)
        del model.graph.value_info[:]
        return model


def picture(rng: np.random.Generator, *shape: int) -> Array:
    """A smooth random field with mean near zero and values around one, like a normalized photo."""
    field_ = rng.normal(0, 1, shape)
    for axis in range(2, len(shape)):
        for _ in range(2):
            field_ = (field_ + np.roll(field_, 1, axis) + np.roll(field_, -1, axis)) / 2
    return (field_ / max(float(field_.std()), 1e-6)).astype(np.float32)
