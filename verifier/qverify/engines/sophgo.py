"""Sophgo's tpu-mlir: its MLIR interpreter, and the cmodels of its chips."""

from __future__ import annotations

from qverify.engines import DRIVER_OPTIONS, driven
from qverify.onnx_model.other_files import BMODEL, CVIMODEL, MLIR, ONNX, TFLITE

WANTED = "a CPython 3.10 that has tpu-mlir; a float ONNX or .tflite, a .bmodel, a .cvimodel, or NAME_tpu.mlir"
CHECKED = "tried with tpu-mlir 1.30.2 on x86-64: bm1684x, cv181x"
ARITHMETICS = ("sophgo-bm1684x", "sophgo-cv181x")
STATES = ("*/*_tpu.mlir", "*/*_tpu_weights.npz")
TAKES = (ONNX, TFLITE, BMODEL, CVIMODEL, MLIR)
OPTIONS = {
    **DRIVER_OPTIONS,
    "chip": "the chip, as bm1684x, bm1688, cv181x  [default: bm1684x]",
    "quantize": "INT8, F16, BF16, F32  [default: INT8]",
    "calibration": "a calibration table, or a folder of inputs (.npz)  [default: the inputs of the run]",
    "float": "the float ONNX of which it builds, where the model is the quantized ONNX written from its text",
    "weights": "of NAME_tpu.mlir: its _weights.npz  [default: beside it]",
    "deploy": "further words of model_deploy",
    "cmodel": "0: outputs of the MLIR interpreter, too  [default: 1]",
    "cache": "a folder in which builds are kept, by the hash of model and options  [default: none]",
}
# Inner tensors do not change what is built.
files, plan = driven("sophgo", taps_change_the_model=False, profile="sophgo")
