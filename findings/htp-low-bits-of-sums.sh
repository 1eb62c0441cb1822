#!/usr/bin/env bash
# Qualcomm's HTP (onnxruntime-qnn 2.7.0, its emulator on x86-64) drops the low bits of the sums of a convolution and of a
# matrix product before it scales them, multiplies with 11 bits, and adds the zero point to the sum. 4 to 5 % of the
# integers of a network with general scales differ by 1 from the nearest ones, and it depends on the zero point which.
# In full: n = (sum + round(z / S)) >> p, y = (n * M + 2^13) >> 14, M of 11 bits, p so that 4 bits below a step stay.
# Wanted: y = round(sum * S) + z. Installs into a new folder; prints the sums at which the output becomes 1 (less z).
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

SX, SW, SY = np.float32(0.02), np.float32(0.01), np.float32(0.02)  # S = 0.01: the nearest integer becomes 1 at 50


def model(zero):
    consts = {"sx": SX, "zx": np.uint8(0), "sw": SW, "zw": np.int8(0), "sy": SY, "zy": np.uint8(zero)}
    consts["w"] = np.ones((1, 1, 1, 1), np.int8)
    nodes = [
        helper.make_node("DequantizeLinear", ["x", "sx", "zx"], ["xr"]),
        helper.make_node("DequantizeLinear", ["w", "sw", "zw"], ["wr"]),
        helper.make_node("Conv", ["xr", "wr"], ["yr"]),
        helper.make_node("QuantizeLinear", ["yr", "sy", "zy"], ["y"]),
    ]
    io = [helper.make_tensor_value_info(n, TensorProto.UINT8, [1, 1, 16, 16]) for n in ("x", "y")]
    graph = helper.make_graph(nodes, "g", io[:1], io[1:], [numpy_helper.from_array(np.array(v), n) for n, v in consts.items()])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10).SerializeToString()


ort.register_execution_provider_library("QNNExecutionProvider", qnn.get_library_path())
devices = [d for d in ort.get_ep_devices() if d.ep_name == "QNNExecutionProvider"]
x, found = np.arange(256, dtype=np.uint8).reshape(1, 1, 16, 16), {}
for zero in (0, 1, 2, 3, 100):
    for name in ("cpu", "htp"):
        options = ort.SessionOptions()
        options.log_severity_level = 3
        if name == "htp":
            options.add_session_config_entry("session.disable_cpu_ep_fallback", "1")
            options.add_provider_for_devices(devices, {"backend_type": "htp", "offload_graph_io_quantization": "0"})
        session = ort.InferenceSession(model(zero), options, **({} if name == "htp" else {"providers": ["CPUExecutionProvider"]}))
        y = session.run(None, {"x": x})[0].reshape(-1).astype(int) - zero
        found[zero, name] = int(np.argmax(y >= 1))
    print(f"zero point {zero}: the output is 1 from a sum of {found[zero, 'cpu']} (CPU), {found[zero, 'htp']} (HTP)")
shown = any(found[z, "htp"] > 52 for z in (0, 1, 2, 3, 100))
print("reproduced" if shown else "not reproduced")
sys.exit(0 if shown else 1)
PYTHON
