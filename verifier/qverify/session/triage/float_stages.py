"""Opens and runs the stages before the quantized reference: ONNX files that are run unchanged, or dumps of arrays."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from qverify.errors import UsageError
from qverify.model_bin.graph import Graph
from qverify.report.triage_document import Stage
from qverify.session.host_sides import SideResults
from qverify.session.triage.open_stages import SourceStage
from qverify.sides.dumps.array_dump import open_array_dump
from qverify.sides.float_file import FloatFile
from qverify.tensors.prepared import PreparedInputs
from qverify.tensors.recording import Array
from qverify.tensors.spec import TensorSpec
from qverify.triage.float_pairing import pair_ends
from qverify.triage.ladder import real_spec
from qverify.triage.loudness import OutputStep

Values = Mapping[str, tuple[Array, TensorSpec]]  # final outputs by their names in the network


@dataclass(slots=True)
class FloatStage:
    """A stage before the quantized reference. file: the opened ONNX, None for a dump. arrays: the arrays of a dump.
    path: path of the ONNX."""

    stage: Stage
    file: FloatFile | None = None
    arrays: Mapping[str, Array] | None = None
    path: str = ""

    def run(self, feed: Mapping[str, Array]) -> Values:
        """Returns the final outputs with their specs. feed: arrays by the input names of this stage."""
        values = self.file.run(feed) if self.file is not None else dict(self.arrays or {})
        return {n: (v, real_spec(n, v)) for n, v in values.items()}


def open_float_stage(original: SourceStage, shapes: Mapping[str, tuple[int, ...]]) -> FloatStage:
    """Opens an ONNX file or a dump. shapes: shapes of dynamic inputs. Raises BadFileError for a damaged file."""
    if not original.data:
        return FloatStage(original.stage, arrays=open_array_dump(original.path, "dump").tensors)
    folder = os.path.dirname(os.path.abspath(original.path))
    return FloatStage(
        original.stage, FloatFile(original.data, original.stage.source, folder, shapes), path=original.path
    )


def feed_network(file: FloatFile, feed: Mapping[str, Array]) -> tuple[dict[str, Array], str]:
    """Returns the network's inputs under the input names of this file, and a note on how they were paired ("" if by
    equal names). feed: arrays by the network's input names."""

    def shape(name: str) -> Any:
        return feed[name].shape

    names, note = pair_ends(list(feed), file.view.inputs, (shape, file.view.shape), f"inputs of {file.name}")
    return {file_name: feed[name] for name, file_name in names.items()}, note


def inputs_only(stage: FloatStage) -> Graph:
    """Returns a graph that has only the inputs of a float file, as prepared_inputs needs it in a ladder of float files
    alone. Raises UsageError for a dump, which does not state its inputs."""
    if stage.file is None:
        raise UsageError(
            "the ladder starts with a dump and has no quantized model, so the inputs of the other stages are not known; give an ONNX first"
        )
    view = stage.file.view
    specs = {n: TensorSpec(n, view.dtype(n), view.shape(n)) for n in view.inputs}
    return Graph([], specs, {}, tuple(specs), ())


def network_values(graph: Graph, prepared: PreparedInputs, ran: SideResults) -> tuple[dict[str, Array], Values]:
    """Returns the network's inputs by their original names, and the final outputs, with specs, of the first side that
    ran. Inputs whose quantization was removed are dequantized to float32."""
    ends = graph.meta.get("stripped", {"inputs": {}, "outputs": {}})
    first = next((ran.recordings[s] for s in ("reference", "simulator", "board") if s in ran.recordings), None)
    tensors = {**prepared.arrays(), **(dict(first.tensors) if first is not None else {})}
    feed: dict[str, Array] = {}
    for name in dict.fromkeys([*graph.inputs, *graph.meta.get("inputs", {})]):
        if name in tensors and not _is_preprocessed(graph, name):
            real = ends["inputs"].get(name, name)
            feed[real] = (
                graph.spec(name).dequantized(tensors[name]).astype("float32") if real != name else tensors[name]
            )
    finals = {ends["outputs"].get(n, n): (tensors[n], graph.spec(n)) for n in graph.network_outputs() if n in tensors}
    by_host = [n for island in graph.islands for n in island.finals if n in tensors]
    return feed, finals | {n: (tensors[n], TensorSpec(n, tensors[n].dtype.name, tensors[n].shape)) for n in by_host}


def output_steps(graph: Graph) -> dict[str, OutputStep]:
    """Returns the quantization step of each final output, or of the integers from which it is dequantized. Outputs
    without a scale are left out."""
    ends, makers = graph.meta.get("stripped", {"inputs": {}, "outputs": {}}), graph.producers()
    steps = {}
    for name in graph.network_outputs():
        maker = makers.get(name)
        source = str(maker.inputs[0]) if maker is not None and maker.op == "dequantize" else name
        if (spec := graph.spec(source)).scale:
            steps[ends["outputs"].get(name, name)] = OutputStep.of(spec)
    return steps


def _is_preprocessed(graph: Graph, name: str) -> bool:
    """Returns whether preprocessing nodes read this graph input, which is then the bytes of a picture or its ROI."""
    rows = graph.meta.get("inputs", {})
    return any(name in (row.get("tensor"), row.get("roi")) and name != real for real, row in rows.items())
