"""onnxruntime with plug-in execution providers, by its Python bindings: QNN, OpenVINO and others that are libraries of their
own, or those that a build of onnxruntime has. --runtime onnxruntime,ep=NAME comes here."""

from __future__ import annotations

from qverify.engines import BUILT_BY_DRIVER, DRIVER_OPTIONS, driven
from qverify.onnx_model.other_files import ONNX

WANTED = "a Python that has onnxruntime (1.24 or later) and the provider's package; -m quant.onnx"
CHECKED = (
    "tried with onnxruntime 1.32.0 and onnxruntime-qnn 2.7.0 (HTP, emulated) on x86-64; other providers were not tried"
)
BUILD = BUILT_BY_DRIVER
ARITHMETICS = ("htp",)  # of ep=qnn with backend_type=htp
TAKES = (ONNX,)
OPTIONS = {
    **DRIVER_OPTIONS,
    "ep": "the execution provider's short name, as qnn or openvino",
    "provider": "its full name  [default: of ep, as QNNExecutionProvider]",
    "library": "path of its library, or auto: that of the Python package onnxruntime_NAME or onnxruntime_ep_NAME  [default: auto]",
    "device": "CPU, GPU or NPU, where the provider offers several devices",
    "backend_type": "backend of QNN, as htp",
    "config": "KEY=VALUE of the provider; may be repeated",
    "session": "KEY=VALUE of onnxruntime's session; may be repeated",
    "level": "its optimization: disable_all, basic, extended or all  [default: all]",
    "cpu_fallback": "1: the processor runs nodes that the provider does not, and the report says which  [default: 0, refused]",
}
files, plan = driven("onnxruntime_ep")
