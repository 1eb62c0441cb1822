"""Rockchip's rknn-toolkit2: its simulator on this host, built from the ONNX."""

from __future__ import annotations

from qverify.engines import BUILT_BY_DRIVER, DRIVER_OPTIONS, driven
from qverify.onnx_model.other_files import ONNX

WANTED = "a Python that has rknn-toolkit2 (2.3 or later) and torch; -m quant.onnx, or a float ONNX with --quantization"
CHECKED = "tried with rknn-toolkit2 2.5.0 on x86-64, its simulator of rk3588; not with a board"
BUILD = BUILT_BY_DRIVER
FROM_FLOAT = True
BESIDE = (".quantization.cfg", ".model", ".data")  # the files of hybrid_quantization_step1
STATES = ("*/*.quantization.cfg",)
TAKES = (ONNX,)
OPTIONS = {
    **DRIVER_OPTIONS,
    "target": "the platform that is simulated  [default: rk3588]",
    "calibration": "a folder of .npy files, or a list of them as the toolkit's dataset.txt, with which it quantizes a float ONNX  "
    "[default: the prepared input]",
    "quantization": "NAME.quantization.cfg of hybrid_quantization_step1, beside NAME.model and NAME.data: they run instead",
    "cache": "a folder that keeps the files of hybrid_quantization_step1  [default: none]",
    "config": "KEY=VALUE of RKNN.config; may be repeated",
}
# Reading tensors does not change what the simulator computes: it runs once.
files, plan = driven("rknn", taps_change_the_model=False)
