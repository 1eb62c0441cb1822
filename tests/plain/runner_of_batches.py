"""A tool of the tests: runs a QDQ ONNX with onnxruntime and writes every quantized tensor. On request it gets an item of each
batch wrong, or keeps a state from one run to the next, in a file."""

import argparse
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
from onnx import helper

words = argparse.ArgumentParser()
for name in ("model", "npy", "out", "spoil", "state"):
    words.add_argument(f"--{name}", default="")
words.add_argument("--item", type=int, default=-1)
words.add_argument("--alone", type=float, default=0.0)  # added to floats of an output when an item is alone
words.add_argument("--within", type=float, default=0.0)  # added to those of --item in a batch
words.add_argument("--refuse", type=int, default=-1)  # inputs with this batch
given = words.parse_args()
model = onnx.load(given.model)
finals = {value.name for value in model.graph.output}
weights = {value.name for value in model.graph.initializer}
taps = [n.output[0] for n in model.graph.node if n.op_type == "QuantizeLinear" and n.input[0] not in weights]
model.graph.output.extend(helper.make_empty_tensor_value_info(name) for name in taps if name not in finals)
options = onnxruntime.SessionOptions()
options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
options.log_severity_level = 3
session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
x = np.load(given.npy)
if len(x) == given.refuse:
    raise SystemExit(5)
names = [value.name for value in session.get_outputs()]
values = dict(zip(names, session.run(names, {session.get_inputs()[0].name: x}), strict=True))
if given.spoil:
    value = values[given.spoil] = values[given.spoil].copy()
    if 0 <= given.item < len(x) and len(x) > 1:
        value[given.item].reshape(-1)[3] ^= 1
    if given.state:
        before = Path(given.state).read_bytes() if Path(given.state).exists() else b""
        value.reshape(-1)[5] ^= bool(before)  # of what the run before read
        Path(given.state).write_bytes(x.tobytes()[-1:] if x.reshape(-1)[-1] else b"")
for name in finals:
    if given.alone and len(x) == 1:
        values[name] = values[name] + np.float32(given.alone)
    if given.within and len(x) > 1:
        values[name][given.item if given.item >= 0 else slice(None)] += np.float32(given.within)
for name, value in values.items():
    np.save(Path(given.out) / f"{name.replace('/', '_')}.npy", value)
print("done")
