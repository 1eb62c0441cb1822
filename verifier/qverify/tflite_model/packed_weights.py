"""Stores weights of int4 and int2 as int8 of the same values, where LiteRT's kernels would read them as if they were that."""

from __future__ import annotations

import numpy as np

from qverify.tflite_model.interpreter import open_object, pack_object
from qverify.tflite_model.operators_with_weights import PACKED_WITHOUT_KERNEL
from qverify.tflite_model.read_tflite import DAMAGE_ERRORS, TfliteModel, TfliteTensor, schema

WEIGHTS = 1  # the place of the weights among the inputs


def unpack_weights(data: bytes, model: TfliteModel) -> tuple[bytes, list[str]]:
    """Returns the file with such weights as int8, and a line on it; the file itself and no line if there are none. model: the file's
    contents."""
    found = dict[int, TfliteTensor]()
    for operator in model.operators:
        if len(operator.inputs) > WEIGHTS and min(operator.inputs[: WEIGHTS + 1]) >= 0:
            x, weights = (model.tensors[i] for i in operator.inputs[: WEIGHTS + 1])
            if (weights.dtype, operator.kind, x.dtype) in PACKED_WITHOUT_KERNEL and weights.data is not None:
                found[weights.index] = weights
    if not found:
        return data, []
    module = schema()
    try:
        source = open_object(module, data)
        for index, weights in found.items():
            buffer, tensor = module.BufferT(), source.subgraphs[0].tensors[index]
            buffer.data = np.frombuffer(np.ascontiguousarray(weights.data, np.int8).tobytes(), np.uint8)
            source.buffers.append(buffer)
            tensor.type, tensor.buffer = module.TensorType.INT8, len(source.buffers) - 1
        kinds = ", ".join(sorted({weights.dtype for weights in found.values()}))
        line = f"weights of {kinds} that LiteRT's kernels do not unpack are run as int8 (first {next(iter(found.values())).name})"
        return pack_object(source), [line]
    except DAMAGE_ERRORS:
        return data, []
