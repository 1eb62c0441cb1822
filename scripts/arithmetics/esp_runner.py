#!/usr/bin/env python3
"""Runs in the Python that has esp-ppq and torch: quantizes a float ONNX, exports the .espdl, and runs esp-ppq's own executor.

esp_runner.py FLOAT.onnx CALIBRATION.npy TARGET BITS OUT.espdl TENSORS.npz

The first frame of CALIBRATION.npy is also the test input of the .espdl. TENSORS.npz has the integers of every quantized tensor
that is computed from it, by name, in the layout of the float ONNX; NAME@EXPONENT is a tensor as the next operator reads it, where
that has another scale."""

from __future__ import annotations

import sys

import numpy as np
import torch
from esp_ppq import QuantizationSettingFactory
from esp_ppq.api import espdl_quantize_onnx
from esp_ppq.executor import TorchExecutor


def configs(op, which, variables):
    """Returns the quantization of each variable of an operator, with the variable; nothing of one that is not quantized."""
    found = getattr(getattr(op, "config", None), which, [])
    return list(zip(found, variables, strict=True)) if found else []


def main(onnx: str, calibration: str, target: str, bits: str, out: str, tensors: str) -> None:
    batches = [torch.from_numpy(x[None]) for x in np.load(calibration)]
    graph = espdl_quantize_onnx(
        onnx_import_file=onnx,
        espdl_export_file=out,
        calib_dataloader=batches,
        calib_steps=len(batches),
        input_shape=list(batches[0].shape),
        target=target,
        num_of_bits=int(bits),
        setting=QuantizationSettingFactory.espdl_setting(),
        device="cpu",
        error_report=False,
        export_test_values=True,
        inputs=[batches[0]],
        verbose=0,
    )
    scales = {}
    for op in graph.operations.values():
        for config, var in configs(op, "output_quantization_config", op.outputs):
            if config.scale is not None and config.scale.numel() == 1:
                scales[var.name] = float(config.scale)
    executor = TorchExecutor(graph, device="cpu")
    values = dict(zip(scales, executor.forward([batches[0]], output_names=list(scales)), strict=True))
    integers = {n: np.rint(v.numpy().astype(np.float64) / scales[n]) for n, v in values.items()}
    for op in graph.operations.values():
        for config, var in configs(op, "input_quantization_config", op.inputs):
            if var.name in values and config.scale is not None and float(config.scale) != scales[var.name]:
                scale = float(config.scale)
                read = executor.quantize_function(values[var.name], config).numpy().astype(np.float64)
                integers[f"{var.name}@{round(np.log2(scale))}"] = np.rint(read / scale)
    np.savez(tensors, **{name: value.astype(np.int32) for name, value in integers.items()})


if __name__ == "__main__":
    main(*sys.argv[1:])
