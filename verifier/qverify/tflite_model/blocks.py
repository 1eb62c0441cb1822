"""Weights that are quantized in blocks, as floats: what a reference computes them from, since LiteRT's reference kernels run such
an operator and ignore its scales (findings/litert-blockwise-int4.sh)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from qverify.errors import BadFileError, UnsupportedError
from qverify.tflite_model.interpreter import open_object, pack_object
from qverify.tflite_model.read_tflite import Array, TfliteModel, TfliteOperator, schema

READER = "FULLY_CONNECTED"  # the one operator whose weights are read here


def operators_of_blocks(data: bytes, model: TfliteModel) -> list[TfliteOperator]:
    """Returns the operators that read a constant quantized in blocks. data: the file. Raises UnsupportedError if one of them is no
    fully connected layer on floats: nothing shows that a kernel of LiteRT computes it."""
    return [operator for operator, _, _ in _find(schema().Model.GetRootAs(data, 0).Subgraphs(0), model)]


def with_weights_as_floats(data: bytes, model: TfliteModel) -> bytes:
    """Returns the file with each constant quantized in blocks as float32, its integers times the scale of their block, which is
    exact for scales of float16; the same bytes if it has none. Raises as operators_of_blocks(), and BadFileError for scales that
    do not fit."""
    if not operators_of_blocks(data, model):
        return data
    module = schema()
    source = open_object(module, data)
    graph = source.subgraphs[0]
    for operator, at, _ in list(_find(module.Model.GetRootAs(data, 0).Subgraphs(0), model)):
        table = graph.tensors[at]
        if table.type == module.TensorType.FLOAT32:
            continue  # of another operator, too
        values = _multiply(model, at, table.quantization.details, operator)
        source.buffers.append(module.BufferT())
        source.buffers[-1].data = np.frombuffer(values.tobytes(), np.uint8)
        table.buffer, table.type, table.quantization = len(source.buffers) - 1, module.TensorType.FLOAT32, None
    return pack_object(source)


def _find(graph: Any, model: TfliteModel) -> Iterator[tuple[TfliteOperator, int, Any]]:
    """Yields each operator that reads such a constant, with the constant's index and its table."""
    for operator in model.operators:
        for i in (i for i in operator.inputs if i >= 0):
            about = graph.Tensors(i).Quantization()
            if about is None or about.DetailsType() != schema().QuantizationDetails.BlockwiseQuantization:
                continue
            others = [j for j in (*operator.inputs, *operator.outputs) if j >= 0 and j != i]
            floats = all(model.tensors[j].dtype == "float32" for j in others)
            if operator.kind != READER or operator.inputs[1] != i or not floats:
                why = (
                    f"tensor {i} is quantized in blocks, which is verified of the weights of a {READER} on floats alone"
                )
                raise UnsupportedError(f"{model.file}: {operator}: {why}")
            yield operator, i, about


def _multiply(model: TfliteModel, at: int, blocks: Any, operator: TfliteOperator) -> Array:
    """Returns the constant as float32, outputs by inputs."""
    weights, size = model.tensors[at], int(blocks.blockSize)
    whole = weights.data
    indices = [int(blocks.scales), *([int(blocks.zeroPoints)] if blocks.zeroPoints >= 0 else [])]
    known = [model.tensors[i].data if 0 <= i < len(model.tensors) else None for i in indices]
    if whole is None or whole.ndim != 2 or size <= 0 or whole.shape[1] % size:
        raise BadFileError(f"{model.file}: {operator}: weights {list(weights.shape)} in blocks of {size}")
    shape = whole.shape[0], whole.shape[1] // size
    if any(v is None or v.size != shape[0] * shape[1] or v.dtype.kind not in "fiu" for v in known):
        raise BadFileError(f"{model.file}: {operator}: scales of its blocks are missing; wanted {list(shape)}")
    spread = [np.repeat(v.reshape(shape).astype(np.float64), size, axis=1) for v in known if v is not None]
    if not (np.isfinite(spread[0]) & (spread[0] > 0)).all():
        raise BadFileError(f"{model.file}: {operator}: a scale of its blocks is not above 0")
    real = (whole.astype(np.float64) - (spread[1] if len(spread) > 1 else 0.0)) * spread[0]
    return real.astype("<f4")
