#!/usr/bin/env bash
# MEAN of int8 over height and width gives other numbers with keep_dims=true than with false in LiteRT's default kernels
# (ai-edge-litert 2.3.0, no delegate): with it the kernel subtracts the input's zero point as a whole number of the output's
# steps, so that every mean of a channel is moved by up to half a step in one direction. The reference kernels and XNNPACK
# give the same numbers either way. Wanted: keep_dims changes the shape only.
# Installs into a new folder; prints the means that differ, and the average and largest distance from the exact ones.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
export HOME="$folder"
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q ai-edge-litert==2.3.0 flatbuffers numpy
"$folder/venv/bin/python" - <<'PYTHON'
import sys

import flatbuffers
import numpy as np
from ai_edge_litert import interpreter as litert
from ai_edge_litert import schema_py_generated as s

SX, ZX, SY, ZY, CHANNELS = np.float32(0.05), -10, np.float32(0.03), 4, 4096


def tensor(name, shape, dtype, buffer, scale=None, zero=0):
    made = s.TensorT()
    made.name, made.shape, made.type, made.buffer = name, shape, dtype, buffer
    if scale is not None:
        made.quantization = s.QuantizationParametersT()
        made.quantization.scale, made.quantization.zeroPoint = [scale], [zero]
    return made


def model(keep):
    axes, graph, code, mean, whole = s.BufferT(), s.SubGraphT(), s.OperatorCodeT(), s.OperatorT(), s.ModelT()
    axes.data = np.frombuffer(np.array([1, 2], np.int32).tobytes(), np.uint8)
    shape = [1, 1, 1, CHANNELS] if keep else [1, CHANNELS]
    graph.tensors = [
        tensor("x", [1, 7, 7, CHANNELS], s.TensorType.INT8, 0, SX, ZX),
        tensor("axes", [2], s.TensorType.INT32, 1),
        tensor("y", shape, s.TensorType.INT8, 0, SY, ZY),
    ]
    code.builtinCode = code.deprecatedBuiltinCode = s.BuiltinOperator.MEAN
    code.version = 2
    mean.inputs, mean.outputs, mean.builtinOptionsType = [0, 1], [2], s.BuiltinOptions.ReducerOptions
    mean.builtinOptions = s.ReducerOptionsT()
    mean.builtinOptions.keepDims = keep
    graph.operators, graph.inputs, graph.outputs = [mean], [0], [2]
    whole.version, whole.buffers, whole.operatorCodes, whole.subgraphs = 3, [s.BufferT(), axes], [code], [graph]
    builder = flatbuffers.Builder(1024)
    builder.Finish(whole.Pack(builder), b"TFL3")
    return bytes(builder.Output())


x = np.random.default_rng(0).integers(-128, 128, (1, 7, 7, CHANNELS)).astype(np.int8)
exact = (x.astype(int).sum((1, 2)).reshape(-1) - 49 * ZX) * (float(SX) / float(SY) / 49) + ZY
shown = {}
for kernels in ("BUILTIN_REF", "BUILTIN_WITHOUT_DEFAULT_DELEGATES", "BUILTIN"):
    found = []
    for keep in (False, True):
        resolver = getattr(litert.OpResolverType, kernels)
        opened = litert.Interpreter(model_content=model(keep), experimental_op_resolver_type=resolver)
        opened.allocate_tensors()
        opened.set_tensor(opened.get_input_details()[0]["index"], x)
        opened.invoke()
        found.append(opened.get_tensor(opened.get_output_details()[0]["index"]).reshape(-1).astype(int))
    shown[kernels] = int((found[0] != found[1]).sum())
    off = [f"{(y - exact).mean():+.3f} on average, {abs(y - exact).max():.3f} at most" for y in found]
    print(f"{kernels}: {shown[kernels]} of {CHANNELS} differ; keep_dims=false {off[0]}; true {off[1]}")
reproduced = shown["BUILTIN_WITHOUT_DEFAULT_DELEGATES"] > 0 and shown["BUILTIN_REF"] == shown["BUILTIN"] == 0
print("reproduced" if reproduced else "not reproduced")
sys.exit(0 if reproduced else 1)
PYTHON
