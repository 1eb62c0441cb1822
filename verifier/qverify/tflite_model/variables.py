"""Variables of a .tflite as inputs and outputs of its network: what a step reads comes in, what it assigns goes out."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from qverify.errors import BadFileError, UnsupportedError
from qverify.printable import printable
from qverify.tflite_model.interpreter import cut, open_object
from qverify.tflite_model.read_tflite import DAMAGE_ERRORS, TfliteModel, TfliteOperator, schema

HANDLE, READ, ASSIGN, ONCE = "VAR_HANDLE", "READ_VARIABLE", "ASSIGN_VARIABLE", "CALL_ONCE"
KINDS = frozenset({HANDLE, READ, ASSIGN, ONCE})
CODES = {142: HANDLE, 144: ASSIGN}  # numbers of the schema's operators
Array = npt.NDArray[Any]


@dataclass(frozen=True, slots=True)
class Variable:
    """A variable. given: tensor that a step reads. made: tensor that it assigns. initial: the bytes of the first step's values,
    None if the file's initialization does not state them."""

    given: int
    made: int
    initial: bytes | None


def open_variables(data: bytes, model: TfliteModel) -> tuple[bytes, list[Variable]]:
    """Returns the file with its variables as further inputs and outputs, and these; the same bytes and [] for a file without
    variables. Raises UnsupportedError for a variable that cannot be a state, BadFileError for a damaged file."""
    if not any(o.kind in (READ, ASSIGN) for o in model.operators):
        return data, []
    try:
        source = open_object(schema(), data)
        names = {
            o.outputs[0]: _name(source.subgraphs[0].operators[o.position]) for o in model.operators if o.kind == HANDLE
        }
        first = _initial_values(source, model)
        return _rewrite(data, model, names, first)
    except DAMAGE_ERRORS as error:
        raise BadFileError(f"{model.file}: a damaged .tflite: {printable(str(error))[:200]}") from error


def _name(operator: Any) -> tuple[str, str]:
    """Returns what identifies the variable of a VAR_HANDLE."""
    options = operator.builtinOptions
    return str(options.container), str(options.sharedName)


def _rewrite(
    data: bytes, model: TfliteModel, names: dict[int, tuple[str, str]], first: dict[tuple[str, str], bytes]
) -> tuple[bytes, list[Variable]]:
    given, now, same = dict[tuple[str, str], int](), dict[tuple[str, str], int](), dict[int, int]()
    kept, assigned = list[TfliteOperator](), set[tuple[str, str]]()
    for operator in model.operators:
        if operator.kind == READ:
            name, out = names[operator.inputs[0]], operator.outputs[0]
            if name in now:
                same[out] = now[name]
            else:
                given[name] = now[name] = out
        elif operator.kind == ASSIGN:
            name, value = names[operator.inputs[0]], same.get(operator.inputs[1], operator.inputs[1])
            now[name] = value
            assigned.add(name)
        elif operator.kind not in KINDS:
            kept.append(replace(operator, inputs=tuple(same.get(i, i) for i in operator.inputs)))
    computed = {out for operator in kept for out in operator.outputs}
    for name in given:
        if name not in assigned or now[name] not in computed:
            raise UnsupportedError(
                f"{model.file}: variable {printable(name[1])}: no operator of a step computes it; a state that no step writes"
            )
    outputs = [same.get(i, i) for i in model.outputs]
    changed, index = cut(data, model, kept, [*model.inputs, *given.values()], [*outputs, *(now[n] for n in given)])
    return changed, [Variable(index[i], index[now[n]], first.get(n)) for n, i in given.items()]


def _initial_values(source: Any, model: TfliteModel) -> dict[tuple[str, str], bytes]:
    """Returns the constants that the subgraph of CALL_ONCE assigns, by variable."""
    found: dict[tuple[str, str], bytes] = {}
    for operator in (o for o in model.operators if o.kind == ONCE):
        graph = source.subgraphs[source.subgraphs[0].operators[operator.position].builtinOptions.initSubgraphIndex]
        names: dict[int, tuple[str, str]] = {}
        for table in graph.operators:
            kind = CODES.get(int(source.operatorCodes[table.opcodeIndex].builtinCode))
            if kind == HANDLE:
                names[int(table.outputs[0])] = _name(table)
            if kind == ASSIGN and int(table.inputs[0]) in names:
                content = source.buffers[graph.tensors[int(table.inputs[1])].buffer].data
                if content is not None and len(content):
                    found[names[int(table.inputs[0])]] = np.asarray(content, np.uint8).tobytes()
    return found
