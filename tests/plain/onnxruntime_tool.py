"""A tool of the tests, as a vendor's would be: onnxruntime runs a quantized ONNX and writes its final outputs. The tensor
--spoil is mirrored; with --only-with NAME, where the model also computes NAME."""

import argparse
import os
from pathlib import Path

os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")
import numpy as np
import onnx
import onnxruntime as ort
from onnx import helper

words = argparse.ArgumentParser()
for name in ("model", "inputs", "out", "spoil", "only-with"):
    words.add_argument(f"--{name}", default="")
given = words.parse_args()
model = onnx.load(given.model)
made = {o for node in model.graph.node for o in node.output}
if given.spoil in made and (not given.only_with or given.only_with in made):
    at = next(at for at, node in enumerate(model.graph.node) if given.spoil in node.output)
    spoilt = list(model.graph.node[at].output).index(given.spoil)
    model.graph.node[at].output[spoilt] = "spoilt"
    maker = model.graph.node[at]
    zero_point = next(
        (i for i in model.graph.initializer if maker.op_type == "QuantizeLinear" and i.name in maker.input[2:]), None
    )
    limits = None if zero_point is None else np.iinfo(onnx.helper.tensor_dtype_to_np_dtype(zero_point.data_type))
    turn = 0.0 if limits is None else float(limits.min) + float(limits.max)  # the largest value becomes the smallest
    nodes = [
        helper.make_node("Cast", ["spoilt"], ["as_float"], to=onnx.TensorProto.FLOAT),
        helper.make_node("Sub", ["turn", "as_float"], ["turned"]),
        helper.make_node("CastLike", ["turned", "spoilt"], [given.spoil]),
    ]
    model.graph.initializer.append(helper.make_tensor("turn", onnx.TensorProto.FLOAT, [], [turn]))
    for offset, node in enumerate(nodes):
        model.graph.node.insert(at + 1 + offset, node)
options = ort.SessionOptions()
options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
options.intra_op_num_threads = 1
options.add_session_config_entry("session.qdqisint8allowed", "1")
session = ort.InferenceSession(model.SerializeToString(), options, disabled_optimizers=["WeightBiasQuantization"])
files = given.inputs.split(",")
feed = {i.name: np.load(path) for i, path in zip(session.get_inputs(), files, strict=True)}
for output, value in zip(session.get_outputs(), session.run(None, feed), strict=True):
    np.save(Path(given.out) / f"{output.name.replace('/', '_').replace(':', '_')}.npy", value)
print("done")
