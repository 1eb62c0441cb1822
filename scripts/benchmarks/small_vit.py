"""Builds a vision transformer of two layers with random weights, quantized by onnxruntime.quantization;
LayerNormalization stays float."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

DEPTH, HEADS, TOKENS, LAYERS, CLASSES = 48, 3, 17, 2, 10


class _Network:
    """Collects nodes and constants; every node is named after its output."""

    def __init__(self, seed: int):
        self.rng = np.random.default_rng(seed)
        self.nodes: list[onnx.NodeProto] = []
        self.constants: list[onnx.TensorProto] = []

    def node(self, op: str, inputs: list[str], out: str, **attributes: Any) -> str:
        self.nodes.append(helper.make_node(op, inputs, [out], name=out, **attributes))
        return out

    def constant(self, name: str, value: Any) -> str:
        self.constants.append(numpy_helper.from_array(np.asarray(value), name))
        return name

    def weight(self, name: str, *shape: int, spread: float = 0.02, mean: float = 0.0) -> str:
        return self.constant(name, self.rng.normal(mean, spread, shape).astype(np.float32))

    def norm(self, x: str, name: str) -> str:
        gamma, beta = self.weight(name + "g", DEPTH, spread=0.3, mean=1.0), self.weight(name + "b", DEPTH, spread=0.1)
        return self.node("LayerNormalization", [x, gamma, beta], name, axis=-1, epsilon=1e-5)

    def linear(self, x: str, name: str, rows: int, columns: int) -> str:
        product = self.node("MatMul", [x, self.weight(name + "w", rows, columns, spread=rows**-0.5)], name + "m")
        return self.node("Add", [product, self.weight(name + "c", columns)], name)

    def heads(self, x: str, name: str, keys: bool) -> str:
        shape = self.constant(name + "shape", np.array([1, TOKENS, HEADS, DEPTH // HEADS]))
        split = self.node("Reshape", [self.linear(x, name, DEPTH, DEPTH), shape], name + "r")
        return self.node("Transpose", [split], name + "t", perm=[0, 2, 3, 1] if keys else [0, 2, 1, 3])

    def layer(self, x: str, at: int) -> str:
        p = f"l{at}_"
        y = self.norm(x, p + "ln1")
        q, k, v = (self.heads(y, p + n, n == "k") for n in "qkv")
        scaled = self.node("Mul", [self.node("MatMul", [q, k], p + "qk"), "root"], p + "qs")
        mixed = self.node("MatMul", [self.node("Softmax", [scaled], p + "sm", axis=-1), v], p + "av")
        joined = self.node("Reshape", [self.node("Transpose", [mixed], p + "ot", perm=[0, 2, 1, 3]), "whole"], p + "or")
        x = self.node("Add", [x, self.linear(joined, p + "o", DEPTH, DEPTH)], p + "res1")
        y = self.linear(self.norm(x, p + "ln2"), p + "f1", DEPTH, 4 * DEPTH)
        return self.node(
            "Add", [x, self.linear(self.node("Gelu", [y], p + "gelu"), p + "f2", 4 * DEPTH, DEPTH)], p + "res2"
        )


def _float_model(seed: int) -> onnx.ModelProto:
    n = _Network(seed)
    n.constant("root", np.float32((DEPTH // HEADS) ** -0.5)), n.constant("whole", np.array([1, TOKENS, DEPTH]))
    x = n.node("Conv", ["x", n.weight("pw", DEPTH, 3, 4, 4, spread=0.15), n.weight("pb", DEPTH)], "pe", strides=[4, 4])
    x = n.node("Reshape", [x, n.constant("s0", np.array([1, DEPTH, TOKENS - 1]))], "pr")
    x = n.node(
        "Concat",
        [n.weight("cls", 1, 1, DEPTH, spread=0.5), n.node("Transpose", [x], "pt", perm=[0, 2, 1])],
        "pc",
        axis=1,
    )
    x = n.node("Add", [x, n.weight("pos", 1, TOKENS, DEPTH, spread=0.2)], "pa")
    for at in range(LAYERS):
        x = n.layer(x, at)
    first = n.node("Gather", [n.norm(x, "fln"), n.constant("zero", np.array(0))], "cl", axis=1)
    n.node("Gemm", [first, n.weight("hw", CLASSES, DEPTH, spread=0.2), n.weight("hb", CLASSES)], "y", transB=1)
    ends = [
        helper.make_tensor_value_info(k, TensorProto.FLOAT, s) for k, s in (("x", [1, 3, 16, 16]), ("y", [1, CLASSES]))
    ]
    graph = helper.make_graph(n.nodes, "small_vit", ends[:1], ends[1:], n.constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)


def small_vit(path: Path, bits: int, seed: int = 0) -> Path:
    """Writes the QDQ file: uint8 or uint16 activations, int8 weights with a scale per channel."""
    from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static

    class Reader(CalibrationDataReader):  # type: ignore[misc]
        def __init__(self) -> None:
            rng = np.random.default_rng(seed + 1)
            self.rows: Iterator[dict[str, Any]] = iter(
                [{"x": rng.uniform(-1, 1, (1, 3, 16, 16)).astype(np.float32)} for _ in range(4)]
            )

        def get_next(self) -> dict[str, Any] | None:
            return next(self.rows, None)

    quantize_static(
        _float_model(seed),
        str(path),
        Reader(),
        quant_format=QuantFormat.QDQ,
        per_channel=True,
        activation_type=QuantType.QUInt8 if bits == 8 else QuantType.QUInt16,
        weight_type=QuantType.QInt8,
        extra_options={} if bits == 8 else {"UseQDQContribOps": True},
    )
    return path
