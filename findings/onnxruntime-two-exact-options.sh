#!/usr/bin/env bash
# onnxruntime 1.32.0 on x86-64 without VNNI: an int8 convolution in QDQ form is computed wrongly by default, because sums of
# products of uint8 by int8 saturate. Each of two session options makes it exact: session.x64quantprecision=1 (uint8 weights)
# and session.qdqisint8allowed=1 (int8 activations stay). With both, the session cannot be made at all: the one makes the
# weights uint8, the other keeps the activations int8, and no kernel takes the pair.
# Guessed before: two options of which each gives exact results may be set together.
# Prints the values with no option, each, both, and without optimizations. On a processor with VNNI it runs on an emulated
# Haswell (qemu-x86_64-static of Debian's qemu-user-static). Installs into a new folder.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
export HOME="$folder"
cd "$folder"
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q onnxruntime==1.32.0 onnx==1.23.2 numpy
emulated=""
if grep -q vnni /proc/cpuinfo; then emulated="qemu-x86_64-static -cpu Haswell"; fi
cat >make.py <<'PYTHON'
import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

node = helper.make_node
values = {"s": np.float32(1), "so": np.float32(512), "z": np.int8(0)}
values["w"] = ((np.arange(36).reshape(2, 2, 3, 3) * 37) % 255 - 127).astype(np.int8)
graph = helper.make_graph(
    [
        node("QuantizeLinear", ["x", "s", "z"], ["xq"]),
        node("DequantizeLinear", ["xq", "s", "z"], ["xd"]),
        node("DequantizeLinear", ["w", "s", "z"], ["wd"]),
        node("Conv", ["xd", "wd"], ["c"]),
        node("QuantizeLinear", ["c", "so", "z"], ["cq"]),
        node("DequantizeLinear", ["cq", "so", "z"], ["y"]),
    ],
    "g",
    [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 2, 3, 3])],
    [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
    [numpy_helper.from_array(np.asarray(v), n) for n, v in values.items()],
)
onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=9), "conv.onnx")
PYTHON
cat >run.py <<'PYTHON'
import sys

import numpy as np
import onnxruntime as ort

PRECISE, INT8 = {"session.x64quantprecision": "1"}, {"session.qdqisint8allowed": "1"}
x = np.random.default_rng(1).integers(-127, 128, (1, 2, 3, 3)).astype(np.float32)


def run(config, plain=False):
    options = ort.SessionOptions()
    options.log_severity_level = 4
    if plain:
        options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    for key, value in config.items():
        options.add_session_config_entry(key, value)
    try:
        return ort.InferenceSession("conv.onnx", options).run(None, {"x": x})[0].ravel().tolist()
    except Exception as error:
        return type(error).__name__


wanted = run({}, plain=True)
found = [run({}), run(PRECISE), run(INT8), run({**PRECISE, **INT8})]
print("onnxruntime", ort.__version__, "without optimizations:", wanted)
for name, value in zip(("no option", "x64quantprecision", "qdqisint8allowed", "both"), found):
    print(f"{name}: {value}")
right = found[0] != wanted and found[1] == found[2] == wanted and found[3] == "NotImplemented"
print("as described" if right else "NOT as described")
sys.exit(not right)
PYTHON
"$folder/venv/bin/python" make.py
$emulated "$folder/venv/bin/python" run.py
