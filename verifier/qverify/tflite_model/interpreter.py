"""Cuts operators out of a .tflite."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import numpy as np

from qverify.extras import import_extra
from qverify.tflite_model.read_tflite import TfliteModel, TfliteOperator, schema


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


def cut(
    data: bytes, model: TfliteModel, operators: Sequence[TfliteOperator], given: Sequence[int], made: Sequence[int]
) -> Any:
    """Returns a .tflite that contains only these operators, and the old to new index of its tensors.

    data: a file that LiteRT has opened. given, made: the tensors that become inputs and outputs."""
    module = schema()
    source = module.Model.GetRootAs(data, 0)
    graph = source.Subgraphs(0)
    kept = dict.fromkeys([*given, *(i for o in operators for i in (*o.inputs, *o.outputs) if i >= 0), *made])
    index = {old: new for new, old in enumerate(kept)}
    part, whole = module.SubGraphT(), module.ModelT()
    whole.version, whole.description = source.Version(), "part"
    whole.buffers, whole.operatorCodes = [module.BufferT()], []
    part.tensors, part.operators = [], []
    for old in index:
        tensor = module.TensorT.InitFromObj(graph.Tensors(old))
        if (value := model.tensors[old].data) is not None:
            whole.buffers.append(module.BufferT.InitFromObj(source.Buffers(tensor.buffer)))
            if source.Buffers(tensor.buffer).DataLength() == 0 and value.size:  # of an operator that was folded
                whole.buffers[-1].data = np.frombuffer(np.ascontiguousarray(value).tobytes(), np.uint8)
        tensor.buffer = 0 if model.tensors[old].data is None else len(whole.buffers) - 1
        part.tensors.append(tensor)
    for operator in operators:
        table = module.OperatorT.InitFromObj(graph.Operators(operator.position))
        whole.operatorCodes.append(module.OperatorCodeT.InitFromObj(source.OperatorCodes(table.opcodeIndex)))
        table.opcodeIndex = len(whole.operatorCodes) - 1
        table.inputs = [index.get(i, -1) for i in operator.inputs]
        table.outputs = [index[i] for i in operator.outputs]
        table.intermediates, table.mutatingVariableInputs = None, None
        part.operators.append(table)
    part.inputs, part.outputs = [index[i] for i in given], [index[i] for i in made]
    whole.subgraphs = [part]
    builder = import_extra("flatbuffers", "a .tflite by itself").Builder(1024)
    builder.Finish(whole.Pack(builder), b"TFL3")
    return bytes(builder.Output()), index
