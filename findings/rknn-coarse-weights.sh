#!/usr/bin/env bash
# Rockchip's rknn-toolkit2 2.5.0 gives a channel of weights a step of at least the tensor's largest step divided by 2^14.
# A channel whose weights are 1e-5 of the largest gets fewer than 8 bits, one of 1e-6 becomes zero; only a warning of an
# "outlier value" hints at it. Wanted: the step of the channel's own range, as of "asymmetric, per channel".
# Prints the step of the smallest channel, from the toolkit's simulator, and that of its range.
# Installs into a new folder (CPython 3.6 to 3.12; torch and its own pins are 3 GB).
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
export HOME="$folder"
cd "$folder"
python=${PYTHON:-}
if [ -z "$python" ]; then
  python3 -m venv "$folder/venv"
  "$folder/venv/bin/pip" install -q rknn-toolkit2==2.5.0 onnx==1.18.0
  python="$folder/venv/bin/python"
fi
"$python" - <<'PYTHON'
import sys

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from rknn.api import RKNN

rng = np.random.default_rng(1)
weights = rng.uniform(-1, 1, (8, 8, 1, 1)).astype(np.float32)
weights[1] *= 1e-5
io = [helper.make_tensor_value_info(n, TensorProto.FLOAT, [1, 8, 16, 16]) for n in ("x", "y", "z")]
nodes = [helper.make_node("Conv", ["x", "w"], ["y"]), helper.make_node("Relu", ["y"], ["z"])]
graph = helper.make_graph(nodes, "g", io[:1], io[2:], [numpy_helper.from_array(weights, "w")])
onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), "n.onnx")
np.save("x.npy", rng.normal(0, 1, (1, 8, 16, 16)).astype(np.float32))
open("dataset.txt", "w").write("x.npy\n")
rknn = RKNN(verbose=False)
rknn.config(target_platform="rk3588")
assert rknn.load_onnx(model="n.onnx") == 0 and rknn.build(do_quantization=True, dataset="dataset.txt") == 0
assert rknn.init_runtime() == 0 and rknn.accuracy_analysis(inputs=["x.npy"], output_dir="s") == 0
x, y = (np.load(f"s/simulator/npy/{n}.npy")[0].reshape(8, -1).astype(float) for n in ("x_int8", "y"))
used = np.linalg.lstsq(x.T, y[1], rcond=None)[0]
own = float(np.maximum(weights[1].max(), 0) - np.minimum(weights[1].min(), 0)) / 255
floor = max(float(np.maximum(w.max(), 0) - np.minimum(w.min(), 0)) / 255 for w in weights) / 2**14
print(f"weights of channel 1 in steps of its own range ({own:.3g}): {np.round(used / own, 2)}")
print(f"in steps of the largest / 2^14 ({floor:.3g}): {np.round(used / floor, 2)}")
shown = bool(np.abs(used / floor - np.rint(used / floor)).max() < 0.05 and own < floor / 2)
print("reproduced" if shown else "not reproduced")
sys.exit(0 if shown else 1)
PYTHON
