"""Computes host islands with onnxruntime, for each side from its own tensors. Their results are not verified."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from qverify.errors import BadFileError
from qverify.model_bin.graph import Graph
from qverify.model_bin.islands import HostIsland, in_order
from qverify.onnx_model.cut_nodes import cut_nodes
from qverify.onnx_model.engine import Engine
from qverify.onnx_model.load import parse
from qverify.onnx_model.open_exposed import open_exposed
from qverify.tensors.digest import tensor_digest
from qverify.tensors.recording import Array

MAX_SESSIONS = 64


class HostIslands:
    """The islands of one graph. integer_onnx: the integer form that the compiler made, which contains their nodes."""

    def __init__(self, integer_onnx: bytes, graph: Graph):
        self._graph, self._model = graph, parse(integer_onnx, "integer ONNX")
        self._engines: dict[tuple[object, ...], Engine] = {}

    def run(self, island: HostIsland, values: Mapping[str, Array]) -> dict[str, Array]:
        """Returns the island's tensors, computed from these values of its inputs. Raises BadFileError if the engine
        fails, or computes another shape or type than model.bin states."""
        outputs = self._compute(island, {n: values[n] for n in island.inputs})
        if why := find_misfit(self._graph, island, outputs):
            raise BadFileError(why)
        return outputs

    def find_untrue(self, values: Mapping[str, Array]) -> dict[str, str]:
        """Returns the tensors of islands that a run of the whole network gives other bytes of than the island alone, as it may
        where an operator keeps a state or draws numbers, each with the reason. values: all tensors of that run."""
        found = dict[str, str]()
        for island in self._graph.islands:
            try:
                alone = self.run(island, values)
            except BadFileError as error:
                found |= dict.fromkeys(island.made, str(error))
                continue
            for name in island.made:
                if tensor_digest(alone[name]) != tensor_digest(values[name]):
                    why = (
                        f"{name}: a run of the whole file gives other bytes of it than its operators alone, on the host"
                    )
                    found |= dict.fromkeys(island.made, why)
        return found

    def _compute(self, island: HostIsland, inputs: dict[str, Array]) -> dict[str, Array]:
        key = (island.made, *((n, v.shape, v.dtype.str) for n, v in inputs.items()))
        if key not in self._engines:
            if len(self._engines) >= MAX_SESSIONS:  # the shapes of inputs may depend on values
                self._engines.clear()
            self._engines[key] = open_exposed(cut_nodes(self._model, inputs, island.made), [])
        return self._engines[key].run(inputs, island.made)


def find_misfit(graph: Graph, island: HostIsland, tensors: Mapping[str, Array]) -> str:
    """Returns which of these tensors of an island has another shape or type than model.bin states, or "" if all fit."""
    for name in (n for n in island.made if n in tensors and n in graph.tensors):
        spec, value = graph.tensors[name], tensors[name]
        if (value.shape, value.dtype) != (spec.shape, spec.numpy_dtype):
            return (
                f"computed on the host: {name!r} is {value.dtype}{list(value.shape)} for this input, the model says "
                f"{spec.dtype}{list(spec.shape)}"
            )
    return ""


def dependents_of(graph: Graph, names: Collection[str]) -> set[str]:
    """Returns these tensors and all that islands or nodes compute from them."""
    dependent, known = set(names), (*graph.inputs, *graph.constants)
    for step in in_order(graph.islands, graph.nodes, known) if dependent else ():
        if not dependent.isdisjoint(n for n in step.inputs if n is not None):
            dependent.update(step.made if isinstance(step, HostIsland) else step.outputs)
    return dependent


def compute_islands(
    graph: Graph, islands: HostIslands, inputs: Mapping[str, Array], recorded: Mapping[str, Array]
) -> tuple[dict[str, Array], dict[str, str]]:
    """Returns the tensors that the islands compute from the inputs and the recorded values of one side, and the reasons
    for the tensors that onnxruntime fails to compute. Islands whose inputs are not recorded are left out."""
    computed, failed = dict[str, Array](), dict[str, str]()
    for island in graph.islands_in_order():
        sources = (computed, inputs, recorded)  # what is recorded is read only where it is used
        island_inputs = {
            n: next(s for s in sources if n in s)[n] for n in island.inputs if any(n in s for s in sources)
        }
        if len(island_inputs) < len(island.inputs):
            continue
        try:
            computed |= islands.run(island, island_inputs)
        except BadFileError as error:
            failed |= dict.fromkeys(island.made, f"the host could not compute it from this side's tensors: {error}")
    return computed, failed
