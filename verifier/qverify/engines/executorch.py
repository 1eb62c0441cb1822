"""ExecuTorch, by its Python bindings: a program (.pte) that the driver builds of the quantized ONNX, or one that was built
elsewhere."""

from __future__ import annotations

from qverify.engines import BUILT_BY_DRIVER, DRIVER_OPTIONS, driven
from qverify.onnx_model.other_files import ONNX, PTE

WANTED = (
    "a Python that has executorch and onnx; -m quant.onnx, which is built, or quant.onnx,model.pte for outputs only"
)
CHECKED = (
    "tried with executorch 1.5.1 and torch 2.13.0 (CPU) on x86-64: portable kernels on networks of int8 and uint8; XNNPACK on "
    "one of uint8, which it takes and computes wrongly"
)
BUILD = BUILT_BY_DRIVER
TAKES = (ONNX, PTE)
OPTIONS = {
    **DRIVER_OPTIONS,
    "backend": "xnnpack or portable: what the program is built for  [default: xnnpack]",
    "cache": "a folder of the engine's machine that keeps built programs  [default: none, each run builds]",
}
files, plan = driven("executorch", "onnx_to_torch.py")
