#!/usr/bin/env bash
# Qualcomm's HTP (onnxruntime-qnn 2.7.0, its emulator on x86-64) multiplies two tensors with a multiplier of 15 bits whose
# shift ends at 15: where a step of the product is a step of the output or more (scale_a * scale_b / scale_y >= 1), the
# result is rounded before it is shifted left. From a ratio of 1 every output is an even number of steps from its zero
# point, from 2 a multiple of 4, so that an 8-bit tensor has 7 or 6 bits. Wanted: the nearest integer, odd ones, too.
# Prints the steps between the outputs of all 65,536 pairs of codes. Installs into a new folder.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
export HOME="$folder"
python=${PYTHON:-}
if [ -z "$python" ]; then
  python3 -m venv "$folder/venv"
  "$folder/venv/bin/pip" install -q onnxruntime-qnn==2.7.0 onnx numpy
  python="$folder/venv/bin/python"
fi
"$python" - <<'PYTHON'
import sys
from importlib.metadata import version

import numpy as np
import onnxruntime as ort
import onnxruntime_qnn as qnn
from onnx import TensorProto, helper, numpy_helper

CODES, ZERO = np.arange(256, dtype=np.uint8), 128
A = np.repeat(CODES, 256).reshape(1, 256, 256, 1)
B = np.tile(CODES, 256).reshape(1, 256, 256, 1)


def model(ratio):
    consts = {"sa": np.float32(0.05), "sb": np.float32(0.02), "sy": np.float32(0.001 / ratio), "z": np.uint8(ZERO)}
    nodes = [
        helper.make_node("DequantizeLinear", ["a", "sa", "z"], ["ar"]),
        helper.make_node("DequantizeLinear", ["b", "sb", "z"], ["br"]),
        helper.make_node("Mul", ["ar", "br"], ["yr"]),
        helper.make_node("QuantizeLinear", ["yr", "sy", "z"], ["y"]),
    ]
    io = [helper.make_tensor_value_info(n, TensorProto.UINT8, A.shape) for n in ("a", "b", "y")]
    graph = helper.make_graph(nodes, "g", io[:2], io[2:], [numpy_helper.from_array(np.array(v), n) for n, v in consts.items()])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10).SerializeToString()


ort.register_execution_provider_library("QNNExecutionProvider", qnn.get_library_path())
devices = [d for d in ort.get_ep_devices() if d.ep_name == "QNNExecutionProvider"]
print("onnxruntime-qnn", version("onnxruntime-qnn"), "onnxruntime", ort.__version__)
found = {}
for ratio in (0.9, 1.4, 2.8):
    options = ort.SessionOptions()
    options.log_severity_level = 3
    options.add_session_config_entry("session.disable_cpu_ep_fallback", "1")
    options.add_provider_for_devices(devices, {"backend_type": "htp", "offload_graph_io_quantization": "0"})
    y = ort.InferenceSession(model(ratio), options).run(None, {"a": A, "b": B})[0].astype(int)
    inside = (y > 0) & (y < 255)
    found[ratio] = int(np.gcd.reduce(np.abs(y[inside] - ZERO)))
    exact = (A.astype(int) - ZERO) * (B.astype(int) - ZERO) * ratio
    print(f"ratio {ratio}: outputs are multiples of {found[ratio]} from the zero point, up to {np.abs(y[inside] - ZERO - exact[inside]).max():.2f} steps from the exact product")
reproduced = found == {0.9: 1, 1.4: 2, 2.8: 4}
print("reproduced" if reproduced else "not reproduced")
sys.exit(0 if reproduced else 1)
PYTHON
