#!/usr/bin/env bash
# Qualcomm's HTP (onnxruntime-qnn 2.7.0, its emulator on x86-64) cannot scale by less than about 2^-24. A channel whose
# weights are all 0 gets such a scale from common quantizers; a depthwise convolution then gives the lowest or the highest
# integer where the zero point is right (0 in real numbers), in yunet_n_320 quantized to int8, for example.
# Wanted: the zero point at every element. Installs into a new folder; prints what the channel contains.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
export HOME="$folder"
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q onnxruntime-qnn==2.7.0 onnx numpy
"$folder/venv/bin/python" - <<'PYTHON'
import sys

import numpy as np
import onnxruntime as ort
import onnxruntime_qnn as qnn
from onnx import TensorProto, helper, numpy_helper

CHANNELS, DEAD = 32, 3
SX, SY = np.float32(0.02), np.float32(0.05)


def model(scale, zero):
    weights = np.full((CHANNELS, 1, 3, 3), 10, np.int8)
    weights[DEAD] = 0
    each = np.full(CHANNELS, 0.01, np.float32)
    each[DEAD] = scale * SY / SX
    consts = {"sx": SX, "zx": np.uint8(0), "sw": each, "zw": np.zeros(CHANNELS, np.int8), "sy": SY, "zy": np.uint8(zero), "w": weights}
    nodes = [
        helper.make_node("DequantizeLinear", ["x", "sx", "zx"], ["xr"]),
        helper.make_node("DequantizeLinear", ["w", "sw", "zw"], ["wr"], axis=0),
        helper.make_node("Conv", ["xr", "wr"], ["yr"], group=CHANNELS, pads=[1] * 4),
        helper.make_node("QuantizeLinear", ["yr", "sy", "zy"], ["y"]),
    ]
    io = [helper.make_tensor_value_info(n, TensorProto.UINT8, [1, CHANNELS, 8, 8]) for n in ("x", "y")]
    graph = helper.make_graph(nodes, "g", io[:1], io[1:], [numpy_helper.from_array(np.array(v), n) for n, v in consts.items()])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10).SerializeToString()


ort.register_execution_provider_library("QNNExecutionProvider", qnn.get_library_path())
devices = [d for d in ort.get_ep_devices() if d.ep_name == "QNNExecutionProvider"]
x, shown = np.arange(CHANNELS * 64, dtype=np.int64).astype(np.uint8).reshape(1, CHANNELS, 8, 8), False
for scale in (2e-7, 5e-9):
    for zero in (50, 128, 200):
        options = ort.SessionOptions()
        options.log_severity_level = 3
        options.add_session_config_entry("session.disable_cpu_ep_fallback", "1")
        options.add_provider_for_devices(devices, {"backend_type": "htp", "offload_graph_io_quantization": "0"})
        found = np.unique(ort.InferenceSession(model(scale, zero), options).run(None, {"x": x})[0][0, DEAD]).tolist()
        print(f"scale {scale:g}, zero point {zero}: the channel contains {found}")
        shown |= found != [zero]
print("reproduced" if shown else "not reproduced")
sys.exit(0 if shown else 1)
PYTHON
