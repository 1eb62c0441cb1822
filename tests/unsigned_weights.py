"""A quantized ONNX whose products are of uint8 alone: onnxruntime computes them exactly on every processor, also where it is a
board."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, numpy_helper


def with_unsigned_weights(model: onnx.ModelProto) -> onnx.ModelProto:
    """Returns the model (Q and DQ nodes) after adding 128 to its weights of int8 and to their zero points."""
    held = {i.name: i for i in model.graph.initializer}
    for node in model.graph.node:
        weight = held.get(node.input[0]) if node.op_type == "DequantizeLinear" else None
        if weight is None or weight.data_type != TensorProto.INT8:
            continue
        for at in (0, 2):
            value = numpy_helper.to_array(held[node.input[at]])
            name = f"{node.input[at]}/unsigned"
            if name not in held:
                held[name] = numpy_helper.from_array(np.asarray(value.view(np.uint8) ^ np.uint8(128)), name)
            node.input[at] = name
    read = {n for node in model.graph.node for n in node.input}
    del model.graph.initializer[:]
    model.graph.initializer.extend(i for i in held.values() if i.name in read)
    return model


def write_unsigned_example(example: Path, folder: Path) -> Path:
    """Writes the packaged example with such weights. Returns the folder."""
    shutil.copytree(example, folder)
    path = folder / "digits_quant.onnx"
    onnx.save(with_unsigned_weights(onnx.load(path)), path)
    return folder
