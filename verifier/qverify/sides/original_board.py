"""A board that runs the unchanged quantized ONNX with onnxruntime and its own optimizations, as the program of a
product or vendor does."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Mapping

import numpy as np

from qverify.errors import UsageError
from qverify.model_bin.graph import Graph
from qverify.onnx_model.find_optimizer import SessionSettings, are_close
from qverify.onnx_model.load import parse
from qverify.sides.board import Board
from qverify.sides.runtime_board import describe_placement, parse_run_facts, placement_of
from qverify.sides.untapped_model import UntappedModel
from qverify.tensors.prepared import PreparedInputs
from qverify.tensors.recording import Array

WITHOUT = "with level=disable_all"
OFFERED = frozenset({"finals", "digests"})  # more outputs would change which nodes onnxruntime fuses


class OriginalBoard(Board):
    """A Board that opens the ONNX of -m. It offers the final outputs only. untapped: returns the same model as one that
    can run under other settings. Raises UsageError if the ONNX and the graph have different inputs or outputs."""

    runtime = "onnxruntime"

    def __init__(
        self,
        uri: str,
        model: bytes,
        graph: Graph,
        deadline_s: float = 120.0,
        options: Mapping[str, str] | None = None,
        spot_seed: int | None = None,
        untapped: Callable[[], UntappedModel] | None = None,
    ):
        self._untapped, self._searched = untapped, False
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

    def find_optimization(
        self, prepared: PreparedInputs, changed: Mapping[str, Array], wanted: Mapping[str, Array]
    ) -> tuple[str, bool]:
        """Returns in words which optimization makes the board give `changed` in place of `wanted`, final outputs by
        name, and True; or that none does, and False. The words are "" if the outputs are close, or if nothing is found.
        Searches once. Raises LinkError if the board fails."""
        if self._untapped is None or self._searched or are_close(changed, wanted):
            return "", False
        self._searched, facts, self._values_are_of_the_run = True, self._agent.done_text, False
        model = self._untapped()
        plain = model.run(self._agent, prepared, self.capabilities, SessionSettings("disable_all"))
        found = model.find_optimizer(self._agent, prepared, self.capabilities, changed, wanted)
        self._agent.done_text = facts  # of the run that is judged
        engine = str(self._agent.hello.get("version", self.runtime))
        if plain.why or not found.level:
            return "", False
        if found.level == "disable_all":
            return f"{WITHOUT} the board's outputs differ, too: no optimization of its {engine} does it", False
        agrees = "agrees" if are_close({n: plain.tensors[n] for n in wanted}, wanted) else "comes close"
        names = f": {', '.join(found.names)}" if found.names else ""
        by = f"an optimization (level {found.level}) of its {engine} changes the result{names}"
        return f"{WITHOUT} the board {agrees}: {by}", True

    def notes(self) -> list[str]:
        """Returns lines on what ran and where."""
        ran = "onnxruntime ran the quantized ONNX as it is, with its own optimizations; its final outputs are judged"
        counts = placement_of(parse_run_facts(self._agent.done_text))
        return [ran, f"onnxruntime: {describe_placement(counts)} (after its optimizations)"] if counts else [ran]
