"""The stages before the quantized reference, opened and run: ONNX files as they are, or arrays somebody dumped."""

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
    """One of them. arrays: of a dump, which has no file to run."""

    stage: Stage
    file: FloatFile | None = None
    arrays: Mapping[str, Array] | None = None

    def run(self, feed: Mapping[str, Array]) -> Values:
        """feed: by this stage's own input names."""
        values = self.file.run(feed) if self.file is not None else dict(self.arrays or {})
        return {n: (v, real_spec(n, v)) for n, v in values.items()}


def open_float_stage(original: SourceStage, shapes: Mapping[str, tuple[int, ...]]) -> FloatStage:
    if not original.data:
        return FloatStage(original.stage, arrays=open_array_dump(original.path, "dump").tensors)
    folder = os.path.dirname(os.path.abspath(original.path))
    return FloatStage(original.stage, FloatFile(original.data, original.stage.source, folder, shapes))


def feed_network(file: FloatFile, feed: Mapping[str, Array]) -> tuple[dict[str, Array], str]:
    """The network's inputs under this file's own names, and what is to be said of that."""

    def shape(name: str) -> Any:
        return feed[name].shape

    names, note = pair_ends(list(feed), file.view.inputs, (shape, file.view.shape), f"inputs of {file.name}")
    return {theirs: feed[mine] for mine, theirs in names.items()}, note


def inputs_only(stage: FloatStage) -> Graph:
    """What prepared_inputs asks of a graph, for a ladder of float files alone."""
    if stage.file is None:
        raise UsageError(
            "the ladder starts with a dump and has no quantized model: nothing says what to feed the others"
        )
    view = stage.file.view
    specs = {n: TensorSpec(n, view.dtype(n), view.shape(n)) for n in view.inputs}
    return Graph([], specs, {}, tuple(specs), ())


def network_values(graph: Graph, prepared: PreparedInputs, ran: SideResults) -> tuple[dict[str, Array], Values]:
    """Inputs of the network as float values, and the final outputs of the first side that computed them."""
    ends = graph.meta.get("stripped", {"inputs": {}, "outputs": {}})
    first = next((ran.recordings[s] for s in ("reference", "simulator", "board") if s in ran.recordings), None)
    held = {**prepared.arrays(), **(dict(first.tensors) if first is not None else {})}
    feed: dict[str, Array] = {}
    for name in dict.fromkeys([*graph.inputs, *graph.meta.get("inputs", {})]):
        if name in held and not _raw(graph, name):
            real = ends["inputs"].get(name, name)
            feed[real] = graph.spec(name).dequantized(held[name]).astype("float32") if real != name else held[name]
    finals = {ends["outputs"].get(n, n): (held[n], graph.spec(n)) for n in graph.outputs if n in held}
    return feed, finals


def output_steps(graph: Graph) -> dict[str, OutputStep]:
    """Of each final output, or of what it is dequantized from; without those that have no scale."""
    ends, makers = graph.meta.get("stripped", {"inputs": {}, "outputs": {}}), graph.producers()
    found = {}
    for name in graph.outputs:
        maker = makers.get(name)
        source = str(maker.inputs[0]) if maker is not None and maker.op == "dequantize" else name
        if (spec := graph.spec(source)).scale:
            found[ends["outputs"].get(name, name)] = OutputStep.of(spec)
    return found


def _raw(graph: Graph, name: str) -> bool:
    """A graph input that preprocessing nodes read: bytes of a picture, or its roi."""
    rows = graph.meta.get("inputs", {})
    return any(name in (row.get("tensor"), row.get("roi")) and name != real for real, row in rows.items())
