#!/usr/bin/env bash
# An onnxruntime session with the QNN provider and backend_type=cpu is made without an error, get_providers() lists
# QNNExecutionProvider first, and every node runs on onnxruntime's own CPU provider: onnxruntime-qnn 2.7.0's wheel has no
# libQnnCpu.so. Only the record of assignments (session.record_ep_graph_assignment_info) shows it. Wanted: an error, or a
# session that does not list a provider that could not be started.
# Installs into a new folder; prints the providers that the session lists, and the nodes that each one was given.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
export HOME="$folder"
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q onnxruntime==1.32.0 onnxruntime-qnn==2.7.0 onnx numpy
"$folder/venv/bin/python" - <<'PYTHON'
import os
import sys

import numpy as np
import onnx
import onnxruntime as ort
import onnxruntime_qnn as qnn
from onnx import TensorProto, helper, numpy_helper

scale = numpy_helper.from_array(np.float32(0.1), "s")
zero = numpy_helper.from_array(np.uint8(128), "z")
nodes = [
    helper.make_node("QuantizeLinear", ["x", "s", "z"], ["xq"]),
    helper.make_node("DequantizeLinear", ["xq", "s", "z"], ["xd"]),
    helper.make_node("Relu", ["xd"], ["r"]),
    helper.make_node("QuantizeLinear", ["r", "s", "z"], ["yq"]),
    helper.make_node("DequantizeLinear", ["yq", "s", "z"], ["y"]),
]
ends = [helper.make_tensor_value_info(n, TensorProto.FLOAT, [1, 4, 8, 8]) for n in "xy"]
graph = helper.make_graph(nodes, "g", ends[:1], ends[1:], [scale, zero])
model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8).SerializeToString()
ort.register_execution_provider_library("QNNExecutionProvider", qnn.get_library_path())
devices = [d for d in ort.get_ep_devices() if d.ep_name == "QNNExecutionProvider"]
found = {}
for backend in ("htp", "cpu"):
    options = ort.SessionOptions()
    options.log_severity_level = 4
    options.add_session_config_entry("session.record_ep_graph_assignment_info", "1")
    options.add_provider_for_devices(devices, {"backend_type": backend, "offload_graph_io_quantization": "0"})
    session = ort.InferenceSession(model, options)
    nodes_by_provider = {}
    for part in session.get_provider_graph_assignment_info():
        nodes_by_provider[part.ep_name] = nodes_by_provider.get(part.ep_name, 0) + len(part.get_nodes())
    found[backend] = session.get_providers()[0], nodes_by_provider
    print(f"backend_type={backend}: get_providers() {session.get_providers()}; nodes given to {nodes_by_provider}")
listed, nodes_by_provider = found["cpu"]
reproduced = listed == "QNNExecutionProvider" and set(nodes_by_provider) == {"CPUExecutionProvider"}
print("reproduced" if reproduced else "not reproduced")
sys.stdout.flush()
os._exit(0 if reproduced else 1)
PYTHON
