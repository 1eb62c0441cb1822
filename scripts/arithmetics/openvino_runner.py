#!/usr/bin/env python3
"""MODEL A.npy,B.npy OUTDIR: runs a quantized ONNX on OpenVINO's CPU plugin in float32 and integers, and writes every quantized
tensor as integers. ONEDNN_MAX_CPU_ISA=AVX2 makes it compute as on a processor without VNNI."""

import os
import re
import sys

import numpy as np
import onnx
import openvino

model_path, input_paths, folder = sys.argv[1:4]
model = openvino.Core().read_model(model_path)
graph = onnx.load(model_path).graph
quantized = {n.output[0] for n in graph.node if n.op_type == "QuantizeLinear"}
outputs = {n for o in model.outputs for n in o.get_names()}
names = {n for op in model.get_ordered_ops() for o in op.outputs() for n in o.get_names()}
model.add_outputs(sorted((names & quantized) - outputs))
compiled = openvino.compile_model(model, "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
paths = input_paths.split(",")
by_name = dict(zip([i.name for i in graph.input], [np.load(p) for p in paths], strict=True))
results = compiled([next(by_name[n] for n in i.get_names() if n in by_name) for i in compiled.inputs])
for output in compiled.outputs:
    for name in output.get_names():
        path = os.path.join(folder, re.sub(r"[^A-Za-z0-9_.-]", "_", name) + ".npy")
        if not os.path.exists(path):
            np.save(path, results[output])
