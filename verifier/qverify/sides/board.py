"""The board side: pushes what the board lacks, runs the model, takes digests, and pulls tensors on request."""

from __future__ import annotations

import hashlib
import secrets
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Literal

import numpy as np
from qverify_agents.connect import connect
from qverify_agents.errors import AgentError, Contradiction, LinkError
from qverify_agents.protocol.messages import NodeEvent

from qverify.model_bin.graph import Graph
from qverify.plural import count
from qverify.sides.board_events import DigestMismatch, digests_of, note_digest, number_of, quote_troubles
from qverify.sides.board_islands import BoardIslands
from qverify.sides.board_units import BoardUnits
from qverify.sides.host_islands import HostIslands
from qverify.sides.struck_nodes import check_struck_nodes
from qverify.tensors.digest import tensor_digest
from qverify.tensors.prepared import PreparedInputs
from qverify.tensors.recording import Array, Recording
from qverify.tensors.spool import Spool

FACTS = ("arch", "system", "temperature_c", "frequency_mhz")  # of HELLO


class Board(BoardUnits):
    """One board with one model. run() reports a fault of the board in the Recording and does not raise it. options: of
    the address (store, memory ...). spot_seed: chooses the tensor that a run pulls to check its digest; None: a random
    one in each run. islands: of the graph. sha256: of the model, where it is known. The constructor raises LinkError where
    no agent answers, or the address names a fault of a node that the graph lacks."""

    runtime = "qvrt"
    kernels = ""  # as in Recording

    def __init__(
        self,
        uri: str,
        model: bytes,
        graph: Graph,
        deadline_s: float = 120.0,
        options: Mapping[str, str] | None = None,
        spot_seed: int | None = None,
        islands: HostIslands | None = None,
        sha256: str = "",
    ):
        check_struck_nodes(uri, graph)
        self.uri, self.graph, self._model, self._finals = uri, graph, model, frozenset(graph.outputs)
        self._spot_seed, self._islands = spot_seed, BoardIslands(graph, islands)
        self._sha256 = sha256 or hashlib.sha256(model).hexdigest()
        self._connect = partial(connect, uri, deadline_s, options)
        self._agent = self._connect()
        self.capabilities = self._agent.capabilities
        self._digests: dict[str, str] = {}
        self.came: dict[str, str] = {}  # digests of the last run, also where it did not finish
        self._inputs: list[str] = []
        self._contents: dict[str, bytes] = {}  # of the last run: the model and the inputs
        self._spool = Spool()
        self._values_are_of_the_run = True  # no unit ran since the run
        self._generation = 0  # of the connection the last run was on

    def run(
        self,
        prepared: PreparedInputs,
        progress: Callable[[int, int], None] | None = None,
        pull: Literal["differ", "all"] = "differ",
    ) -> Recording:
        """Runs the model. Returns digests of every tensor that the board offers, and the values of the final outputs
        and of one randomly chosen tensor, checked against their digests. pull "all", or a board without digests: the
        values of every tensor."""
        start = time.perf_counter()
        per_node = "per_node" in self.capabilities
        offered = self.graph.observable() if per_node else list(self.graph.outputs)
        recording = Recording(
            "board",
            self.runtime,
            str(self._agent.hello.get("version", "")),
            {"uri": self.uri, **self.facts},
            host=self.uri,
            runtime=self.runtime,
            kernels=self.kernels,
            specs={n: self.graph.spec(n) for n in offered},
            finals=self.graph.outputs,
            capabilities=self.capabilities,
            model_sha256=self._sha256,
            inputs_sha256=prepared.sha256,
        )
        try:
            self._run(prepared, recording, progress, pull)
        except Contradiction as error:  # then nothing that it sent can be trusted
            self._digests, recording.digests, recording.tensors = {}, {}, {}
            recording.state, recording.why = "partial", f"the board contradicts itself: {error}"
        except LinkError as error:
            recording.state = "partial" if recording.digests or recording.tensors else "did not run"
            recording.why = str(error)
        for name in offered:
            if name not in recording.tensors and name not in recording.digests:
                recording.missing.setdefault(name, recording.why or "the board did not send it")
        if recording.missing and recording.state == "complete":
            first = next(iter(recording.missing.values()))
            lost = count(len(recording.missing), "tensor", "was", "were")
            recording.state, recording.why = "partial", f"{lost} not received: {first}"
        if self._agent.hello.get("lock") == "none" and self._agent.shared:
            lock = "the board has no place for a lock file, so another host can use it at the same time"
            recording.notes.append(lock)
        if self._agent.place:
            recording.notes.append(f"the board is {self._agent.place}")
        if self._agent.generation:
            times = count(self._agent.generation, "time")
            recording.notes.append(f"the connection to the board was lost and made again {times}")
        ran = recording.state != "did not run"
        recording.notes += [*quote_troubles(self._agent.messages_between()), *(self.notes() if ran else [])]
        recording.settings["pulled"] = pull
        recording.duration_s = time.perf_counter() - start
        recording.link = self._agent.counters  # goes on counting while tensors are pulled
        return recording

    def _run(
        self, prepared: PreparedInputs, recording: Recording, progress: Callable[[int, int], None] | None, pull: str
    ) -> None:
        self.send(prepared)
        observable = self.graph.observable()
        done, self._digests, self.came, self._values_are_of_the_run = 0, {}, {}, True

        def on_node(event: NodeEvent) -> None:
            nonlocal done
            done += 1
            if event.tensor in nodes and event.iteration == 0 and (event.elapsed_ns or self.runtime == "qvrt"):
                recording.node_seconds[event.tensor] = event.elapsed_ns / 1e9
            if digests and event.tensor in self.graph.tensors:
                note_digest(self._digests, event)
                self.came[event.tensor] = event.digest
            if progress is not None:
                progress(min(done, len(observable)), len(observable))

        per_node, digests = "per_node" in self.capabilities, "digests" in self.capabilities
        nodes = frozenset(n.name for n in self.graph.nodes) if per_node else frozenset()
        inputs = frozenset(self.graph.inputs)
        finals = [n for n in self.graph.outputs if n not in inputs]
        reported = observable if per_node else finals if digests else []
        try:
            self._agent.run(
                self._sha256,
                self._inputs,
                on_node,
                nodes="all" if per_node else reported,
                digests=digests,
                names=list(self.graph.tensors),
                events=self._computed(reported),
            )
            self._generation = self._agent.generation
        finally:
            recording.digests = {n: d for n, d in self._digests.items() if n in recording.specs}
        tensors: dict[str, Array] = {n: v for n, v in prepared.arrays().items() if n in self._finals}
        recording.tensors = tensors
        others = [n for n in observable if n not in self._finals] if per_node else []
        spot = digests and pull != "all" and bool(others)
        seed = secrets.randbelow(1 << 32) if self._spot_seed is None else self._spot_seed
        if spot:
            others = [others[int(np.random.Generator(np.random.PCG64(seed)).integers(len(others)))]]
        for name in [*finals, *others]:
            try:
                tensors |= self.pull([name])
            except DigestMismatch as error:
                recording.missing |= error.broken
        self._islands.check(recording, tensors)
        if spot and others[0] in tensors:
            recording.settings["spot_seed"] = seed
            recording.notes.append(f"spot check: {others[0]} matches its digest (seed {seed})")

    def _feed(self, contents: Iterable[tuple[str, bytes]]) -> None:
        for sha256, data in contents:
            self._agent.put(sha256, data)
            self._contents[sha256] = data
            self._inputs.append(sha256)

    def _computed(self, names: Collection[str]) -> list[str]:
        """Returns those of `names` that nodes compute, in running order: the events of a run that reports them."""
        wanted = set(names)
        return [o for node in self.graph.nodes for o in node.outputs if o in wanted]

    def again(self, changed_from: Mapping[str, str] | None) -> tuple[dict[str, str], dict[str, Array]]:
        """Runs once more on the same inputs. Returns the digest of every tensor (computed here from the values if the
        board sends none), and this run's values of those whose digest differs from `changed_from` (None: no values).
        Raises LinkError where the board fails, or does not send a tensor that it offers."""
        per_node, has_digests = "per_node" in self.capabilities, "digests" in self.capabilities
        inputs = frozenset(self.graph.inputs)
        computed = {n for n in self.graph.outputs if n not in inputs}
        names = self.graph.observable() if per_node else [n for n in self.graph.outputs if n in computed]
        wanted, self.came = frozenset(names), {}

        def on_node(event: NodeEvent) -> None:
            if has_digests and event.tensor in wanted:
                note_digest(self.came, event)

        events = self._agent.run(
            self._sha256,
            self._inputs,
            on_node,
            nodes="all" if per_node else names if has_digests else [],
            digests=has_digests,
            names=list(self.graph.tensors),
            events=self._computed(names if per_node or has_digests else []),
        )
        self._values_are_of_the_run, self._generation = True, self._agent.generation
        first = self._digests
        self._digests = digests_of(e for e in events if e.tensor in wanted) if has_digests else {}
        try:
            values = {} if has_digests else self._fetch(names)
            digests = self._digests or {n: tensor_digest(v) for n, v in values.items()}
            if lacking := [n for n in names if n not in digests]:
                share = f"{len(lacking)} of {count(len(names), 'tensor')}"
                raise LinkError(f"{lacking[0]} was not received when the board ran again ({share})")
            changed = [] if changed_from is None else [n for n, d in digests.items() if d != changed_from.get(n)]
            return digests, {n: values[n] if n in values else self._fetch([n])[n] for n in changed}
        finally:
            self._digests = first

    @property
    def facts(self) -> dict[str, object]:
        """Returns what the board said of itself: arch, system, temperature_c, frequency_mhz."""
        return {k: self._agent.hello.get(k) for k in FACTS}

    def notes(self) -> list[str]:
        """Returns what the runtime said of the last run, in lines."""
        return []

    def send(self, prepared: PreparedInputs) -> None:
        """Sends what the board lacks of the model, the inputs, and what the host computes."""
        self._agent.put(self._sha256, self._model)
        self._contents, self._inputs = {self._sha256: self._model}, []
        self._feed((i.sha256, i.data) for i in prepared.inputs)
        self._feed(self._islands.compute(prepared, self.run_unit, self.capabilities))

    def time_nodes(self, runs: int) -> list[dict[str, float]]:
        """Runs the model `runs` times on what was sent. Returns, for each run, the seconds that each node took, by the
        node's name, as the board measured them; digests are left out. Another runtime may tell none of some nodes. Raises
        LinkError where the board fails."""
        names = [n.name for n in self.graph.nodes]
        events = self._agent.run(
            self._sha256, self._inputs, nodes=names, digests=False, repeat=runs, names=list(self.graph.tensors)
        )
        self._values_are_of_the_run = False
        times: list[dict[str, float]] = [{} for _ in range(runs)]
        wanted = frozenset(names)
        for event in events:
            if event.tensor in wanted:
                times[event.iteration][event.tensor] = event.elapsed_ns / 1e9
        if short := next((n for n in names for run in times if n not in run), None):
            raise LinkError(f"{short}: the board sent no time of this node")
        return times

    def condition(self) -> dict[str, float | None]:
        """Returns the current temperature_c and frequency_mhz; None where the board does not report them."""
        facts = self._agent.refresh_hello()
        return {k: number_of(facts.get(k)) for k in ("temperature_c", "frequency_mhz")}

    def pull(self, names: list[str]) -> dict[str, Array]:
        """Returns tensors of the last run, each checked against the digest that the board reported. Raises
        DigestMismatch where one differs, LinkError where the board fails. A board without memory for every tensor, or
        that ran a unit since, runs once more."""
        kept = self._values_are_of_the_run and (self._agent.kept or self._finals.issuperset(names))
        try:
            if kept and self._generation == self._agent.generation:
                return self._fetch(names)
        except AgentError:
            if self._generation == self._agent.generation:
                raise
        broken = self._run_again(
            names
        )  # what the run left is gone: no memory for it, a unit ran since, or the connection was lost
        try:
            tensors = self._fetch([n for n in names if n not in broken])
        except DigestMismatch as error:
            tensors, broken = error.came, broken | error.broken
        if broken:
            raise DigestMismatch(tensors, broken)
        return tensors

    def _run_again(self, names: list[str]) -> dict[str, str]:
        """Runs again so that these tensors can be fetched. Returns those whose digest is not the first run's, with the
        reason."""
        has_digests = "digests" in self.capabilities
        events = self._agent.run(
            self._sha256,
            self._inputs,
            nodes=names,
            digests=has_digests,
            names=list(self.graph.tensors),
            events=self._computed(names),
        )
        self._values_are_of_the_run, self._generation = True, self._agent.generation
        wanted = frozenset(names)
        return {
            event.tensor: f"{event.tensor}: the board computed different bytes when it ran again on the same inputs; it is not deterministic"
            for event in (events if has_digests else [])
            if event.tensor in wanted and event.digest != self._digests.get(event.tensor, event.digest)
        }

    def _fetch(self, names: list[str]) -> dict[str, Array]:
        """Fetches tensors from the board. Raises DigestMismatch, after the last one, where some do not match their
        digests."""
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

    @contextmanager
    def ending(self, until: float) -> Iterator[None]:
        """Bounds every request within by this time on time.monotonic()'s clock. A board that is silent until then can be
        asked again afterwards."""
        with self._agent.bounded(until - time.monotonic(), "--explain SECONDS"):
            yield

    @property
    def slow_link(self) -> bool:
        """Whether the link is so slow that transfers are packed."""
        return bool(self._agent.packs)

    def close(self) -> None:
        """Closes the connection; pulled tensors stay readable."""
        self._spool.close()
        self._agent.close()
