"""The reference side for a .tflite without an ONNX: LiteRT's reference kernels on this host, with every tensor kept."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from qverify.errors import BadFileError, InternalError
from qverify.model_bin.graph import LAYERS_OF_BLOCKS, Graph
from qverify.model_bin.units import Unit
from qverify.ops import simulate_node
from qverify.plural import count
from qverify.sides.engine_child import EngineEnded
from qverify.sides.host_islands import HostIslands, dependents_of
from qverify.sides.litert_engine import DEFAULT_KERNELS, NO_KERNEL, LiteRtEngine, RefusedFileError
from qverify.tensors.digest import tensor_digest
from qverify.tensors.prepared import PreparedInputs
from qverify.tensors.recording import Array, Recording
from qverify.tflite_model.blocks import operators_of_blocks, with_weights_as_floats
from qverify.tflite_model.convert import ConvertedModel
from qverify.tflite_model.interpreter import cut, operators_between
from qverify.tflite_model.layout import as_in_file, as_in_onnx

AS_FLOATS = "the reference multiplies {1} with weights in blocks (first {0}) by these as floats: LiteRT's reference kernels ignore their scales"
RunUnit = Callable[[Unit, Mapping[str, Array]], dict[str, Array]]
KERNEL_SETS = {
    "reference": "LiteRT's reference kernels",
    "optimized": "LiteRT's default kernels",
    "xnnpack": "XNNPACK",
}  # all that LiteRT's Python package has on this host


class LiteRtReference:
    """Runs the reference, in a child process. data: the .tflite. converted: its conversion to ONNX. graph: compiled from
    that conversion. kernels: LiteRT's kernels that are the reference, "reference" or "optimized". shared: why nodes cannot be
    recomputed alone, by name. unstable: tensors of which LiteRT gives other bytes in each run, which are missing. islands: computes the
    graph's host islands; None if it has none."""

    def __init__(
        self,
        data: bytes,
        converted: ConvertedModel,
        graph: Graph,
        kernels: str = "reference",
        shared: Mapping[str, str] | None = None,
        unstable: frozenset[str] = frozenset(),
        islands: HostIslands | None = None,
    ):
        self._islands = islands
        self._host_tensors = list(dict.fromkeys(n for island in graph.islands for n in island.made))
        self._kernels, self._shared, self._unstable = kernels, shared or {}, unstable
        self._why_default = ""  # why the default kernels took the reference kernels' place
        self.graph, self._converted = graph, converted
        self._tensors, self._model = converted.tensors, converted.model
        self._blocks = operators_of_blocks(data, self._model) if graph.meta.get(LAYERS_OF_BLOCKS) else []
        self._data = with_weights_as_floats(data, self._model) if self._blocks else data
        self.names = graph.observable()
        if unmapped := [n for n in (*graph.inputs, *self.names, *self._host_tensors) if n not in self._tensors]:
            raise InternalError(f"{unmapped[0]}: no tensor of {self._model.file} is mapped to it")
        self._engine = LiteRtEngine(self._model.file)

    def run(self, prepared: PreparedInputs) -> Recording:
        """Returns every observable tensor, in the ONNX's layout, with its digest. If LiteRT ends its process, the
        recording did not run. Its default kernels are the reference from then on if the reference kernels lack an operator.
        Raises BadFileError if LiteRT refuses the file."""
        try:
            recording = self._run_all(prepared)
        except RefusedFileError as error:
            sums = any(
                o.kind == "SUM" for o in self._model.operators
            )  # which the graph computes as the reference kernels do
            if self._kernels != "reference" or NO_KERNEL not in str(error) or sums:
                raise
            self._kernels, self._why_default = "optimized", DEFAULT_KERNELS.format(error)
            recording = self._run_all(prepared)
        recording.notes += [self._why_default] if self._why_default else []
        if self._blocks:
            recording.notes.append(AS_FLOATS.format(self._blocks[0], count(len(self._blocks), "operator")))
        return recording

    def _run_all(self, prepared: PreparedInputs) -> Recording:
        start = time.perf_counter()
        arrays = prepared.arrays()
        inputs = {self._index(n): self._as_in_file(n, arrays[n]) for n in self.graph.inputs}
        recording = Recording(
            "reference",
            "LiteRT",
            self._engine.version,
            {"kernels": self._kernels, "threads": 1},
            specs={n: self.graph.spec(n) for n in self.names},
            finals=self.graph.outputs,
            capabilities=frozenset({"finals", "per_node", "inject", "digests"}),
            inputs_sha256=prepared.sha256,
            runtime="litert",
            kernels=f"litert-{self._kernels}",
        )
        try:
            names = [*self.names, *self._host_tensors]
            indices = [*dict.fromkeys(self._index(n) for n in names)]
            outputs = self._engine.run(self._data, self._model.file, inputs, indices, True, self._kernels)
        except EngineEnded as error:
            recording.state, recording.why = "did not run", f"LiteRT cannot run {self._model.file}: {error}"
            recording.missing = dict.fromkeys(recording.specs, recording.why)
            return recording
        misfits = {n: why for n in names if (why := self._misfit(n, outputs[self._index(n)]))}
        values = {n: self._as_in_onnx(n, outputs[self._index(n)]) for n in names if n not in misfits}
        misfits |= self._find_untrue_islands(values, arrays, misfits)
        values = {n: v for n, v in values.items() if n not in misfits}
        if misfits:
            recording.missing, recording.state = (
                {n: why for n, why in misfits.items() if n in recording.specs},
                "partial",
            )
            recording.why = next(iter(misfits.values()))
        recording.tensors = {**values, **{n: v for n, v in arrays.items() if n in self.graph.outputs}}
        recording.digests = {n: tensor_digest(v) for n, v in values.items() if n in recording.specs}
        recording.duration_s = time.perf_counter() - start
        return recording

    def _find_untrue_islands(
        self, values: Mapping[str, Array], inputs: Mapping[str, Array], misfits: Mapping[str, str]
    ) -> dict[str, str]:
        """Returns why tensors mean nothing to the other sides, by name: those of an island that does not compute alone what it
        computes in the file, and what depends on them or on tensors without values."""
        if self._islands is None:
            return {}
        untrue = dict(misfits)
        if not untrue:
            untrue = self._islands.find_untrue({**inputs, **values})
        why = next(iter(untrue.values()), "")
        return {**dict.fromkeys(sorted(dependents_of(self.graph, untrue)), why), **untrue}

    @property
    def kernel_sets(self) -> dict[str, RunUnit]:
        """Functions that run a unit as run_unit() does, with LiteRT's other kernels on this host, by their names."""
        return {
            name: partial(self._run_with, kernels) for kernels, name in KERNEL_SETS.items() if kernels != self._kernels
        }

    def run_unit(self, unit: Unit, inputs: Mapping[str, Array]) -> dict[str, Array]:
        """Runs the unit's operators of the .tflite on the given inputs. Returns its outputs by name. A
        transposition from or to NHWC, which only the ONNX has, is computed as in model.bin. Raises BadFileError if LiteRT
        cannot run them."""
        return self._run_with(self._kernels, unit, inputs)

    def _run_with(self, kernels: str, unit: Unit, inputs: Mapping[str, Array]) -> dict[str, Array]:
        if why := next((self._shared[n.name] for n in unit.nodes if n.name in self._shared), ""):
            raise BadFileError(f"{self._model.file}: {unit.name}: {why}")
        input_names = {self._index(n): n for n in unit.inputs}
        output_indices = {n: self._index(n) for n in unit.outputs}
        operators = operators_between(self._model, set(input_names), list(output_indices.values()))
        if not operators:
            values = dict(inputs)
            for node in unit.nodes:
                values |= simulate_node(self.graph, node, values)
            return {n: values[n] for n in unit.outputs}
        part, index = cut(self._data, self._model, operators, list(input_names), list(output_indices.values()))
        file = f"{self._model.file}: {operators[-1]}"
        feed = {index[i]: self._as_in_file(n, inputs[n]) for i, n in input_names.items()}
        wanted = [index[i] for i in output_indices.values()]
        try:
            results = self._engine.run(part, file, feed, wanted, kernels=kernels)
        except EngineEnded as error:
            raise BadFileError(f"{file}: LiteRT cannot run it: {error}") from error
        return {n: self._as_in_onnx(n, results[index[i]]) for n, i in output_indices.items()}

    def _misfit(self, name: str, value: Array) -> str:
        """Returns why the value is not of the graph's shape, which it has where LiteRT knows it only when it runs."""
        if name in self._unstable:
            return "LiteRT gives other bytes of it in each run on the same inputs"
        shape, of_host = tuple(self._tensors[name]["shape"]), name in self._host_tensors
        fits = (
            value.shape == shape if self.graph.is_of_operators or self.graph.islands else value.size == math.prod(shape)
        )
        if fits or (of_host and self._tensors[name].get("dynamic")):
            return ""
        return f"{name} is {list(value.shape)} on these inputs, and was {list(shape)} on random ones"

    def run_original(self, prepared: PreparedInputs) -> dict[str, Array]:
        """Returns {}: the .tflite itself is the original."""
        return {}

    def compare_original(
        self, prepared: PreparedInputs, finals: Mapping[str, Array], original: Mapping[str, Array]
    ) -> list[dict[str, Any]]:
        """Returns []: the reference already ran the original, which is the .tflite."""
        return []

    def name_optimizer(
        self, prepared: PreparedInputs, original: Mapping[str, Array], rows: list[dict[str, Any]]
    ) -> None:
        """Does nothing: no default onnxruntime takes part."""

    def _index(self, name: str) -> int:
        return int(self._tensors[name]["tfl"])

    def _as_in_file(self, name: str, value: Array) -> Array:
        return as_in_file(self._tensors[name], value)

    def _as_in_onnx(self, name: str, value: Array) -> Array:
        entry = self._tensors[name]
        if self.graph.islands and entry.get("dynamic"):
            return value
        if value.size != math.prod(entry["dims"]):
            raise InternalError(f"{name}: LiteRT made {list(value.shape)}, wanted {entry['dims']}")
        return as_in_onnx(entry, value)
