"""Computes the host islands of a .tflite with LiteRT's own kernels, in a child process: the operators of an island are cut out of the
file. Their results are not verified."""

from __future__ import annotations

import math

from qverify.errors import BadFileError
from qverify.model_bin.graph import Graph
from qverify.model_bin.islands import HostIsland
from qverify.sides.engine_child import EngineEnded
from qverify.sides.host_islands import HostIslands
from qverify.sides.litert_engine import LiteRtEngine
from qverify.tensors.recording import Array
from qverify.tflite_model.convert import ConvertedModel
from qverify.tflite_model.interpreter import cut, operators_alone
from qverify.tflite_model.layout import as_in_file, as_in_onnx

MAX_PARTS = 64  # islands whose files are kept


class LiteRtIslands(HostIslands):
    """The islands of one graph. data: the .tflite. kernels: LiteRT's kernels that compute them, as for LiteRtEngine.run(). Raises
    MissingExtraError if LiteRT is not installed."""

    def __init__(self, data: bytes, converted: ConvertedModel, graph: Graph, kernels: str):
        self._graph, self._data, self._converted, self._kernels = graph, data, converted, kernels
        self._engine = LiteRtEngine(converted.model.file)
        self._parts: dict[tuple[str, ...], tuple[bytes, dict[int, int], str]] = {}

    def _compute(self, island: HostIsland, inputs: dict[str, Array]) -> dict[str, Array]:
        data, index, file = self._part(island)
        feed = {index[self._index(n)]: self._as_in_file(n, value) for n, value in inputs.items()}
        wanted = [index[self._index(n)] for n in island.made]
        try:
            values = self._engine.run(data, file, feed, wanted, True, self._kernels)
        except EngineEnded as error:
            raise BadFileError(f"{file}: LiteRT cannot run it: {error}") from error
        return {n: self._as_in_onnx(n, values[i]) for n, i in zip(island.made, wanted, strict=True)}

    def _part(self, island: HostIsland) -> tuple[bytes, dict[int, int], str]:
        """Returns an island as a file, the number of each of its tensors there by that in the whole file, and its name."""
        if island.made not in self._parts:
            if len(self._parts) >= MAX_PARTS:
                self._parts.clear()
            given, made = ([self._index(n) for n in names] for names in (island.inputs, island.made))
            operators = operators_alone(self._converted.model, set(given), made)
            data, index = cut(self._data, self._converted.model, operators, given, made)
            self._parts[island.made] = data, index, f"{self._converted.model.file}: {operators[-1]}"
        return self._parts[island.made]

    def _index(self, name: str) -> int:
        return int(self._converted.tensors[name]["tfl"])

    def _as_in_file(self, name: str, value: Array) -> Array:
        entry = self._converted.tensors[name]
        return value if entry.get("dynamic") else as_in_file(entry, value)

    def _as_in_onnx(self, name: str, value: Array) -> Array:
        entry = self._converted.tensors[name]
        fits = value.size == math.prod(entry["dims"])
        return value if entry.get("dynamic") or not fits else as_in_onnx(entry, value)
