#!/usr/bin/env bash
# LiteRT 2.3.0 runs a BATCH_MATMUL whose second operand is a constant of int8 with one scale for each column, as
# ai-edge-quantizer writes it for an einsum, without an error, and gives zeros only: with its reference kernels, its default
# ones and XNNPACK, beside int8 and int16. With one scale for all columns the same numbers are right. Wanted: the right
# numbers, as FULLY_CONNECTED and CONV_2D give them with a scale for each output, or a refusal when the file is opened.
# Prints how many of the outputs are zero. Installs into a new folder (150 MB).
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
export HOME="$folder" TF_CPP_MIN_LOG_LEVEL=3
cd "$folder"
python=${PYTHON:-}
if [ -z "$python" ]; then
  python3 -m venv "$folder/venv"
  "$folder/venv/bin/pip" install -q ai-edge-litert==2.3.0 flatbuffers==25.12.19 numpy==2.4.6
  python="$folder/venv/bin/python"
fi
"$python" - 2>errors.txt <<'PYTHON' || { tail -n 3 errors.txt; exit 1; }
import sys
from importlib.metadata import version

import flatbuffers
import numpy as np
from ai_edge_litert import schema_py_generated as schema
from ai_edge_litert.interpreter import Interpreter, OpResolverType

rng = np.random.default_rng(0)
weights = rng.integers(-127, 128, (8, 4)).astype(np.int8)
SCALES = {"int8": (0.04, 0.3), "int16": (0.001, 0.002)}  # of input and output


def tensor(name, shape, dtype, scale, buffer=0, axis=0):
    made = schema.TensorT()
    made.name, made.shape, made.type, made.buffer = name, shape, getattr(schema.TensorType, dtype.upper()), buffer
    made.quantization = schema.QuantizationParametersT()
    made.quantization.scale = np.atleast_1d(np.asarray(scale, np.float32))
    made.quantization.zeroPoint = np.zeros(made.quantization.scale.size, np.int64)
    made.quantization.quantizedDimension = axis
    return made


def written(dtype, columns):
    model, graph, code, one, constant = (getattr(schema, f"{n}T")() for n in ("Model", "SubGraph", "OperatorCode", "Operator", "Buffer"))
    constant.data = np.frombuffer(weights.tobytes(), np.uint8)
    step = np.full(4, 0.01) if columns else 0.01
    graph.tensors = [
        tensor(b"x", [3, 8], dtype, SCALES[dtype][0]),
        tensor(b"w", [8, 4], "int8", step, 1, 1 if columns else 0),
        tensor(b"y", [3, 4], dtype, SCALES[dtype][1]),
    ]
    code.builtinCode = code.deprecatedBuiltinCode = schema.BuiltinOperator.BATCH_MATMUL
    code.version = 1
    one.inputs, one.outputs, one.opcodeIndex = [0, 1], [2], 0
    one.builtinOptionsType, one.builtinOptions = schema.BuiltinOptions.BatchMatMulOptions, schema.BatchMatMulOptionsT()
    graph.inputs, graph.outputs, graph.operators, graph.name = [0], [2], [one], b"main"
    model.version, model.operatorCodes, model.subgraphs, model.buffers = 3, [code], [graph], [schema.BufferT(), constant]
    builder = flatbuffers.Builder(1024)
    builder.Finish(model.Pack(builder), b"TFL3")
    return bytes(builder.Output())


def run(data, x, kernels):
    interpreter = Interpreter(model_content=data, experimental_op_resolver_type=getattr(OpResolverType, kernels))
    interpreter.allocate_tensors()
    interpreter.set_tensor(interpreter.get_input_details()[0]["index"], x)
    interpreter.invoke()
    return interpreter.get_tensor(interpreter.get_output_details()[0]["index"])


print("ai-edge-litert", version("ai-edge-litert"))
sets = {"reference": "BUILTIN_REF", "default": "BUILTIN_WITHOUT_DEFAULT_DELEGATES", "XNNPACK": "AUTO"}
found = []
for dtype, (of_x, of_y) in SCALES.items():
    x = rng.integers(-100, 101, (3, 8)).astype(dtype) * np.dtype(dtype).type(1 if dtype == "int8" else 50)
    wanted = np.rint(x.astype(np.int64) @ weights.astype(np.int64) * (of_x * 0.01 / of_y))
    for name, kernels in sets.items():
        whole, single = (run(written(dtype, columns), x, kernels) for columns in (True, False))
        right = bool(np.abs(single - wanted).max() <= 1)
        found.append(right and not whole.any() and np.count_nonzero(wanted) > 8)
        print(f"{dtype}, {name}: {int((whole == 0).sum())} of {whole.size} are 0; with one scale {'right' if right else 'wrong'}")
print("reproduced" if all(found) else "not reproduced")
sys.exit(0 if all(found) else 1)
PYTHON
