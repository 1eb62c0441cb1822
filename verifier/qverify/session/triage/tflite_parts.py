"""Cuts parts out of a .tflite, each as a file of its own, for a reduction."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from qverify.session.tflite_alone import TfliteAlone
from qverify.tensors.recording import Array
from qverify.tflite_model.convert import convert
from qverify.tflite_model.interpreter import cut, operators_between
from qverify.tflite_model.layout import as_in_file, as_in_onnx
from qverify.tflite_model.read_tflite import read_tflite


@dataclass(frozen=True, slots=True)
class TflitePart:
    """A part of a .tflite. data: the bytes of its file. inputs: its input values, by the names of the tensors in that
    file. operators: number of its operators."""

    data: bytes
    inputs: dict[str, Array]
    operators: int


def has_operators(alone: TfliteAlone, inputs: Iterable[str], outputs: Sequence[str]) -> bool:
    """Returns whether operators of the file lie between these tensors of the graph."""
    return bool(operators_between(alone.converted.model, _indices(alone, inputs), list(_indices(alone, outputs))))


def tflite_part(alone: TfliteAlone, values: Mapping[str, Array], outputs: Sequence[str]) -> TflitePart:
    """Returns the operators between tensors of the graph as a file of their own. values: the input values by the
    graph's names. outputs: names in the graph."""
    model, tensors = alone.converted.model, alone.converted.tensors
    name_of_index = {int(tensors[n]["tfl"]): n for n in values}
    output_indices = list(dict.fromkeys(_indices(alone, outputs)))
    operators = operators_between(model, set(name_of_index), output_indices)
    read = {i for o in operators for i in o.inputs}
    input_indices = [i for i in name_of_index if i in read]
    data, new_index = cut(alone.data, model, operators, input_indices, output_indices)
    part_tensors = convert(read_tflite(data, "part.tflite")).tensors
    part_names = {int(entry["tfl"]): name for name, entry in reversed(part_tensors.items())}
    inputs = {}
    for i in input_indices:
        name, part_name = name_of_index[i], part_names[new_index[i]]
        inputs[part_name] = as_in_onnx(part_tensors[part_name], as_in_file(tensors[name], values[name]))
    return TflitePart(data, inputs, len(operators))


def _indices(alone: TfliteAlone, names: Iterable[str]) -> dict[int, None]:
    """Returns the indices of the named tensors in the .tflite, in order."""
    return {int(alone.converted.tensors[n]["tfl"]): None for n in names}
