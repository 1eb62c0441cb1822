"""A float model and quantized ones of it, and a triage of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from qverify.cli.main import main

PLANTED = "r2"


def float_model(path: Path, bias: bool = True, name: str = "{}") -> None:
    """Two branches of Conv and Relu, added, pooled, and a Gemm. bias: of the second convolution."""
    made = np.random.default_rng(7)

    def weights(*shape: int) -> np.ndarray:
        return (made.standard_normal(shape) * 0.3).astype(np.float32)

    named = name.format
    held = {
        "w1": weights(5, 3, 3, 3), "b1": weights(5), "w2": weights(7, 5, 3, 3), "b2": weights(7) + 1,
        "w3": weights(7, 5, 1, 1), "b3": weights(7), "w4": weights(7, 10), "b4": weights(10),
    }  # fmt: skip
    if not bias:
        held["b2"] = held["b2"] * 0
    nodes = [
        helper.make_node("Conv", ["x", "w1", "b1"], [named("c1")], "conv1", pads=[1, 1, 1, 1]),
        helper.make_node("Relu", [named("c1")], [named("r1")], "relu1"),
        helper.make_node("Conv", [named("r1"), "w2", "b2"], [named("c2")], "conv2", pads=[1, 1, 1, 1]),
        helper.make_node("Relu", [named("c2")], [named("r2")], "relu2"),
        helper.make_node("Conv", [named("r1"), "w3", "b3"], [named("c3")], "conv3"),
        helper.make_node("Add", [named("r2"), named("c3")], [named("a")], "add"),
        helper.make_node("GlobalAveragePool", [named("a")], [named("p")], "pool"),
        helper.make_node("Flatten", [named("p")], [named("f")], "flatten"),
        helper.make_node("Gemm", [named("f"), "w4", "b4"], ["y"], "gemm"),
    ]
    graph = helper.make_graph(
        nodes,
        "made",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 3, 11, 13])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 10])],
        [numpy_helper.from_array(v, n) for n, v in held.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    model.ir_version = 8
    onnx.save(onnx.shape_inference.infer_shapes(model), path)


class Reader:
    def __init__(self, frames: list[np.ndarray]):
        self.frames = iter([{"x": f} for f in frames])

    def get_next(self) -> Any:
        return next(self.frames, None)


def frames(count: int) -> list[np.ndarray]:
    made = np.random.default_rng(3)
    return [made.standard_normal((1, 3, 11, 13)).astype(np.float32) for _ in range(count)]


def quantized(source: Path, target: Path, planted: float = 1.0, **more: Any) -> None:
    """planted: the scale of PLANTED is multiplied by it, so that it saturates. Biases of its reader do not depend on it."""
    from onnxruntime.quantization import QuantFormat, QuantType, quantize_static

    kinds = {"activation_type": QuantType.QUInt8, "weight_type": QuantType.QInt8, "per_channel": True}
    quantize_static(source, target, Reader(frames(8)), **{"quant_format": QuantFormat.QDQ, **kinds, **more})
    model = onnx.load(target)
    for held in model.graph.initializer:
        if held.name == f"{PLANTED}_scale":
            held.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(held) * np.float32(planted), held.name))
    onnx.save(model, target)


def run(tmp_path: Path, *words: object) -> tuple[int, dict[str, Any]]:
    out = tmp_path / "triage.json"
    out.unlink(missing_ok=True)
    status = main(["triage", *map(str, words), "--json", str(out)])
    return status, json.loads(out.read_text()) if out.exists() else {}
