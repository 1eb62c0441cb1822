"""Runs a whole .tflite, or some of its operators, on this host with LiteRT's reference kernels."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from qverify.errors import BadFileError
from qverify.extras import import_extra
from qverify.printable import describe_error
from qverify.tflite_model.read_tflite import TfliteModel, TfliteOperator, schema

Array = npt.NDArray[Any]


class Interpreter:
    """A model opened by LiteRT. Raises BadFileError if LiteRT refuses it, MissingExtraError if LiteRT is not
    installed."""

    def __init__(self, data: bytes, file: str):
        library = import_extra("ai_edge_litert.interpreter", f"{file}: a .tflite by itself")
        self.version = str(import_extra("ai_edge_litert", file).__version__)
        self._file = file
        try:
            self._opened = library.Interpreter(
                model_content=data,
                num_threads=1,
                experimental_op_resolver_type=library.OpResolverType.BUILTIN_REF,
                experimental_preserve_all_tensors=True,
            )
            self._opened.allocate_tensors()
            self.inputs = tuple(int(d["index"]) for d in self._opened.get_input_details())
        except (ValueError, RuntimeError) as error:
            raise BadFileError(f"{file}: LiteRT refuses it: {describe_error(error)}") from error

    def run(self, values: Mapping[int, Array], wanted: Sequence[int]) -> dict[int, Array]:
        """Returns the wanted tensors by index, in the file's layout. values: the inputs by index. Raises BadFileError
        if LiteRT fails."""
        try:
            for index in self.inputs:
                self._opened.set_tensor(index, np.ascontiguousarray(values[index]))
            self._opened.invoke()
            return {i: self._opened.get_tensor(i) for i in wanted}
        except (ValueError, RuntimeError) as error:
            raise BadFileError(f"{self._file}: LiteRT fails: {describe_error(error)}") from error


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
        if model.tensors[old].data is not None:
            whole.buffers.append(module.BufferT.InitFromObj(source.Buffers(tensor.buffer)))
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
