#!/usr/bin/env bash
# Qualcomm's HTP (onnxruntime-qnn 2.7.0, its emulator on x86-64) quantizes a float32 input through float16: x / s is
# rounded to a float16 before it is rounded to an integer, halves away from zero. Beyond 64 steps from the zero point that
# is a sixteenth of a step: 64.4857 steps become 65, and about 2 % of the input's integers are one off, far from any tie.
# Wanted: y = round(x / s) + z, as QuantizeLinear. Installs into a new folder; prints how many of 32,768 differ.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
export HOME="$folder"
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q onnxruntime==1.32.0 onnxruntime-qnn==2.7.0 onnx numpy
"$folder/venv/bin/python" - <<'PYTHON'
import sys
from importlib.metadata import version

import numpy as np
import onnxruntime as ort
import onnxruntime_qnn as qnn
from onnx import TensorProto, helper, numpy_helper

S, Z = np.float32(0.9440277), np.uint8(131)
consts = {"s": S, "z": Z, "sw": np.float32(0.02), "zw": np.int8(0), "sy": S, "w": np.ones((8, 8, 1, 1), np.int8)}
nodes = [
    helper.make_node("QuantizeLinear", ["x", "s", "z"], ["q"]),
    helper.make_node("DequantizeLinear", ["q", "s", "z"], ["xr"]),
    helper.make_node("DequantizeLinear", ["w", "sw", "zw"], ["wr"]),
    helper.make_node("Conv", ["xr", "wr"], ["c"]),
    helper.make_node("QuantizeLinear", ["c", "sy", "z"], ["cq"]),
    helper.make_node("DequantizeLinear", ["cq", "sy", "z"], ["y"]),
]
io = [helper.make_tensor_value_info(n, t, [1, 8, 64, 64]) for n, t in (("x", 1), ("y", 1), ("q", TensorProto.UINT8))]
stored = [numpy_helper.from_array(np.array(v), n) for n, v in consts.items()]
graph = helper.make_graph(nodes, "g", io[:1], io[1:], stored)
model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8).SerializeToString()
x = np.random.default_rng(0).uniform(-123, 117, (1, 8, 64, 64)).astype(np.float32)

ort.register_execution_provider_library("QNNExecutionProvider", qnn.get_library_path())
options = ort.SessionOptions()
options.log_severity_level = 3
options.add_session_config_entry("session.disable_cpu_ep_fallback", "1")
devices = [d for d in ort.get_ep_devices() if d.ep_name == "QNNExecutionProvider"]
options.add_provider_for_devices(devices, {"backend_type": "htp", "offload_graph_io_quantization": "0"})
q = ort.InferenceSession(model, options).run(["q"], {"x": x})[0].astype(int)
nearest = np.rint(x / S).astype(int) + Z
half = (x / S).astype(np.float16).astype(np.float64)
through = (np.sign(half) * np.floor(np.abs(half) + 0.5)).astype(int) + Z
print(f"onnxruntime {version('onnxruntime')}, onnxruntime-qnn {version('onnxruntime-qnn')}")
print(f"differ from the nearest integer: {np.sum(q != nearest)} of {q.size}, from that through float16: {np.sum(q != through)}")
shown = np.sum(q != nearest) > 100 and np.sum(q != through) == 0
print("reproduced" if shown else "not reproduced")
sys.exit(0 if shown else 1)
PYTHON
