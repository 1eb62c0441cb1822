"""Constants of a .tflite that a DEQUANTIZE turns into floats when it runs: weights stored as float16, or quantized
weights of float operators."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from qverify.tflite_model.constants import PACKED
from qverify.tflite_model.read_tflite import TfliteModel, TfliteTensor

WHOLE = ("int8", "uint8", "int16", *PACKED)


def with_float_constants(model: TfliteModel) -> TfliteModel:
    """Returns the model with the result of each DEQUANTIZE of a constant as a constant of float32, without that
    operator."""
    tensors, kept = list(model.tensors), []
    for operator in model.operators:
        x = tensors[operator.inputs[0]] if operator.kind == "DEQUANTIZE" and operator.inputs[0] >= 0 else None
        y = tensors[operator.outputs[0]] if x is not None and len(operator.outputs) == 1 else None
        value = None if x is None or y is None or y.dtype != "float32" or x.shape != y.shape else _real(x)
        if y is None or value is None or y.index in model.outputs:
            kept.append(operator)
        else:
            tensors[y.index] = replace(y, data=value)
    made_by = {i: o for i, o in model.made_by.items() if o in kept}
    return replace(model, tensors=tuple(tensors), operators=tuple(kept), made_by=made_by)


def _real(tensor: TfliteTensor) -> np.ndarray[tuple[int, ...], np.dtype[np.float32]] | None:
    """Returns the real values of a constant, None for one that DEQUANTIZE does not take."""
    if tensor.data is None or tensor.sparse:
        return None
    if tensor.dtype == "float16":
        return tensor.data.astype(np.float32)
    if tensor.dtype not in WHOLE or not tensor.scale.size:
        return None
    shape = [1] * tensor.data.ndim
    if tensor.scale.size > 1:
        if not 0 <= tensor.axis < tensor.data.ndim or tensor.data.shape[tensor.axis] != tensor.scale.size:
            return None
        shape[tensor.axis] = -1
    centred = tensor.data.astype(np.int64) - tensor.zero.reshape(shape)
    return np.asarray(centred.astype(np.float32) * tensor.scale.reshape(shape), np.float32)
