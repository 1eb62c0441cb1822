"""A board whose firmware runs a model of its own and reports its tensors (board_runtime/hook)."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import numpy as np
from qverify_agents.errors import AgentError, LinkError
from qverify_agents.pieces import Pieces
from qverify_agents.protocol.client import Agent
from qverify_agents.protocol.messages import own_content

from qverify.errors import UsageError
from qverify.model_bin.graph import Graph
from qverify.model_bin.units import Unit
from qverify.printable import printable
from qverify.sides.board import Board
from qverify.tensors.digest import tensor_digest
from qverify.tensors.prepared import PreparedInputs
from qverify.tensors.recording import Array, Recording

UNSUPPORTED = -4  # status code of the protocol


class OwnModelBoard(Board):
    """A Board that is sent inputs only. It offers the tensors that its firmware names. Raises UsageError for a firmware
    that has other inputs than the graph."""

    runtime = "firmware"
    why_not_sent = "the firmware does not name it"

    def __init__(
        self,
        uri: str,
        model: bytes | memoryview | Pieces,
        graph: Graph,
        deadline_s: float,
        options: Mapping[str, str] | None,
        spot_seed: int | None,
        sha256: str,
        agent: Agent,
    ):
        hello = agent.hello
        self._order: list[str] = hello.get("inputs", [])
        if graph.islands:
            raise UsageError(
                f"-b {uri}: a firmware with a model of its own runs none of which the host computes a part"
            )
        if hello.get("endian") != "little":
            raise UsageError(f"-b {uri}: the firmware's tensors are big-endian; wanted little-endian")
        if sorted(self._order) != sorted(graph.inputs):
            raise UsageError(
                f"-b {uri}: the firmware's inputs are {_listed(self._order)}; wanted {_listed(graph.inputs)}, those of -m. "
                "Next: name them so in qv_hook_input"
            )
        super().__init__(uri, model, graph, deadline_s, options, spot_seed, None, sha256, agent)
        self.own_model = printable(str(hello.get("own_model", "")))

    def send(self, prepared: PreparedInputs) -> None:
        """Sends the dense bytes of the inputs, unless the firmware has them already."""
        values = prepared.arrays()
        self._contents, self._inputs = {}, []
        given = (np.ascontiguousarray(values[name]) for name in self._order)
        self._send_inputs((own_content(at, tensor_digest(v)), v.tobytes()) for at, v in enumerate(given))

    def _offered(self, names: list[str], recording: Recording) -> list[str]:
        """Narrows the recording to the tensors that the firmware named, and the final outputs."""
        if recording.state != "complete":
            return names
        given = [n for n in names if n in recording.digests or n in self._finals]
        recording.specs = {n: recording.specs[n] for n in given}
        return given

    def _is_sent(self, name: str) -> bool:
        return name in self._digests

    def _in_running_order(self, names: Collection[str]) -> None:
        return None

    def time_nodes(self, runs: int) -> list[dict[str, float]]:
        """Runs the model `runs` times. Returns, for each run, the seconds between the tensors that the firmware named, by
        name of the node that computes them. Raises LinkError if it names none."""
        events = self._agent.run(self._sha256, self._inputs, digests=False, repeat=runs, names=list(self.graph.tensors))
        nodes = {o: node.name for node in self.graph.nodes for o in node.outputs}
        times: list[dict[str, float]] = [{} for _ in range(runs)]
        for event in events:
            if event.tensor in nodes:
                times[event.iteration][nodes[event.tensor]] = event.elapsed_ns / 1e9
        if not all(times):
            raise LinkError(f"{self.uri}: the firmware named no tensor of this model")
        return times

    def start_unit(self, unit: Unit, inputs: Mapping[str, Array]) -> dict[str, str]:
        """Raises AgentError, since the firmware runs its model whole."""
        raise AgentError(UNSUPPORTED, "this firmware runs its own model whole")

    def run_other(self, model: bytes, graph: Graph, unit: Unit, inputs: Mapping[str, Array]) -> dict[str, Array]:
        """Raises AgentError, since the firmware takes no model.bin."""
        raise AgentError(UNSUPPORTED, "this firmware runs its own model and takes no model.bin")

    def notes(self) -> list[str]:
        """Returns a line on what ran."""
        return [f"the firmware ran its own model ({self.own_model}); it was sent inputs only"]


def _listed(names: Collection[str]) -> str:
    return ", ".join(printable(n) for n in names) or "none"
