#!/usr/bin/env python3
"""MODEL A.npy,B.npy OUTDIR: runs a quantized ONNX on Qualcomm's HTP (its emulator on x86-64) through onnxruntime-qnn, with no
node on the CPU, and writes every quantized tensor as integers."""

import os
import re
import sys

import numpy as np
import onnx
import onnxruntime
import onnxruntime_qnn

model_path, input_paths, folder = sys.argv[1:4]
model = onnx.shape_inference.infer_shapes(onnx.load(model_path))
known = {v.name: v for v in model.graph.value_info}
already = {o.name for o in model.graph.output}
quantized = [n.output[0] for n in model.graph.node if n.op_type == "QuantizeLinear"]
model.graph.output.extend(known[name] for name in quantized if name not in already)
onnxruntime.register_execution_provider_library("QNNExecutionProvider", onnxruntime_qnn.get_library_path())
devices = [d for d in onnxruntime.get_ep_devices() if d.ep_name == "QNNExecutionProvider"]
options = onnxruntime.SessionOptions()
options.log_severity_level = 3
options.add_session_config_entry("session.disable_cpu_ep_fallback", "1")
options.add_provider_for_devices(devices, {"backend_type": "htp", "offload_graph_io_quantization": "0"})
session = onnxruntime.InferenceSession(model.SerializeToString(), options)
session.disable_fallback()
inputs = session.get_inputs()
paths = input_paths.split(",")
values = session.run(None, {i.name: np.load(p) for i, p in zip(inputs, paths, strict=True)})
for output, value in zip(session.get_outputs(), values, strict=True):
    np.save(os.path.join(folder, re.sub(r"[^A-Za-z0-9_.-]", "_", output.name) + ".npy"), value)
