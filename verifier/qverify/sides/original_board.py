"""A board that runs the unchanged quantized ONNX with onnxruntime and its own optimizations, as the program of a
product or vendor does."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping

import numpy as np

from qverify.errors import UsageError
from qverify.model_bin.graph import Graph
from qverify.onnx_model.load import parse
from qverify.sides.board import Board
from qverify.sides.runtime_board import describe_placement, parse_run_facts, placement_of
from qverify.tensors.prepared import PreparedInputs

OFFERED = frozenset({"finals", "digests"})  # more outputs would change which nodes onnxruntime fuses


class OriginalBoard(Board):
    """A Board that opens the ONNX of -m. It offers the final outputs only. Raises UsageError if the ONNX and the graph
    have different inputs or outputs."""

    runtime = "onnxruntime"

    def __init__(
        self,
        uri: str,
        model: bytes,
        graph: Graph,
        deadline_s: float = 120.0,
        options: Mapping[str, str] | None = None,
        spot_seed: int | None = None,
    ):
        parsed = parse(model, "the quantized ONNX").graph
        constants = {t.name for t in parsed.initializer}
        self._fed = [i.name for i in parsed.input if i.name not in constants]
        self._output_names = [o.name for o in parsed.output]
        for ours, theirs in ((set(graph.inputs), set(self._fed)), (set(graph.outputs), set(self._output_names))):
            if in_one_only := sorted(ours ^ theirs):
                raise UsageError(
                    f"form=original: {in_one_only[0]} is not in both the ONNX and model.bin; leave form= out"
                )
        super().__init__(uri, model, graph, deadline_s, options, spot_seed)
        self.capabilities &= OFFERED

    def send(self, prepared: PreparedInputs) -> None:
        """Sends the model and the inputs as dense arrays, unless the board has them already."""
        self._agent.put(self._sha256, self._model)
        self._contents, self._inputs = {self._sha256: self._model}, []
        values = prepared.arrays()
        contents = [np.ascontiguousarray(values[n]).tobytes() for n in self._fed]
        self._send_inputs((hashlib.sha256(data).hexdigest(), data) for data in contents)

    def _in_running_order(self, names: Collection[str]) -> list[str]:
        requested = set(names)
        return [n for n in self._output_names if n in requested]

    def notes(self) -> list[str]:
        """Returns lines on what ran and where."""
        ran = "onnxruntime ran the quantized ONNX as it is, with its own optimizations; its final outputs are judged"
        counts = placement_of(parse_run_facts(self._agent.done_text))
        return [ran, f"onnxruntime: {describe_placement(counts)} (after its optimizations)"] if counts else [ran]
