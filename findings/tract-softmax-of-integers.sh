#!/usr/bin/env bash
# tract 0.23.9 computes a Softmax between DequantizeLinear and QuantizeLinear of uint8 wrongly: the network loads and runs
# without a warning, and gives values that do not depend on what was fed. The same Softmax without the two quantization
# steps behind it is right. Wanted: within one step of the quantized output.
# Prints the largest difference from numpy, of both networks, and whether two inputs give the same output.
# Installs into a new folder.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
export HOME="$folder"
cd "$folder"
python=${PYTHON:-}
if [ -z "$python" ]; then
  python3 -m venv "$folder/venv"
  "$folder/venv/bin/pip" install -q tract==0.23.9 onnx==1.18.0 numpy
  python="$folder/venv/bin/python"
fi
"$python" - <<'PYTHON'
import sys
from importlib.metadata import version

import numpy as np
import onnx
import tract
from onnx import TensorProto, helper, numpy_helper

SCALE, STEP = np.float32(0.05), np.float32(1 / 256)
ZERO = np.uint8(0)


def run(quantized, codes):
    """Returns tract's Softmax of dequantized codes, with or without a quantization of the output."""
    nodes = [
        helper.make_node("DequantizeLinear", ["x", "sx", "zero"], ["f"]),
        helper.make_node("Softmax", ["f"], ["s" if quantized else "y"], axis=1),
    ]
    if quantized:
        nodes += [
            helper.make_node("QuantizeLinear", ["s", "sy", "zero"], ["q"]),
            helper.make_node("DequantizeLinear", ["q", "sy", "zero"], ["y"]),
        ]
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.UINT8, [1, 10])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 10])],
        [numpy_helper.from_array(np.array(v), n) for n, v in (("sx", SCALE), ("sy", STEP), ("zero", ZERO))],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8), "n.onnx")
    return tract.onnx().load("n.onnx").into_model().into_runnable().run([codes])[0].to_numpy()


def exact(codes):
    e = np.exp(codes.astype(np.float64) * SCALE)
    return e / e.sum()


rng = np.random.default_rng(3)
inputs = [rng.integers(0, 60, (1, 10)).astype(np.uint8) for _ in range(2)]
plain = max(float(np.abs(run(False, x) - exact(x)).max()) for x in inputs)
outputs = [run(True, x) for x in inputs]
steps = max(float(np.abs(y - exact(x)).max() / STEP) for x, y in zip(inputs, outputs))
print(f"tract {version('tract')}, onnx {version('onnx')}")
print(f"Softmax alone: off by at most {plain:.2g}; between quantization steps: by {steps:.0f} steps of the output")
print(f"two inputs give {'the same output' if np.array_equal(*outputs) else 'different outputs'}: {np.round(outputs[0], 3).tolist()}")
shown = plain < 1e-5 and steps > 10
print("reproduced" if shown else "not reproduced")
sys.exit(0 if shown else 1)
PYTHON
