"""OpenVINO, by its Python bindings."""

from __future__ import annotations

from qverify.engines import BUILT_BY_DRIVER, DRIVER_OPTIONS, driven
from qverify.onnx_model.other_files import ONNX, TFLITE

WANTED = "a Python that has openvino (2024.0 or later); -m quant.onnx"
CHECKED = "tried with openvino 2026.4.1 on x86-64"
BUILD = BUILT_BY_DRIVER
ARITHMETICS = ("openvino", "openvino-avx2")
TAKES = (ONNX, TFLITE)
OPTIONS = {
    **DRIVER_OPTIONS,
    "device": "the device, as CPU, GPU, NPU, AUTO  [default: CPU]",
    "precision": "INFERENCE_PRECISION_HINT  [default: f32]",
    "config": "KEY=VALUE of compile_model; may be repeated",
}
files, plan = driven("openvino")
