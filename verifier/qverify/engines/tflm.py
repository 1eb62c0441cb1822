"""TensorFlow Lite for Microcontrollers, by its Python package (tflite-micro): what microcontrollers run, on this host."""

from __future__ import annotations

from qverify.engines import DRIVER_OPTIONS, driven
from qverify.onnx_model.other_files import TFLITE

WANTED = "a Python that has tflite-micro (on this host, pip install 'qverify[tflm]'); -m X.tflite, or quant.onnx,X.tflite with quant.onnx.map.json beside them"
CHECKED = "tried with tflite-micro 0.dev20261023182759 on x86-64"
ARITHMETICS = ("tflm",)
PACKAGE = "tflite_micro"
TAKES = (TFLITE,)
OPTIONS = {
    **DRIVER_OPTIONS,
    "arena": "bytes of the tensor arena  [default: 4 MiB, and twelve times the file if that is more]",
}
files, plan = driven("tflm")
