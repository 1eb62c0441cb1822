"""ExecuTorch, by its Python bindings: a program (.pte) that the driver builds of the quantized ONNX, or one that was built
elsewhere."""

from __future__ import annotations

from collections.abc import Mapping

from qverify.engines import DRIVER_OPTIONS, Options, RunnerPlan, RunnerRequest, driver_files, driver_plan

WANTED = (
    "a Python that has executorch and onnx; -m quant.onnx, which is built, or quant.onnx,model.pte for outputs only"
)
CHECKED = (
    "tried with executorch 1.5.1 and torch 2.13.0 (CPU) on x86-64: portable kernels on networks of int8 and uint8; XNNPACK on "
    "one of uint8, which it takes and computes wrongly"
)
OPTIONS = {
    **DRIVER_OPTIONS,
    "backend": "xnnpack or portable: what the program is built for  [default: xnnpack]",
    "cache": "a folder of the engine's machine that keeps built programs  [default: none, each run builds]",
}


def files(options: Options) -> Mapping[str, bytes]:
    """Returns the driver, and what translates an ONNX to torch."""
    return driver_files("executorch", "onnx_to_torch.py")


def plan(request: RunnerRequest) -> RunnerPlan:
    """Returns a plan that runs the driver, once with taps and once without."""
    return driver_plan("executorch", request)
