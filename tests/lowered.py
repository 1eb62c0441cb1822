"""Quantized ONNX as onnxruntime itself lowers it to integer operators, run with exact products on every processor."""

from __future__ import annotations

from pathlib import Path

import onnx
from qverify.onnx_model.engine import Engine


def lowered_by_onnxruntime(model: bytes, folder: Path) -> onnx.ModelProto:
    """Returns what onnxruntime's optimizer makes of the model. folder: gets the file."""
    path = folder / "lowered.onnx"
    Engine(model, level="extended", optimized_path=str(path))
    return onnx.load(str(path))
