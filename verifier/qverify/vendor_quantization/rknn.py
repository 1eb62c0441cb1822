"""Rockchip: NAME.quantization.cfg, which hybrid_quantization_step1 of rknn-toolkit2 writes.

The file states scale and zero point of every tensor of the optimized graph. The rest is what the toolkit was seen to do
(2.5.0, rk3588): weights are asymmetric int8 of each output channel, whose step is at least the tensor's largest step
divided by 2^14; biases are int32 in steps of float32(scale of x * step of w); a convolution or product is one with the
activation or the addition after it, so that what lies between them is not quantized; parallel convolutions of one tensor that are added are
one, whose weights are quantized; a mean over more than 7 elements of a
dimension is computed in two convolutions with constant weights; Softmax reads and gives float16. Channels whose weights
are all next to zero are constants, which the toolkit adds to the biases of the next convolution."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from math import prod, sqrt
from typing import Any

import numpy as np
import numpy.typing as npt
from onnx import ModelProto, NodeProto, TensorProto, shape_inference

from qverify.errors import BadFileError
from qverify.onnx_model.load import parse
from qverify.onnx_model.qdq_graph import COMPUTED, QdqGraph, Step, attributes, constants, quantize_weights
from qverify.plural import count
from qverify.vendor_files.rockchip_cfg import CfgTensor, is_cfg, read_cfg
from qverify.vendor_files.rockchip_names import onnx_names, stems
from qverify.vendor_quantization import Quantized
from qverify.vendor_quantization.rknn_parts.fusions import LINEAR, inside
from qverify.vendor_quantization.rknn_parts.merged_branches import merge_branches
from qverify.vendor_quantization.rknn_parts.still_channels import StillChannels
from qverify.vendor_quantization.rknn_parts.weights import FINEST, divide, plain_steps, weight_steps

FILES = "NAME.quantization.cfg of hybrid_quantization_step1"
MOVES = ("Reshape", "Flatten", "Squeeze", "Unsqueeze", "Transpose", "Identity", "Dropout", "MaxPool", "Split", "Slice")
MIN_OPSET = 13  # the first opset with scales per channel
Array = npt.NDArray[Any]


def recognised(name: str, data: bytes) -> bool:
    """Returns whether a file is such a text."""
    return is_cfg(data)


def write_quantized(float_onnx: bytes, files: Mapping[str, bytes]) -> Quantized:
    """Returns the QDQ ONNX of what rknn-toolkit2 made of the float ONNX. files: contents by file name; the text is found by
    its content. Raises BadFileError if there is none, or if it is of another network."""
    texts = {name: data for name, data in files.items() if is_cfg(data)}
    if len(texts) != 1:
        raise BadFileError(
            f"{count(len(texts), 'file')} of rknn-toolkit2 ({', '.join(files) or 'none'}); wanted {FILES}"
        )
    name, text = next(iter(texts.items()))
    model = parse(float_onnx, "float ONNX")
    opset = next((o.version for o in model.opset_import if o.domain in ("", "ai.onnx")), 0)
    if opset < MIN_OPSET:
        raise BadFileError(f"the float ONNX has opset {opset}; wanted {MIN_OPSET} or later")
    return _Writer(shape_inference.infer_shapes(model), read_cfg(text, name), name).write()


@dataclass(slots=True)
class _Writer:
    """Writes the QDQ ONNX.

    Attributes:
        stated: tensors of the text, by its names.
        place: name of the text.
        steps: scale and zero point of the ONNX's tensors that are quantized.
        read: names under which later nodes read a tensor, of those that have another one.
        inside: tensors that are not quantized, as one operation computes them together with the next one.
        still: the channels that have the same value everywhere.
    """

    model: ModelProto
    stated: dict[str, CfgTensor]
    place: str
    graph: QdqGraph = field(default_factory=QdqGraph)
    floats: dict[str, Array] = field(default_factory=dict)
    makers: dict[str, NodeProto] = field(default_factory=dict)
    steps: dict[str, Step] = field(default_factory=dict)
    read: dict[str, str] = field(default_factory=dict)
    names: dict[str, str] = field(default_factory=dict)
    still: StillChannels = field(default_factory=lambda: StillChannels({}))
    inside: set[str] = field(default_factory=set)
    said: dict[str, list[str]] = field(default_factory=dict)

    def write(self) -> Quantized:
        graph = self.model.graph
        self.floats = constants(self.model)
        self.still = StillChannels(self.floats)
        for node in graph.node:
            self.makers |= dict.fromkeys(node.output, node)
        inputs = [i.name for i in graph.input if i.name not in self.floats]
        known = {*inputs, *self.makers}
        self.names = {name: name for name in self.stated if name in known}
        self.names |= onnx_names(self.stated, known)
        if len({*self.names.values()} & {*self.makers}) == 0:
            raise BadFileError(
                f"{self.place}: no tensor of it is one of the float ONNX; wanted the text of this network"
            )
        merged = merge_branches(self.model, self.floats, {*self.names.values()})
        self.said |= {"merged": merged} if merged else {}
        for name in merged:
            del self.makers[name]
        self._find_steps()
        self.inside = inside(self.model, self.steps)
        for name in self.inside:
            self.steps.pop(name, None)
        for name in inputs:
            self._finish(name, name)
        for node in graph.node:
            if not (node.op_type == "Constant" and node.output[0] in self.floats):
                self._write(node)
        return Quantized(self.graph.serialized(self.model, self.floats), self._changes(), "", self._pairs())

    def _find_steps(self) -> None:
        """Finds the step of each tensor of the ONNX that the text states to be quantized, by its own or a longer name."""
        known = {*self.makers, *(i.name for i in self.model.graph.input)}
        for name, tensor in self.stated.items():
            source = self.names.get(name) or next((s for s in (name.removesuffix("_int8"),) if s in known), "")
            if not tensor.quantized or not source or self.steps.get(source) is not None:
                continue
            if len(tensor.scale) != 1 or tensor.dtype != "int8":
                raise BadFileError(
                    f"{self.place}: {name!r} has {tensor.dtype} and {count(len(tensor.scale), 'scale')}; wanted int8 with one scale"
                )
            self.steps[source] = Step(tensor.scale[0], tensor.zero_point[0], tensor.dtype)

    def _finish(self, name: str, computed: str) -> None:
        """Adds Q and DQ of a tensor."""
        self.read[name] = self.graph.quantize(name, computed, self.steps[name]) if name in self.steps else computed

    def _reads(self, name: str) -> str:
        return self.read.get(name, name)

    # Nodes

    def _write(self, node: NodeProto) -> None:
        name = node.output[0]
        if (
            node.op_type in LINEAR
            and len(node.input) > 1
            and node.input[1] in self.floats
            and node.input[0] in self.steps
        ):
            self._write_linear(node)
        elif node.op_type in ("GlobalAveragePool", "ReduceMean") and name in self.steps and self._write_mean(node):
            pass
        elif node.op_type == "Softmax" and self._state_of(name) == "float16":
            self._write_softmax(node)
        else:
            if node.op_type in LINEAR and len(node.input) > 1 and node.input[1] in self.floats:
                self.said.setdefault("floats", []).append(name)
            self._copy(node)

    def _state_of(self, name: str) -> str:
        """Returns the type that the text states for a tensor of the ONNX, "" if it states none."""
        return next((t.dtype for n, t in self.stated.items() if self.names.get(n) == name or n == name), "")

    def _target(self, node: NodeProto) -> str:
        """Returns the name of the values that a node computes, before they are quantized."""
        name = node.output[0]
        return name + COMPUTED if name in self.steps else name

    def _done(self, node: NodeProto) -> None:
        name = node.output[0]
        if name in self.inside:
            self.said.setdefault("inside", []).append(name)
        elif name in self.steps:
            self._finish(name, name + COMPUTED)

    def _copy(self, node: NodeProto) -> None:
        """Writes a node as it is. What only moves values keeps their step."""
        source = node.input[0] if node.input else ""
        if node.op_type in MOVES and source in self.steps and node.output[0] not in self.steps:
            self.steps[node.output[0]] = self.steps[source]
        copy = NodeProto()
        copy.CopyFrom(node)
        for k, name in enumerate(node.input):
            copy.input[k] = self._reads(name)
        copy.output[0] = self._target(node)
        self.graph.nodes.append(copy)
        self.still.follow(node)
        self._done(node)

    def _write_softmax(self, node: NodeProto) -> None:
        name, source = node.output[0], node.input[0]
        narrow = f"{source}__float16"
        half = self.graph.add("Cast", [self._reads(source)], f"{narrow}_half", to=TensorProto.FLOAT16)
        self.graph.add("Cast", [half], narrow, to=TensorProto.FLOAT)
        wide = self.graph.add("Softmax", [narrow], f"{name}_float32", **attributes(node))
        half = self.graph.add("Cast", [wide], f"{name}_half", to=TensorProto.FLOAT16)
        self.graph.add("Cast", [half], name, to=TensorProto.FLOAT)
        self.said.setdefault("float16", []).append(name)

    def _write_linear(self, node: NodeProto) -> None:
        facts, name = attributes(node), node.output[0]
        weights, axis = self.floats[node.input[1]], self._channel_axis(node, facts)
        bias = self.floats.get(node.input[2]) if len(node.input) > 2 and node.input[2] else None
        if node.op_type == "Gemm":
            weights = weights * np.float32(facts.pop("alpha", 1.0))
            bias = None if bias is None else bias * np.float32(facts.pop("beta", 1.0))
        added = self.still.added(node, weights)
        if added is not None:
            self.said.setdefault("still", []).append(name)
            bias = (added if bias is None else bias.astype(np.float64) + added).astype(np.float32)
            weights = self.still.without(node, weights)
        step, zero = weight_steps(weights, axis)
        finest = float(step.max()) / FINEST
        lifted = int((plain_steps(weights, axis) < finest).sum())
        if lifted:
            self.said.setdefault("lifted", []).append(f"{name} ({count(lifted, 'channel')})")
        codes = quantize_weights(weights, step, zero, axis)
        operands = [self._reads(node.input[0]), self.graph.stored(f"{name}/weight", codes, step, zero, axis)]
        if bias is not None:
            sums = (self.steps[node.input[0]].scale * np.repeat(step, bias.size // step.size)).astype(np.float32)
            whole = np.rint(bias.reshape(-1).astype(np.float32) / sums).clip(-(2**31), 2**31 - 1).astype(np.int64)
            zeros = np.zeros(whole.shape, np.int32)
            operands.append(self.graph.stored(f"{name}/bias", whole.astype(np.int32), sums, zeros, 0))
        if node.op_type in ("Gemm", "MatMul"):
            self.said.setdefault("product", []).append(name)
        self.graph.add(node.op_type, operands, self._target(node), **facts)
        self.still.follow(node)
        self._done(node)

    def _channel_axis(self, node: NodeProto, facts: Mapping[str, Any]) -> int:
        if node.op_type == "Conv":
            return 0
        if node.op_type == "ConvTranspose":
            return 1
        return 0 if node.op_type == "Gemm" and facts.get("transB") else self.floats[node.input[1]].ndim - 1

    def _write_mean(self, node: NodeProto) -> bool:
        """Writes a mean over both dimensions of an image as convolutions with constant weights. Returns False for another
        mean, or one of values that are not quantized."""
        dims, name = self._dims(node.input[0]), node.output[0]
        axes = self._mean_axes(node, len(dims))
        if len(dims) != 4 or axes != [2, 3] or node.input[0] not in self.steps or 0 in dims:
            return False
        sizes, channels = (dims[2], dims[3]), dims[1]
        middle = f"{name}_2conv0" if f"{name}_2conv0" in self.stated else self._two_steps(name)
        windows = [divide(size) for size in sizes]
        if not middle:
            self._average(self._reads(node.input[0]), channels, (1 / prod(sizes), sizes, sizes, [0] * 4), name)
            self._done(node)
            return True
        value = 1 / sqrt(prod(sizes))
        kernel = tuple(w.size for w in windows)
        stride = tuple(w.size if w.count > 1 else 1 for w in windows)
        pads = [*(w.before for w in windows), *(w.after for w in windows)]
        first = self._average(self._reads(node.input[0]), channels, (value, kernel, stride, pads), middle)
        tensor = self.stated[middle]
        step = Step(tensor.scale[0], tensor.zero_point[0], tensor.dtype)
        self.steps[middle] = step
        real = self.graph.quantize(middle, first, step)
        counts = tuple(w.count for w in windows)
        self._average(real, channels, (value, counts, counts, [0] * 4), name)
        self.said.setdefault("mean", []).append(name)
        self._done(node)
        return True

    def _two_steps(self, name: str) -> str:
        """Returns the tensor between the two steps of a mean, whatever the toolkit puts before the name; "" for one step."""
        made = f"{self.makers[name].input[0]}_gavg_2conv0"  # of a ReduceMean
        return next((n for n in self.stated if n == made or n.endswith(f"{name}_2conv0")), "")

    def _dims(self, name: str) -> list[int]:
        graph = self.model.graph
        for info in (*graph.value_info, *graph.input, *graph.output):
            if info.name == name:
                return [d.dim_value for d in info.type.tensor_type.shape.dim]
        return []

    def _mean_axes(self, node: NodeProto, rank: int) -> list[int]:
        if node.op_type == "GlobalAveragePool":
            return [2, 3]
        facts = attributes(node)
        axes = facts.get("axes") or (
            self.floats.get(node.input[1], np.array([])).tolist() if len(node.input) > 1 else []
        )
        return sorted(a % rank for a in axes) if rank and facts.get("keepdims", 1) else []

    def _average(self, source: str, channels: int, form: tuple[float, Any, Any, list[int]], name: str) -> str:
        """Adds a convolution with one weight. form: weight, kernel, strides, pads. Returns its output."""
        value, kernel, strides, pads = form
        shape = (channels, 1, *kernel)
        step = np.full(channels, float(np.float32(value)) / 255.0)
        codes = np.full(shape, 127, np.int8)
        weight = self.graph.stored(f"{name}/mean", codes, step, np.full(channels, -128), 0)
        facts = {"group": channels, "kernel_shape": list(kernel), "strides": list(strides), "pads": pads}
        return self.graph.add("Conv", [source, weight], name + COMPUTED, **facts)

    # What is said

    def _pairs(self) -> dict[str, str]:
        """Returns the toolkit's names that stand for a tensor of the QDQ ONNX, with that tensor's name."""
        inputs = {i.name for i in self.model.graph.input}
        computed = {name for node in self.graph.nodes for name in node.output}
        pairs = dict[str, str]()
        for name in self.stated:
            body = name.removesuffix("__float16")
            source = next((s for s in (body, *stems(body)) if s in self.makers or s in inputs), "")
            if name in inputs or not source:
                continue
            found = f"{source}__float16" if name != body else self.read.get(source, source)
            if found in computed:
                pairs[name] = found
        return pairs

    def _changes(self) -> list[str]:
        said, short = self.said, {i.name for i in self.model.graph.input}
        named = [f"{n} for {s}" for n, s in self.names.items() if n != s and s not in short]
        lines = [
            f"{self.place}: {count(len(self.steps), 'tensor', 'has', 'have')} 8 bits, weights int8 with a step and a zero point for each channel"
        ]
        for key, text in _SAID.items():
            if key in said:
                lines.append(f"{text}: {count(len(said[key]), 'time')}, first {said[key][0]}")
        if named:
            lines.append(f"{count(len(named), 'tensor', 'has', 'have')} another name in the toolkit, first {named[0]}")
        pairs = self._pairs()
        unknown = [n for n in self.stated if n not in self.names and n not in pairs and not n.endswith("_2conv0")]
        if unknown:
            lines.append(f"tensors of the toolkit that the float ONNX does not have: {', '.join(unknown[:3])}")
        absent = [n for n, k in Counter(self.makers).items() if k and n in self._not_stated()]
        if absent:
            lines.append(f"tensors of which the text says nothing, computed in floats here: {', '.join(absent[:3])}")
        return lines

    def _not_stated(self) -> set[str]:
        """Returns outputs of convolutions and products that are neither stated nor inside an operation."""
        stated = {*self.names.values(), *self.steps, *self.said.get("inside", ())}
        made = {n.output[0] for n in self.model.graph.node if n.op_type in LINEAR}
        return made - stated


_SAID = {
    "merged": "computed by one convolution, together with those that are added to it",
    "product": "Gemm or MatMul became a convolution of 1x1",
    "mean": "a mean is computed in two convolutions, with a tensor of int8 between",
    "float16": "Softmax reads and gives float16",
    "inside": "not quantized, as one operation computes it together with the next one",
    "lifted": "weights of some channels have a coarser step, the tensor's largest divided by 2^14",
    "floats": "computed in floats here, as the text states no step of what they read",
    "still": "biases contain what constant channels of the input add",
}
