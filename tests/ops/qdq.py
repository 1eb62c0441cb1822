"""Builds small QDQ models from random constants: the inputs of the law that compiled units equal onnxruntime's (L2)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from qverify.onnx_model.engine import Engine

TYPES = {
    "uint8": TensorProto.UINT8,
    "int8": TensorProto.INT8,
    "uint16": TensorProto.UINT16,
    "int16": TensorProto.INT16,
    "int32": TensorProto.INT32,
    "int64": TensorProto.INT64,
}

Build = Callable[["Qdq"], None]


def reference(integer: bool = True) -> Callable[[Build], Build]:
    """Marks a function of cases/STEM.py as a reference case of that op. integer: onnxruntime has an integer kernel for it, so that
    the compiled model must equal it bit for bit in 8 bits; otherwise within the bounds of NUMERICS.md section 4."""

    def mark(build: Build) -> Build:
        build.integer = integer  # type: ignore[attr-defined]
        return build

    return mark


class Qdq:
    """One model under construction. act: dtype of activations; symmetric: their zero points are 0 (int8, int16)."""

    def __init__(self, act: str = "uint8", symmetric: bool = False, seed: int = 0, opset: int = 17):
        self.act, self.symmetric = act, symmetric
        self.rng = np.random.default_rng(seed)
        self.opset = max(opset, 21) if "16" in act else opset
        self.nodes: list[onnx.NodeProto] = []
        self.constants: dict[str, np.ndarray] = {}
        self.inputs: list[Any] = []
        self.outputs: list[str] = []
        self.feed: dict[str, np.ndarray] = {}
        self.kinds: dict[str, tuple[int, ...]] = {}  # shapes of float tensors that onnx does not infer

    def constant(self, name: str, value: Any) -> str:
        self.constants[name] = np.asarray(value)
        return name

    def op(self, kind: str, inputs: list[str], outputs: int | str = 1, domain: str = "", **attrs: Any) -> str:
        """Adds a node; the name of its first output (the others have a suffix)."""
        name = f"{kind.lower()}{len(self.nodes)}"
        made = [outputs] if isinstance(outputs, str) else [name if i == 0 else f"{name}_{i}" for i in range(outputs)]
        self.nodes.append(helper.make_node(kind, inputs, made, name=f"{name}_node", domain=domain, **attrs))
        return made[0]

    def parameters(self, low: float, high: float, dtype: str) -> tuple[np.ndarray, np.ndarray]:
        """scale, zero point of a range, as a quantizer would choose them."""
        limits = np.iinfo(dtype)
        low, high = min(low, 0.0), max(high, 1e-3)
        if self.symmetric or dtype == "int16":
            return np.float32(max(-low, high) / limits.max), np.array(0, dtype)
        scale = np.float32((high - low) / (limits.max - limits.min))
        return scale, np.array(np.clip(np.rint(limits.min - low / scale), limits.min, limits.max), dtype)

    def pair(self, source: str, scale: np.ndarray, zero: np.ndarray, axis: int | None = None) -> str:
        """source -> QuantizeLinear -> DequantizeLinear; the float name."""
        more = {} if axis is None else {"axis": axis}
        s, z = self.constant(f"{source}_scale", scale), self.constant(f"{source}_zp", zero)
        q = self.op("QuantizeLinear", [source, s, z], f"{source}_q", **more)
        return self.op("DequantizeLinear", [q, s, z], f"{source}_dq", **more)

    def input(self, shape: tuple[int, ...], low: float = -2.0, high: float = 3.0, dtype: str = "") -> str:
        name = f"in{len(self.inputs)}"
        self.inputs.append(helper.make_tensor_value_info(name, TensorProto.FLOAT, shape))
        self.feed[name] = self.rng.uniform(low, high, shape).astype(np.float32)
        return self.pair(name, *self.parameters(low, high, dtype or self.act))

    def integers(self, shape: tuple[int, ...], high: int = 2, dtype: str = "int64") -> str:
        """A graph input of integers that is not quantized; 0 to high - 1 in the feed."""
        name = f"in{len(self.inputs)}"
        self.inputs.append(helper.make_tensor_value_info(name, TYPES[dtype], shape))
        self.feed[name] = self.rng.integers(0, high, shape).astype(dtype)
        return name

    def weight(self, shape: tuple[int, ...], dtype: str = "int8", axis: int | None = None, zero: bool = False) -> str:
        """A quantized constant behind its DequantizeLinear; per channel along axis; with zero points if asked."""
        name, limits = f"w{len(self.constants)}", np.iinfo(dtype)
        count = 1 if axis is None else shape[axis]
        scale = self.rng.uniform(0.003, 0.02, count).astype(np.float32)
        zeros = self.rng.integers(limits.min // 4, limits.max // 4 + 1, count) if zero else np.zeros(count, int)
        if dtype == "uint8" and not zero:
            zeros += 128
        value = self.rng.integers(limits.min, limits.max + 1, shape).astype(dtype)
        shaped = (lambda v: v.reshape(())) if axis is None else (lambda v: v)
        s = self.constant(f"{name}_scale", shaped(scale))
        z = self.constant(f"{name}_zp", shaped(zeros.astype(dtype)))
        more = {} if axis is None else {"axis": axis}
        return self.op("DequantizeLinear", [self.constant(f"{name}_i8", value), s, z], f"{name}_dq", **more)

    def bias(self, x: str, w: str, count: int) -> str:
        """An int32 bias with scale sx * sw, as quantizers write it."""
        sx, sw = self.constants[x.removesuffix("_dq") + "_scale"], self.constants[w.removesuffix("_dq") + "_scale"]
        name, scale = f"b{len(self.constants)}", np.atleast_1d(sx * sw).astype(np.float32)
        value = self.rng.integers(-3000, 3000, count).astype(np.int32)
        s = self.constant(f"{name}_scale", scale if len(scale) > 1 else scale.reshape(()))
        z = self.constant(f"{name}_zp", np.zeros(scale.shape if len(scale) > 1 else (), np.int32))
        more = {"axis": 0} if len(scale) > 1 else {}
        return self.op("DequantizeLinear", [self.constant(f"{name}_i32", value), s, z], f"{name}_dq", **more)

    def quantize(self, name: str, dtype: str = "", like: str = "", crop: float = 1.0) -> str:
        """Q and DQ after a float tensor, its range measured on the model's own input; like: the parameters of that tensor.

        crop: share of the range that is kept, so that both ends saturate."""
        if like:
            base = like.removesuffix("_dq")
            return self.pair(name, self.constants[f"{base}_scale"], self.constants[f"{base}_zp"])
        value = Engine(self.model([name]).SerializeToString()).run(self.feed)[name]
        return self.pair(
            name, *self.parameters(float(value.min()) * crop, float(value.max()) * crop, dtype or self.act)
        )

    def output(self, name: str) -> None:
        self.outputs.append(name)

    def model(self, outputs: list[str] | None = None) -> onnx.ModelProto:
        wanted = outputs or self.outputs
        kinds = [
            helper.make_tensor_value_info(n, TensorProto.FLOAT, self.kinds[n])
            if n in self.kinds
            else onnx.ValueInfoProto(name=n)
            for n in wanted
        ]
        initializers = [
            numpy_helper.from_array(np.ascontiguousarray(v).reshape(v.shape), n) for n, v in self.constants.items()
        ]
        graph = helper.make_graph(self.nodes, "unit", self.inputs, kinds, initializers)
        domains = [helper.make_opsetid("", self.opset), helper.make_opsetid("com.microsoft", 1)]
        model = helper.make_model(graph, opset_imports=domains)
        model.ir_version = 10 if self.opset >= 21 else 8
        if outputs is None:
            done = onnx.shape_inference.infer_shapes(model)
            known = {v.name: v for v in [*done.graph.value_info, *done.graph.output]}
            del model.graph.output[:]
            model.graph.output.extend(known[n] for n in wanted)
            for output in model.graph.output:  # ONNX infers nothing behind operators of com.microsoft
                if not output.type.tensor_type.elem_type:
                    output.type.tensor_type.elem_type = TensorProto.FLOAT
        return model
