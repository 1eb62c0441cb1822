"""Computes host islands with onnxruntime, for one side from that side's own tensors. Nothing of it is verified."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from qverify.errors import BadFileError
from qverify.model_bin.graph import Graph
from qverify.model_bin.islands import HostIsland, in_order
from qverify.onnx_model.cut_nodes import cut_nodes
from qverify.onnx_model.engine import Engine
from qverify.onnx_model.load import parse
from qverify.tensors.recording import Array

MOST_SESSIONS = 64


class HostIslands:
    """The islands of one graph. integer_onnx: the compiler's, which contains their nodes."""

    def __init__(self, integer_onnx: bytes, graph: Graph):
        self._graph, self._model = graph, parse(integer_onnx, "integer ONNX")
        self._engines: dict[tuple[object, ...], Engine] = {}

    def run(self, island: HostIsland, values: Mapping[str, Array]) -> dict[str, Array]:
        """Returns what the island makes of these values of its inputs. Raises BadFileError where onnxruntime fails on
        them, or makes another shape or type than model.bin says."""
        given = {n: values[n] for n in island.inputs}
        key = (island.made, *((n, v.shape, v.dtype.str) for n, v in given.items()))
        if key not in self._engines:
            if len(self._engines) >= MOST_SESSIONS:  # inputs whose shapes depend on values
                self._engines.clear()
            self._engines[key] = Engine(cut_nodes(self._model, given, island.made).SerializeToString())
        made = self._engines[key].run(given, island.made)
        if why := misfit(self._graph, island, made):
            raise BadFileError(why)
        return made


def misfit(graph: Graph, island: HostIsland, made: Mapping[str, Array]) -> str:
    """Returns which of these tensors of an island has another shape or type than model.bin says; "" where none has."""
    for name in (n for n in island.made if n in made and n in graph.tensors):
        spec, value = graph.tensors[name], made[name]
        if (value.shape, value.dtype) != (spec.shape, spec.numpy_dtype):
            return (
                f"computed on the host: {name!r} is {value.dtype}{list(value.shape)} for this input, the model says "
                f"{spec.dtype}{list(spec.shape)}"
            )
    return ""


def made_from(graph: Graph, names: Collection[str]) -> set[str]:
    """Returns these tensors and everything that is computed from them, by islands and by nodes."""
    found, known = set(names), (*graph.inputs, *graph.constants)
    for step in in_order(graph.islands, graph.nodes, known) if found else ():
        if not found.isdisjoint(n for n in step.inputs if n is not None):
            found.update(step.made if isinstance(step, HostIsland) else step.outputs)
    return found


def after_islands(
    graph: Graph, islands: HostIslands, inputs: Mapping[str, Array], recorded: Mapping[str, Array]
) -> tuple[dict[str, Array], dict[str, str]]:
    """Returns what the islands make of the inputs and of one side's recorded values, and what onnxruntime fails to
    make, each with the reason. Neither has anything of an island whose inputs are not recorded."""
    made, failed = dict[str, Array](), dict[str, str]()
    for island in graph.islands:
        sources = (made, inputs, recorded)  # what is recorded is read only where it is used
        given = {n: next(s for s in sources if n in s)[n] for n in island.inputs if any(n in s for s in sources)}
        if len(given) < len(island.inputs):
            continue
        try:
            made |= islands.run(island, given)
        except BadFileError as error:
            failed |= dict.fromkeys(island.made, f"the host could not compute it from this side's tensors: {error}")
    return made, failed
