"""A board that runs the quantized ONNX by onnxruntime as it is, with that library's own optimizations: what a vendor's or a
product's program does."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping

import numpy as np

from qverify.errors import UsageError
from qverify.model_bin.graph import Graph
from qverify.onnx_model.load import parse
from qverify.sides.board import Board
from qverify.sides.runtime_board import placement_of, said_of
from qverify.tensors.prepared import PreparedInputs

OFFERED = frozenset({"finals", "digests"})  # showing more tensors would change which nodes it joins


class OriginalBoard(Board):
    """A Board that opens the ONNX of -m. Only final outputs are offered. UsageError where inputs or outputs of the ONNX are
    not those of the graph."""

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
        self._made = [o.name for o in parsed.output]
        for ours, theirs in ((set(graph.inputs), set(self._fed)), (set(graph.outputs), set(self._made))):
            if apart := sorted(ours ^ theirs):
                raise UsageError(f"form=original: {apart[0]} is not in both the ONNX and model.bin; leave form= out")
        super().__init__(uri, model, graph, deadline_s, options, spot_seed)
        self.capabilities &= OFFERED

    def send(self, prepared: PreparedInputs) -> None:
        """Sends what the board lacks of the model and of the inputs, as dense arrays."""
        self._agent.put(self._sha256, self._model)
        self._contents, self._inputs = {self._sha256: self._model}, []
        values = prepared.arrays()
        contents = [np.ascontiguousarray(values[n]).tobytes() for n in self._fed]
        self._feed((hashlib.sha256(data).hexdigest(), data) for data in contents)

    def _computed(self, names: Collection[str]) -> list[str]:
        wanted = set(names)
        return [n for n in self._made if n in wanted]

    def notes(self) -> list[str]:
        """Returns what ran and where."""
        ran = "onnxruntime ran the quantized ONNX as it is, with its own optimizations; its final outputs are judged"
        placed = placement_of(said_of(self._agent.done_text))
        total = sum(placed.values())
        shares = (f"{number} of {total} nodes ran on {name}" for name, number in placed.most_common())
        return [ran, f"onnxruntime: {'; '.join(shares)} (after its optimizations)"] if placed else [ran]
