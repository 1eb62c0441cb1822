#!/usr/bin/env bash
# LiteRT 2.3.0's reference kernels run a fully connected layer with blockwise int4 weights, as ai-edge-quantizer 0.10.0
# writes it (recipe dynamic_wi4b32_afp32: one scale for each 32 inputs), without an error, and give values that are as far
# from the float model as unrelated ones; the default kernels and XNNPACK compute it. So what one compares a board with is
# wrong. Wanted of all three: the error of rounding weights to 4 bits, about a tenth of the outputs.
# Prints the root mean square error of each kernel set relative to the outputs'. Installs into a new folder (1.5 GB).
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
export HOME="$folder" TF_CPP_MIN_LOG_LEVEL=3
cd "$folder"
python=${PYTHON:-}
if [ -z "$python" ]; then
  python3 -m venv "$folder/venv"
  "$folder/venv/bin/pip" install -q tensorflow-cpu==2.21.0 ai-edge-quantizer==0.10.0 ai-edge-litert==2.3.0
  python="$folder/venv/bin/python"
fi
"$python" - 2>errors.txt <<'PYTHON' || { tail -n 3 errors.txt; exit 1; }
import sys
from importlib.metadata import version

import numpy as np
import tensorflow as tf
from ai_edge_litert.interpreter import Interpreter, OpResolverType
from ai_edge_quantizer import quantizer, recipe

rng = np.random.default_rng(1)
weights = rng.normal(0, 0.5, (128, 64)).astype(np.float32)
layer = tf.function(lambda x: tf.matmul(x, weights), input_signature=[tf.TensorSpec((1, 128), tf.float32)])
converter = tf.lite.TFLiteConverter.from_concrete_functions([layer.get_concrete_function()])
open("float.tflite", "wb").write(converter.convert())
maker = quantizer.Quantizer("float.tflite")
maker.load_quantization_recipe(recipe.dynamic_wi4b32_afp32())
open("int4.tflite", "wb").write(maker.quantize().quantized_model)
x = rng.normal(0, 1, (1, 128)).astype(np.float32)
wanted = x @ weights


def error(kernels):
    interpreter = Interpreter("int4.tflite", experimental_op_resolver_type=kernels)
    interpreter.allocate_tensors()
    interpreter.set_tensor(interpreter.get_input_details()[0]["index"], x)
    interpreter.invoke()
    y = interpreter.get_tensor(interpreter.get_output_details()[0]["index"])
    return float(np.sqrt(np.mean((y - wanted) ** 2)) / wanted.std())


print(*(f"{name} {version(name)}" for name in ("ai-edge-litert", "ai-edge-quantizer", "tensorflow-cpu")))
sets = {"reference": "BUILTIN_REF", "default": "BUILTIN_WITHOUT_DEFAULT_DELEGATES", "XNNPACK": "AUTO"}
found = {name: error(getattr(OpResolverType, how)) for name, how in sets.items()}
for name, value in found.items():
    print(f"{name}: error of {value:.2f} of the outputs")
reproduced = max(found["XNNPACK"], found["default"]) < 0.3 and found["reference"] > 0.8
print("reproduced" if reproduced else "not reproduced")
sys.exit(0 if reproduced else 1)
PYTHON
