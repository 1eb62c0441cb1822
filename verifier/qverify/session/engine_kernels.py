"""Computes single operators of a .tflite that is not converted as an engine does whose arithmetic is shipped: the operator is cut
out of the file, converted and simulated under that arithmetic."""

from __future__ import annotations

from collections.abc import Mapping

from qverify.arithmetic.forms import FormsOfOps
from qverify.compare.identify.arithmetic_file import forms_of_ops
from qverify.errors import BadFileError
from qverify.model_bin.graph import Graph
from qverify.model_bin.units import Unit
from qverify.ops import simulate_node
from qverify.session.stated_arithmetics import open_arithmetic
from qverify.session.tflite_alone import PreparedTflite, TfliteAlone, convert_tflite
from qverify.tensors.recording import Array
from qverify.tflite_model.interpreter import cut, operators_between
from qverify.tflite_model.layout import as_in_file, as_in_onnx
from qverify.tflite_model.read_tflite import read_tflite

MAX_PARTS = 64  # operators that are kept converted


class EngineKernels:
    """The operators of one file under an arithmetic. arithmetic: name of a shipped one."""

    def __init__(self, alone: TfliteAlone, arithmetic: str):
        self._alone, self._arithmetic = alone, arithmetic
        self._forms: FormsOfOps | None = None
        self._parts: dict[str, tuple[Graph, TfliteAlone]] = {}

    def run_unit(self, unit: Unit, inputs: Mapping[str, Array]) -> dict[str, Array]:
        """Returns the unit's outputs on these inputs. Raises BadFileError or UnsupportedError for an operator that cannot be
        computed so."""
        if why := next((self._alone.shared[n.name] for n in unit.nodes if n.name in self._alone.shared), ""):
            raise BadFileError(f"{unit.name}: {why}")
        graph, part = self._part(unit)
        tensors = part.converted.tensors
        values = {n: as_in_onnx(tensors[n], inputs[o]) for n, o in zip(graph.inputs, unit.inputs, strict=True)}
        for node in graph.nodes:
            values |= simulate_node(graph, node, {**values, **graph.constants})
        made = dict(zip(unit.outputs, graph.outputs, strict=True))
        return {name: as_in_file(tensors[n], values[n]) for name, n in made.items()}

    def _part(self, unit: Unit) -> tuple[Graph, TfliteAlone]:
        """Returns the graph and the file of a unit's operators alone."""
        if unit.name not in self._parts:
            if self._forms is None:
                self._forms = forms_of_ops(open_arithmetic(self._arithmetic))
            model, tensors = self._alone.converted.model, self._alone.converted.tensors
            given, made = ([int(tensors[n]["tfl"]) for n in names] for names in (unit.inputs, unit.outputs))
            data, _ = cut(self._alone.data, model, operators_between(model, set(given), made), given, made)
            prepared = PreparedTflite(read_tflite(data, model.file), data, data, (), ())
            compiled, part = convert_tflite(prepared, self._forms)
            if len(self._parts) >= MAX_PARTS:
                self._parts.clear()
            self._parts[unit.name] = compiled.graph, part
        return self._parts[unit.name]
