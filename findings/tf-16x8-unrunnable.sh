#!/usr/bin/env bash
# TensorFlow 2.21's converter, asked for 16x8 with the fallback to float (the two operator sets of its guide), writes
# SQUARED_DIFFERENCE with int16 operands, which no kernel of LiteRT 2.3.0 takes: conversion and allocate_tensors() succeed,
# invoke() fails. It is part of every layer normalization.
# Guessed before: an operator without an int16 kernel stays float, since that is what the fallback is for; without the fallback
# the conversion is refused.
# Prints the types of the operator's tensors and where each of the two files fails. Installs into a new folder (1.5 GB).
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
export HOME="$folder" TF_CPP_MIN_LOG_LEVEL=3
cd "$folder"
python=${PYTHON:-}
if [ -z "$python" ]; then
  python3 -m venv "$folder/venv"
  "$folder/venv/bin/pip" install -q tensorflow-cpu==2.21.0 ai-edge-litert==2.3.0
  python="$folder/venv/bin/python"
fi
"$python" - 2>errors.txt <<'PYTHON' || { tail -n 3 errors.txt; exit 1; }
import sys
from importlib.metadata import version

import numpy as np
import tensorflow as tf
from ai_edge_litert.interpreter import Interpreter

shape, rng = (1, 16), np.random.default_rng(0)
spec = tf.TensorSpec(shape, tf.float32)
function = tf.function(lambda x, y: tf.math.squared_difference(x, y), input_signature=[spec, spec])
sixteen = tf.lite.OpsSet.EXPERIMENTAL_TFLITE_BUILTINS_ACTIVATIONS_INT16_WEIGHTS_INT8


def convert(*sets):
    converter = tf.lite.TFLiteConverter.from_concrete_functions([function.get_concrete_function()])
    converter.optimizations = [tf.lite.Optimize.DEFAULT]
    converter.representative_dataset = lambda: ([rng.normal(size=shape).astype(np.float32) for _ in "xy"] for _ in range(8))
    converter.target_spec.supported_ops = list(sets)
    return converter.convert()


def run(model):
    """Returns the types of the stored integers, and the step that fails."""
    interpreter = Interpreter(model_content=model)
    interpreter.allocate_tensors()
    types = sorted({d["dtype"].__name__ for d in interpreter.get_tensor_details() if d["quantization"][0]})
    for detail in interpreter.get_input_details():
        interpreter.set_tensor(detail["index"], np.ones(shape, np.float32))
    try:
        interpreter.invoke()
    except RuntimeError as error:
        return types, f"invoke: {error}"
    return types, "none"


print(*(f"{name} {version(name)}" for name in ("tensorflow-cpu", "ai-edge-litert")))
found = {}
for name, sets in {"16x8 alone": (sixteen,), "16x8 with float": (sixteen, tf.lite.OpsSet.TFLITE_BUILTINS)}.items():
    found[name] = run(convert(*sets))
    print(f"{name}: integers {', '.join(found[name][0])}; fails at {found[name][1]}")
reproduced = all(t == ["int16"] and why.startswith("invoke: SquaredDifference") for t, why in found.values())
print("reproduced" if reproduced else "not reproduced")
sys.exit(0 if reproduced else 1)
PYTHON
