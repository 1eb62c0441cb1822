"""The board side: pushes what the board lacks, runs the model, takes digests, and pulls tensors on request."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Literal

import numpy as np
from qverify_agents.connect import connect
from qverify_agents.errors import Contradiction, LinkError
from qverify_agents.pieces import Pieces
from qverify_agents.protocol.client import Agent
from qverify_agents.protocol.messages import NodeEvent

from qverify.model_bin.graph import Graph
from qverify.plural import count
from qverify.sides.board_events import DigestMismatch, digests_of, finite_number, note_digest, quote_troubles
from qverify.sides.board_islands import BoardIslands
from qverify.sides.board_pulls import BoardPulls
from qverify.sides.board_units import BoardUnits
from qverify.sides.host_islands import HostIslands
from qverify.sides.struck_nodes import check_struck_nodes
from qverify.tensors.digest import tensor_digest
from qverify.tensors.prepared import PreparedInputs
from qverify.tensors.recording import Array, Recording
from qverify.tensors.spool import Spool

FACTS = ("arch", "system", "temperature_c", "frequency_mhz")  # fields of the HELLO message that reports include


class Board(BoardPulls, BoardUnits):
    """One board with one model. run() records a fault of the board in the Recording and does not raise it.

    Args:
        options: options of the address (store, memory ...).
        spot_seed: selects the tensor that a run pulls to check its digest; None selects a random one in each run.
        islands: the host islands of the graph.
        sha256: SHA-256 of the model, or "" to compute it here.
        agent: the board's agent if it is connected already.

    The constructor raises LinkError if no agent answers, and BadAddress if the address names a fault of a node that the
    graph does not have."""

    runtime = "qvrt"
    kernels = ""  # see Recording.kernels
    why_not_sent = "the board did not send it"

    def __init__(
        self,
        uri: str,
        model: bytes | memoryview | Pieces,
        graph: Graph,
        deadline_s: float = 120.0,
        options: Mapping[str, str] | None = None,
        spot_seed: int | None = None,
        islands: HostIslands | None = None,
        sha256: str = "",
        agent: Agent | None = None,
    ):
        check_struck_nodes(uri, graph)
        self.uri, self.graph, self._model, self._finals = uri, graph, model, frozenset(graph.outputs)
        self._spot_seed, self._islands = spot_seed, BoardIslands(graph, islands)
        self._sha256 = sha256 or (model if isinstance(model, Pieces) else Pieces([model])).sha256()
        self._connect = partial(connect, uri, deadline_s, options)
        self._agent = agent or self._connect()
        self.capabilities = self._agent.capabilities
        self._digests: dict[str, str] = {}
        self.received_digests: dict[str, str] = {}  # of the last run, even if it did not finish
        self._inputs: list[str] = []
        self._contents: dict[str, bytes | memoryview | Pieces] = {}  # model and inputs of the last run, by SHA-256
        self._spool = Spool()
        self._values_are_of_the_run = True  # False once a unit ran after the run
        self._generation = 0  # number of the connection that the last run used

    def run(
        self,
        prepared: PreparedInputs,
        progress: Callable[[int, int], None] | None = None,
        pull: Literal["differ", "all"] = "differ",
    ) -> Recording:
        """Runs the model. Returns the digests of all tensors that the board offers, and the values of the final outputs
        and of one randomly chosen tensor, checked against their digests. With pull "all", or if the board sends no
        digests, the recording contains the values of every tensor."""
        start = time.perf_counter()
        self._spool.close()  # what an earlier run pulled stays readable as long as it is used
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
        except Contradiction as error:  # nothing that the board sent can be trusted
            self._digests, recording.digests, recording.tensors = {}, {}, {}
            recording.state, recording.why = "partial", f"the board contradicts itself: {error}"
        except LinkError as error:
            recording.state = "partial" if recording.digests or recording.tensors else "did not run"
            recording.why = str(error)
        for name in self._offered(offered, recording):
            if name not in recording.tensors and name not in recording.digests:
                recording.missing.setdefault(name, recording.why or self.why_not_sent)
        if recording.missing and recording.state == "complete":
            reason = next(iter(recording.missing.values()))
            missing_count = count(len(recording.missing), "tensor", "was", "were")
            recording.state, recording.why = "partial", f"{missing_count} not received: {reason}"
        if self._agent.hello.get("lock") == "none" and self._agent.shared:
            warning = "the board has no place for a lock file, so another host can use it at the same time"
            recording.notes.append(warning)
        if self._agent.place:
            recording.notes.append(f"the board is {self._agent.place}")
        if self._agent.generation:
            times = count(self._agent.generation, "time")
            recording.notes.append(f"the connection to the board was lost and made again {times}")
        has_run = recording.state != "did not run"
        recording.notes += [*quote_troubles(self._agent.messages_between()), *(self.notes() if has_run else [])]
        recording.settings["pulled"] = pull
        recording.duration_s = time.perf_counter() - start
        recording.link = self._agent.counters  # the same object: it also counts the tensors that are pulled later
        return recording

    def _run(
        self, prepared: PreparedInputs, recording: Recording, progress: Callable[[int, int], None] | None, pull: str
    ) -> None:
        self.send(prepared)
        observable = self.graph.observable()
        done, self._digests, self.received_digests, self._values_are_of_the_run = 0, {}, {}, True

        def on_node(event: NodeEvent) -> None:
            nonlocal done
            done += 1
            if event.tensor in nodes and event.iteration == 0 and (event.elapsed_ns or self.runtime == "qvrt"):
                recording.node_seconds[event.tensor] = event.elapsed_ns / 1e9
            if digests and event.tensor in self.graph.tensors:
                note_digest(self._digests, event)
                self.received_digests[event.tensor] = event.digest
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
                events=self._in_running_order(reported),
                keep=[n for n in prepared.keep if n not in inputs],
            )
            self._generation = self._agent.generation
        finally:
            recording.digests = {n: d for n, d in self._digests.items() if n in recording.specs}
        tensors: dict[str, Array] = {n: v for n, v in prepared.arrays().items() if n in self._finals}
        recording.tensors = tensors
        finals = [n for n in finals if self._is_sent(n)]
        pulled_names = [n for n in observable if n not in self._finals and self._is_sent(n)] if per_node else []
        spot = digests and pull != "all" and bool(pulled_names)
        seed = secrets.randbelow(1 << 32) if self._spot_seed is None else self._spot_seed
        if spot:
            pulled_names = [pulled_names[int(np.random.Generator(np.random.PCG64(seed)).integers(len(pulled_names)))]]
        for name in [*finals, *pulled_names]:
            try:
                tensors |= self.pull([name])
            except DigestMismatch as error:
                recording.missing |= error.broken
        self._islands.check(recording, tensors)
        if spot and pulled_names[0] in tensors:
            recording.settings["spot_seed"] = seed
            recording.notes.append(f"spot check: {pulled_names[0]} matches its digest (seed {seed})")

    def _send_inputs(self, contents: Iterable[tuple[str, bytes]]) -> None:
        """Sends inputs, given as SHA-256 and bytes, in the order in which the model reads them."""
        ordered = list(contents)
        self._agent.put_all(dict(ordered))
        self._contents |= ordered
        self._inputs += [sha256 for sha256, _ in ordered]

    def _offered(self, names: list[str], recording: Recording) -> list[str]:
        """Returns those of `names` that the board offers, after a run."""
        return names

    def _is_sent(self, name: str) -> bool:
        """Returns whether the board of the last run has this tensor."""
        return True

    def _in_running_order(self, names: Collection[str]) -> list[str] | None:
        """Returns those of `names` that nodes compute, in running order: a run that reports them sends these events.
        None if the board itself determines them."""
        requested = set(names)
        return [o for node in self.graph.nodes for o in node.outputs if o in requested]

    def repeat_run(self, changed_from: Mapping[str, str] | None) -> tuple[dict[str, str], dict[str, Array]]:
        """Runs once more on the same inputs. Returns the digest of every tensor (computed here from the values if the
        board sends none), and this run's values of the tensors whose digest differs from `changed_from` (no values if
        it is None). Raises LinkError if the board fails, or does not send a tensor that it offers."""
        per_node, has_digests = "per_node" in self.capabilities, "digests" in self.capabilities
        inputs = frozenset(self.graph.inputs)
        computed = {n for n in self.graph.outputs if n not in inputs}
        names = self.graph.observable() if per_node else [n for n in self.graph.outputs if n in computed]
        offered, self.received_digests = frozenset(names), {}

        def on_node(event: NodeEvent) -> None:
            if has_digests and event.tensor in offered:
                note_digest(self.received_digests, event)

        events = self._agent.run(
            self._sha256,
            self._inputs,
            on_node,
            nodes="all" if per_node else names if has_digests else [],
            digests=has_digests,
            names=list(self.graph.tensors),
            events=self._in_running_order(names if per_node or has_digests else []),
        )
        self._values_are_of_the_run, self._generation = True, self._agent.generation
        digests_of_first_run = self._digests
        self._digests = digests_of(e for e in events if e.tensor in offered) if has_digests else {}
        try:
            values = {} if has_digests else self._fetch(names)
            digests = self._digests or {n: tensor_digest(v) for n, v in values.items()}
            if lacking := [n for n in names if n not in digests]:
                share = f"{len(lacking)} of {count(len(names), 'tensor')}"
                raise LinkError(f"{lacking[0]} was not received when the board ran again ({share})")
            changed = [] if changed_from is None else [n for n, d in digests.items() if d != changed_from.get(n)]
            return digests, {n: values[n] if n in values else self._fetch([n])[n] for n in changed}
        finally:
            self._digests = digests_of_first_run

    @property
    def facts(self) -> dict[str, object]:
        """The facts that the board reports: arch, system, temperature_c, frequency_mhz."""
        return {k: self._agent.hello.get(k) for k in FACTS}

    def notes(self) -> list[str]:
        """Returns notes of the runtime on the last run, one per line."""
        floats = self._agent.hello.get("float", "exact")
        return [] if floats == "exact" else [f"the board's floats are not those of NUMERICS.md: {floats}"]

    def send(self, prepared: PreparedInputs) -> None:
        """Sends the model, the inputs and the results of host islands, unless the board has them already."""
        self._agent.put(self._sha256, self._model)
        self._contents, self._inputs = {self._sha256: self._model}, []
        self._send_inputs((i.sha256, i.data) for i in prepared.inputs)
        self._send_inputs(self._islands.compute(prepared, self.run_unit, self.capabilities))

    def time_nodes(self, runs: int) -> list[dict[str, float]]:
        """Runs the model `runs` times on the inputs that were sent, without digests. Returns, for each run, the seconds
        that each node took, by node name, as measured by the board. Runtimes other than qvrt may leave nodes out.
        Raises LinkError if the board fails."""
        names = [n.name for n in self.graph.nodes]
        events = self._agent.run(
            self._sha256, self._inputs, nodes=names, digests=False, repeat=runs, names=list(self.graph.tensors)
        )
        self._values_are_of_the_run = False
        times: list[dict[str, float]] = [{} for _ in range(runs)]
        timed_names = frozenset(names)
        for event in events:
            if event.tensor in timed_names:
                times[event.iteration][event.tensor] = event.elapsed_ns / 1e9
        if untimed := next((n for n in names for run in times if n not in run), None):
            raise LinkError(f"{untimed}: the board sent no time of this node")
        return times

    def condition(self) -> dict[str, float | None]:
        """Returns the current temperature_c and frequency_mhz, or None for each that the board does not report."""
        facts = self._agent.refresh_hello()
        return {k: finite_number(facts.get(k)) for k in ("temperature_c", "frequency_mhz")}

    @contextmanager
    def bounded_until(self, until: float) -> Iterator[None]:
        """Limits every request in the context to this time of time.monotonic(). A board that does not answer by then
        can be used again afterwards."""
        with self._agent.bounded(until - time.monotonic(), "--explain SECONDS"):
            yield

    @property
    def slow_link(self) -> bool:
        """True if the link is so slow that transfers are compressed."""
        return bool(self._agent.packs)

    def close(self) -> None:
        """Closes the connection; pulled tensors remain readable."""
        self._spool.close()
        self._agent.close()
