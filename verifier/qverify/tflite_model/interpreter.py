"""Cuts operators out of a .tflite."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np

from qverify.extras import import_extra
from qverify.tflite_model.read_tflite import TfliteModel, TfliteOperator, schema

CALLING = ("IF", "WHILE", "CALL", "CALL_ONCE", "STABLEHLO_COMPOSITE", "STABLEHLO_WHILE", "STABLEHLO_CASE", "STABLEHLO_REDUCE",
           "STABLEHLO_REDUCE_WINDOW", "STABLEHLO_SORT", "STABLEHLO_SCATTER")  # operators that run other subgraphs  # fmt: skip

WITH_RESOURCES = ("VAR_HANDLE", "READ_VARIABLE", "HASHTABLE", "HASHTABLE_FIND", "HASHTABLE_SIZE")
PREPARING = ("CALL_ONCE", "HASHTABLE_IMPORT")  # operators that give resources their first values


def operators_between(model: TfliteModel, given: Collection[int], wanted: Sequence[int]) -> list[TfliteOperator]:
    """Returns the operators that compute the wanted tensors from the given ones, in running order."""
    by_position: dict[int, TfliteOperator] = {}
    todo = [i for i in wanted if i not in given]
    while todo:
        operator = model.made_by.get(todo.pop())
        if operator is not None and operator.position not in by_position:
            by_position[operator.position] = operator
            todo += [i for i in operator.inputs if i >= 0 and i not in given]
    return [by_position[p] for p in sorted(by_position)]


def operators_alone(model: TfliteModel, given: Collection[int], wanted: Sequence[int]) -> list[TfliteOperator]:
    """Returns operators_between(), and those that prepare the variables and tables which these read: they make no tensor."""
    found = operators_between(model, given, wanted)
    if not any(o.kind in WITH_RESOURCES for o in found):
        return found
    preparing = [o for o in model.operators if o.kind in PREPARING]
    read = [i for o in preparing for i in o.inputs if i >= 0]
    by_position = {o.position: o for o in (*found, *preparing, *operators_between(model, given, read))}
    return [by_position[p] for p in sorted(by_position)]


def cut(
    data: bytes, model: TfliteModel, operators: Sequence[TfliteOperator], given: Sequence[int], made: Sequence[int]
) -> Any:
    """Returns a .tflite that contains only these operators, and the old to new index of its tensors.

    data: a file that LiteRT has opened. given, made: the tensors that become inputs and outputs."""
    module = schema()
    source = open_object(module, data)
    graph = source.subgraphs[0]
    tables = [graph.operators[o.position] for o in operators]
    read = [i for o in operators for i in (*o.inputs, *o.outputs) if i >= 0]
    inner = [int(i) for table in tables for i in _numbers(table.intermediates) if i >= 0]
    kept = dict.fromkeys([*given, *read, *inner, *made])
    kept |= dict.fromkeys(i for old in kept for i in _scales_of(graph.tensors[old]) if i >= 0)
    index = {old: new for new, old in enumerate(kept)}
    used, buffers = {0: 0}, [source.buffers[0]]
    calls = any(o.kind in CALLING for o in operators)
    for old in index:
        tensor = graph.tensors[old]
        _renumber_scales(tensor, index)
        if calls:
            continue  # the other subgraphs use the same buffers
        value, at = model.tensors[old].data, tensor.buffer
        if (
            value is not None and value.size and not len(_numbers(source.buffers[at].data))
        ):  # of an operator that was folded
            buffers.append(module.BufferT())
            buffers[-1].data = np.frombuffer(np.ascontiguousarray(value).tobytes(), np.uint8)
            tensor.buffer = len(buffers) - 1
            continue
        at = at if value is not None else 0
        if at not in used:
            used[at] = len(buffers)
            buffers.append(source.buffers[at])
        tensor.buffer = used[at]
    for operator, table in zip(operators, tables, strict=True):
        table.inputs = [index.get(i, -1) for i in operator.inputs]
        table.outputs = [index[i] for i in operator.outputs]
        table.intermediates = [index.get(int(i), -1) for i in _numbers(table.intermediates)]
    graph.tensors, graph.operators = [graph.tensors[i] for i in index], tables
    graph.inputs, graph.outputs = [index[i] for i in given], [index[i] for i in made]
    source.description, source.signatureDefs, source.metadata, source.metadataBuffer = "part", None, None, None
    if not calls:
        source.subgraphs, source.buffers = [graph], buffers
    return pack_object(source), index


def open_object(module: Any, data: bytes) -> Any:
    """Returns the file as objects that can be changed. module: from schema(). Constants behind the FlatBuffer are within it
    then."""
    source = module.ModelT.InitFromObj(module.Model.GetRootAs(data, 0))
    for buffer in source.buffers:
        if buffer.offset > 1:
            buffer.data = np.frombuffer(data, np.uint8, buffer.size, buffer.offset)
            buffer.offset = buffer.size = 0
    return source


def pack_object(source: Any) -> bytes:
    """Returns the file that these objects are."""
    builder = import_extra("flatbuffers", "a .tflite by itself").Builder(1024)
    builder.Finish(source.Pack(builder), b"TFL3")
    return bytes(builder.Output())


def _numbers(values: Any) -> Sequence[int]:
    return [] if values is None else values


def _scales_of(tensor: Any) -> list[int]:
    """Returns the tensors that contain the scales and zero points of a tensor quantized in blocks."""
    blocks = _blocks_of(tensor)
    return [] if blocks is None else [int(blocks.scales), int(blocks.zeroPoints)]


def _renumber_scales(tensor: Any, index: Mapping[int, int]) -> None:
    blocks = _blocks_of(tensor)
    if blocks is not None:
        blocks.scales, blocks.zeroPoints = (index.get(int(i), -1) for i in (blocks.scales, blocks.zeroPoints))


def _blocks_of(tensor: Any) -> Any:
    details = None if tensor.quantization is None else tensor.quantization.details
    return details if hasattr(details, "scales") else None
