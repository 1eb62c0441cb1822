"""Runs single units of a model on a board."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

import numpy as np
from qverify_agents.errors import LinkClosed, LinkTimeout

from qverify.model_bin.graph import Graph
from qverify.model_bin.units import Unit
from qverify.sides.board_events import digests_of
from qverify.tensors.recording import Array

if TYPE_CHECKING:
    from qverify_agents.pieces import Pieces
from qverify_agents.protocol.client import Agent


class BoardUnits:
    """The part of Board that runs single units."""

    graph: Graph
    _model: bytes | memoryview | Pieces
    _sha256: str
    _agent: Agent
    _connect: Callable[[], Agent]
    _contents: dict[str, bytes | memoryview | Pieces]
    _digests: dict[str, str]
    _values_are_of_the_run: bool

    def _fetch(self, names: list[str]) -> dict[str, Array]:
        raise NotImplementedError

    def run_unit(self, unit: Unit, inputs: Mapping[str, Array]) -> dict[str, Array]:
        """Runs one unit on the board on the given tensors. Returns its outputs by name."""
        return self.fetch_unit(unit, self.start_unit(unit, inputs))

    def start_unit(self, unit: Unit, inputs: Mapping[str, Array]) -> dict[str, str]:
        """Runs one unit on the board on the given tensors. Returns digests by name, or {} if the board sends none."""
        hashes = {}
        for name in unit.inputs:
            data = np.ascontiguousarray(inputs[name]).tobytes()
            hashes[name] = hashlib.sha256(data).hexdigest()
            self._agent.put(hashes[name], data)
        self._values_are_of_the_run = False
        names = [n.name for n in unit.nodes]
        return digests_of(
            self._agent.run_unit(self._sha256, names, hashes, list(self.graph.tensors), self._visible(unit))
        )

    def run_other(self, model: bytes, graph: Graph, unit: Unit, inputs: Mapping[str, Array]) -> dict[str, Array]:
        """Runs a unit of another model, which is sent to the board in addition to its own. Returns the unit's outputs
        by name. Raises AgentError if the agent refuses the model, LinkClosed if the agent ended and LinkTimeout if it
        hung; the board is then connected again, so that its own model can be run."""
        own_model = self.graph, self._model, self._sha256
        self.graph, self._model, self._sha256 = graph, model, hashlib.sha256(model).hexdigest()
        try:
            self._agent.put(self._sha256, model)
            return self.run_unit(unit, inputs)
        except (LinkClosed, LinkTimeout):
            self._connect_again()
            raise
        finally:
            self.graph, self._model, self._sha256 = own_model

    def _connect_again(self) -> None:
        """Replaces a connection that was lost. Raises LinkError if that fails."""
        lost, self._values_are_of_the_run = self._agent, False
        lost.close()
        self._agent = self._connect()
        for sha256, data in self._contents.items():
            self._agent.put(sha256, data)
        for name, number in self._agent.counters.items():
            lost.counters[name] += number
        self._agent.counters = lost.counters  # the recording refers to this object

    def fetch_unit(self, unit: Unit, digests: dict[str, str]) -> dict[str, Array]:
        """Returns the outputs of the unit that start_unit() ran last, checked against the digests that it returned."""
        free_running, self._digests = self._digests, digests
        try:
            return self._fetch([o for o in unit.outputs if o in self._visible(unit)])
        finally:
            self._digests = free_running

    def _visible(self, unit: Unit) -> list[str]:
        return [o for node in unit.nodes for o in node.outputs if not self.graph.spec(o).interior]
