"""Pulls tensors of a board's last run, and runs again where the board has no memory for all of them."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

import numpy as np
from qverify_agents.errors import AgentError
from qverify_agents.protocol.messages import HASH_BYTES, NOT_FOUND

from qverify.model_bin.graph import Graph
from qverify.sides.board_events import DigestMismatch
from qverify.tensors.digest import tensor_digest
from qverify.tensors.recording import Array
from qverify.tensors.spool import Spool

if TYPE_CHECKING:
    from qverify_agents.protocol.client import Agent

RUN_BYTES = 43  # of RUN without inputs and names


class BoardPulls:
    """The part of Board that pulls tensors."""

    graph: Graph
    capabilities: frozenset[str]
    _agent: Agent
    _sha256: str
    _inputs: list[str]
    _finals: frozenset[str]
    _digests: dict[str, str]
    _values_are_of_the_run: bool
    _generation: int
    _spool: Spool

    def _in_running_order(self, names: Collection[str]) -> list[str] | None:
        raise NotImplementedError

    def pull(self, names: list[str]) -> dict[str, Array]:
        """Returns tensors of the last run, each checked against the digest that the board reported. A board that has no
        memory for every tensor, or that ran a unit since, runs once more. Raises DigestMismatch if a tensor differs,
        LinkError if the board fails."""
        kept = self._values_are_of_the_run and (self._agent.kept or self._finals.issuperset(names))
        try:
            if kept and self._generation == self._agent.generation:
                return self._fetch(names)
        except AgentError:
            if self._generation == self._agent.generation:
                raise
        # The tensors of the run are lost: no memory for them, a unit ran since, or the connection was lost.
        tensors: dict[str, Array] = {}
        broken: dict[str, str] = {}
        left = names
        while left:
            left = self._pull_some(left, tensors, broken)
        if broken:
            raise DigestMismatch(tensors, broken)
        return tensors

    def _pull_some(self, names: list[str], tensors: dict[str, Array], broken: dict[str, str]) -> list[str]:
        """Runs again for as many of these tensors as one request has room for, and adds those for which the board had
        memory, by name, or the reason why one is wrong. Returns the others. Raises AgentError if it had memory for
        none."""
        batch = self._fitting(names)
        broken |= self._run_to_fetch(batch)
        refused: AgentError | None = None
        for name in batch:
            try:
                if name not in broken:
                    tensors |= self._fetch([name])
            except DigestMismatch as error:
                broken |= error.broken
            except AgentError as error:
                if error.status != NOT_FOUND:
                    raise
                refused = error
        left = [n for n in names if n not in tensors and n not in broken]
        if refused is not None and len(left) == len(names):
            raise refused
        return left

    def _fitting(self, names: list[str]) -> list[str]:
        """Returns the first names that fit into one request to this agent."""
        room = self._agent.max_payload - RUN_BYTES - HASH_BYTES * len(self._inputs)
        for at, name in enumerate(names):
            room -= 2 + len(name.encode())
            if room < 0 and at:
                return names[:at]
        return names

    def _run_to_fetch(self, names: list[str]) -> dict[str, str]:
        """Runs again so that these tensors can be fetched. Returns the names of those whose digest differs from that of
        the first run, with the reason."""
        has_digests = "digests" in self.capabilities
        events = self._agent.run(
            self._sha256,
            self._inputs,
            nodes=names,
            digests=has_digests,
            names=list(self.graph.tensors),
            events=self._in_running_order(names),
        )
        self._values_are_of_the_run, self._generation = True, self._agent.generation
        requested = frozenset(names)
        return {
            event.tensor: f"{event.tensor}: the board computed different bytes when it ran again on the same inputs; "
            "it is not deterministic"
            for event in (events if has_digests else [])
            if event.tensor in requested and event.digest != self._digests.get(event.tensor, event.digest)
        }

    def _fetch(self, names: list[str]) -> dict[str, Array]:
        """Fetches tensors from the board. Raises DigestMismatch, once all are fetched, if any does not match its
        digest."""
        pulled: dict[str, Array] = {}
        broken: dict[str, str] = {}
        for name in names:
            spec = self.graph.spec(name)
            value = np.frombuffer(self._agent.get(name, spec.valid_bytes), spec.numpy_dtype).reshape(spec.shape)
            if "digests" in self.capabilities and tensor_digest(value) != self._digests.get(name):
                broken[name] = (
                    f"{name}: the pulled bytes do not match the digest that the board reported; "
                    "its memory or its link is not stable"
                )
            else:
                pulled[name] = self._spool.keep(value)
        if broken:
            raise DigestMismatch(pulled, broken)
        return pulled
