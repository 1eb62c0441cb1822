"""The state of a .tflite: tensors that keep their values from one run to the next."""

from __future__ import annotations

from dataclasses import dataclass

from qverify.tflite_model.read_tflite import TfliteModel, TfliteOperator

STATE_KINDS = ("VAR_HANDLE", "ASSIGN_VARIABLE", "CALL_ONCE")  # operators that only name, set and prepare variables


@dataclass(frozen=True, slots=True)
class StateTensor:
    """One variable of a file.

    Attributes:
        name: its name in the file.
        read: the tensors that a run reads it as, before it changes it: results of READ_VARIABLE, or the variable tensor itself.
        written: the tensor whose values it has after a run; -1 if the run does not set it, or the operator that reads it
            changes it in place (LSTM, SVDF), so that no tensor has them.
        in_place: whether an operator changes it in place.
    """

    name: str
    read: tuple[int, ...]
    written: int
    in_place: bool


def state_tensors(model: TfliteModel) -> tuple[StateTensor, ...]:
    """Returns the variables of a file's first subgraph, in the order in which it first uses them. The value that a variable begins
    with is what LiteRT gives its `read` tensors in the first run (of a READ_VARIABLE: what the subgraph of CALL_ONCE assigns; of
    a variable tensor: its zero point)."""
    handles = {o.outputs[0]: o for o in model.operators if o.kind == "VAR_HANDLE" and len(o.outputs) == 1}
    read, written, names = dict[object, list[int]](), dict[object, int](), dict[object, str]()
    for operator in model.operators:
        handle = handles.get(operator.inputs[0]) if operator.inputs else None
        key = None if handle is None else (handle.options["Container"], handle.options["SharedName"])
        if handle is None or key is None:
            continue
        names.setdefault(key, model.tensors[handle.outputs[0]].name)
        read.setdefault(key, [])
        if operator.kind == "READ_VARIABLE" and key not in written:
            read[key] += operator.outputs
        if operator.kind == "ASSIGN_VARIABLE" and len(operator.inputs) == 2:
            written[key] = operator.inputs[1]
    resources = [StateTensor(names[k], tuple(read[k]), written.get(k, -1), False) for k in names]
    used = dict.fromkeys(i for o in model.operators for i in o.inputs if i >= 0 and model.tensors[i].variable)
    return (*resources, *(StateTensor(model.tensors[i].name, (i,), -1, True) for i in used))


def values_read(model: TfliteModel, operator: TfliteOperator) -> list[int]:
    """Returns the tensors from which an operator computes, as far as they are inputs of the file or results of other operators:
    no constants, no variables."""
    if operator.kind in ("READ_VARIABLE", *STATE_KINDS):
        handles = {i for i in operator.inputs if i in model.made_by and model.made_by[i].kind == "VAR_HANDLE"}
        return [i for i in operator.inputs if i >= 0 and i not in handles and model.tensors[i].data is None]
    known = (i for i in operator.inputs if i >= 0 and (i in model.made_by or i in model.inputs))
    return [i for i in dict.fromkeys(known) if model.tensors[i].data is None]
