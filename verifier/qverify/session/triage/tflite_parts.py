"""Parts of a .tflite as files of their own, for a reduction."""

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
    """Some operators of a .tflite. data: their own file. inputs: the values it is fed, by its own names of the tensors.
    operators: how many it has."""

    data: bytes
    inputs: dict[str, Array]
    operators: int


def has_operators(alone: TfliteAlone, given: Iterable[str], made: Sequence[str]) -> bool:
    """Returns whether operators of the file lie between these tensors of the graph."""
    return bool(operators_between(alone.converted.model, _indices(alone, given), list(_indices(alone, made))))


def tflite_part(alone: TfliteAlone, given: Mapping[str, Array], made: Sequence[str]) -> TflitePart:
    """Returns the operators between tensors of the graph as a file of their own. given: values by the graph's names."""
    model, tensors = alone.converted.model, alone.converted.tensors
    by_index = {int(tensors[n]["tfl"]): n for n in given}
    wanted = list(dict.fromkeys(_indices(alone, made)))
    operators = operators_between(model, set(by_index), wanted)
    read = {i for o in operators for i in o.inputs}
    fed = [i for i in by_index if i in read]
    data, index = cut(alone.data, model, operators, fed, wanted)
    own = convert(read_tflite(data, "part.tflite")).tensors
    names = {int(entry["tfl"]): name for name, entry in reversed(own.items())}
    inputs = {}
    for i in fed:
        name, other = by_index[i], names[index[i]]
        inputs[other] = as_in_onnx(own[other], as_in_file(tensors[name], given[name]))
    return TflitePart(data, inputs, len(operators))


def _indices(alone: TfliteAlone, names: Iterable[str]) -> dict[int, None]:
    return {int(alone.converted.tensors[n]["tfl"]): None for n in names}
