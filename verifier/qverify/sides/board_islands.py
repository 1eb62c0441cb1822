"""Host islands in a board's run: the board runs the nodes before an island, and the host computes the island from the
board's own tensors."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Mapping

from qverify_agents.errors import AgentError, LinkError

from qverify.errors import BadFileError
from qverify.model_bin.cut_graph import find_needed_nodes
from qverify.model_bin.graph import Graph
from qverify.model_bin.units import Unit
from qverify.sides.host_islands import HostIslands, dependents_of
from qverify.tensors.digest import tensor_digest
from qverify.tensors.prepared import PreparedInputs
from qverify.tensors.recording import Array, Recording

MAX_UNIT_NODES = 4096  # nodes in one UNIT message (PROTOCOL.md)
RunUnit = Callable[[Unit, Mapping[str, Array]], dict[str, Array]]


class BoardIslands:
    """The islands of one run. computed: the tensors that the islands computed from those of the board."""

    def __init__(self, graph: Graph, islands: HostIslands | None):
        self._graph, self._islands = graph, islands
        self._read: dict[str, Array] = {}  # tensors of the board that the islands read
        self.computed: dict[str, Array] = {}

    def compute(
        self, prepared: PreparedInputs, run_unit: RunUnit, capabilities: Collection[str]
    ) -> list[tuple[str, bytes]]:
        """Returns the tensors that the board reads from islands, in the order of Graph.fed, as SHA-256 and aligned
        bytes. run_unit: runs nodes on the board. Raises LinkError if the board or onnxruntime fails."""
        inputs, self._read, self.computed = prepared.arrays(), {}, {}
        for island in self._graph.islands_in_order():
            if self._islands is None or "inject" not in capabilities:
                raise LinkError("the board cannot run the part before a host island by itself")
            known = {**inputs, **self.computed}
            unread = [n for n in island.inputs if n not in known and n not in self._read]
            self._read |= self._run_before(unread, known, run_unit)
            try:
                self.computed |= self._islands.run(island, {**known, **self._read})
            except BadFileError as error:
                raise LinkError(f"the host could not compute its part from the board's tensors: {error}") from error
        board_inputs = self._graph.fed()[len(self._graph.inputs) :]
        contents = [self._graph.spec(n).aligned_bytes(self.computed[n]) for n in board_inputs]
        return [(hashlib.sha256(data).hexdigest(), data) for data in contents]

    def _run_before(self, names: list[str], known: Mapping[str, Array], run_unit: RunUnit) -> dict[str, Array]:
        """Returns the tensors `names`, which the board computes from the known ones."""
        if not names:
            return {}
        try:
            return run_unit(_part(self._graph, names, known), known)
        except AgentError:  # a board that has no memory for every tensor keeps those of the last node
            if len(names) < 2:
                raise
        return {n: run_unit(_part(self._graph, [n], known), known)[n] for n in names}

    def check(self, recording: Recording, tensors: dict[str, Array]) -> None:
        """Adds the islands' tensors to `tensors`, those of the whole run. If the run gave other bytes of a tensor than
        the island read, or none, the tensor is missing, and what was computed from it is not added."""
        doubts = dict[str, str]()
        for name, value in self._read.items():
            digest = recording.digests.get(name) or (tensor_digest(tensors[name]) if name in tensors else None)
            if digest is None:
                doubts[name] = f"{name}: the host's part reads it, and the board's whole run gave nothing of it"
            elif digest != tensor_digest(value):
                doubts[name] = (
                    f"{name}: the board computed different bytes before the host's part and in its whole run; "
                    "it is not deterministic"
                )
                tensors.pop(name, None)
                recording.digests.pop(name, None)
                recording.missing.pop(name, None)
        recording.missing = {**doubts, **recording.missing}
        doubtful = dependents_of(self._graph, doubts)
        tensors |= {n: v for n, v in self.computed.items() if n not in doubtful}


def _part(graph: Graph, names: list[str], known: Mapping[str, Array]) -> Unit:
    """Returns the nodes that compute these tensors, as one unit. Raises LinkError if there are more than
    MAX_UNIT_NODES."""
    nodes = find_needed_nodes(graph, names, known)
    if len(nodes) > MAX_UNIT_NODES:
        raise LinkError(
            f"{len(nodes)} nodes come before a host island; a board runs at most {MAX_UNIT_NODES} at a time"
        )
    read_names = dict.fromkeys(n for node in nodes for n in node.inputs if n is not None and n in known)
    return Unit(nodes[-1].name, nodes[-1].op, tuple(nodes), tuple(read_names), tuple(names), False)
