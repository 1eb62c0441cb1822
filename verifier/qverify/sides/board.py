"""The board side: push what is not there, run, take digests, pull what is asked for."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from qverify_agents.connect import connect
from qverify_agents.errors import LinkError

from qverify.model_bin.graph import Graph
from qverify.model_bin.units import Unit
from qverify.tensors.digest import tensor_digest
from qverify.tensors.prepared import PreparedInputs
from qverify.tensors.recording import Array, Recording

SPOT_SEED = 0


class Board:
    """One board with one model. A fault of the board gives a Recording that says so, never an exception from run()."""

    def __init__(self, uri: str, model: bytes, graph: Graph, deadline_s: float = 120.0):
        self.uri, self.graph, self._model = uri, graph, model
        self._sha256 = hashlib.sha256(model).hexdigest()
        self._agent = connect(uri, deadline_s)
        self.capabilities = self._agent.capabilities
        self._digests: dict[str, str] = {}

    def run(self, prepared: PreparedInputs, progress: Callable[[int, int], None] | None = None) -> Recording:
        """Digests of every tensor the board offers; final outputs and one seeded tensor whole, checked against theirs."""
        start = time.perf_counter()
        per_node = "per_node" in self.capabilities
        offered = self.graph.observable() if per_node else list(self.graph.outputs)
        recording = Recording(
            "board",
            "qvrt",
            str(self._agent.hello.get("version", "")),
            {"uri": self.uri, "arch": self._agent.hello.get("arch", "")},
            host=self.uri,
            specs={n: self.graph.spec(n) for n in offered},
            finals=self.graph.outputs,
            capabilities=self.capabilities,
            model_sha256=self._sha256,
            inputs_sha256=prepared.sha256,
        )
        try:
            self._run(prepared, recording, progress)
        except LinkError as error:
            recording.state = "partial" if recording.digests or recording.tensors else "did not run"
            recording.why = str(error)
        recording.missing = {
            n: recording.why or "the board did not send it"
            for n in offered
            if n not in recording.tensors and n not in recording.digests
        }
        if recording.missing and recording.state == "complete":
            recording.state, recording.why = "partial", f"{len(recording.missing)} tensors did not come"
        recording.duration_s = time.perf_counter() - start
        recording.link = dict(self._agent.counters)
        return recording

    def _run(self, prepared: PreparedInputs, recording: Recording, progress: Callable[[int, int], None] | None) -> None:
        self._agent.put(self._sha256, self._model)
        for item in prepared.inputs:
            self._agent.put(item.sha256, item.data)
        total, done, self._digests = len(self.graph.observable()), 0, {}

        def on_node(event: Any) -> None:
            nonlocal done
            done += 1
            if event.tensor in self.graph.tensors:
                self._digests[event.tensor] = event.digest
            if progress is not None:
                progress(done, total)

        try:
            self._agent.run(self._sha256, [i.sha256 for i in prepared.inputs], on_node)
        finally:
            if "digests" in self.capabilities:
                recording.digests = dict(self._digests)
        held: dict[str, Array] = {}
        recording.tensors = held
        names = [n for n in self.graph.outputs if n not in self.graph.inputs]
        if "per_node" in self.capabilities:
            others = [n for n in self.graph.observable() if n not in names]
            if others:
                names.append(others[int(np.random.Generator(np.random.PCG64(SPOT_SEED)).integers(len(others)))])
        held |= self.pull(names)
        held |= {n: v for n, v in prepared.arrays().items() if n in self.graph.outputs}

    def pull(self, names: list[str]) -> dict[str, Array]:
        """Tensors of the last run, each checked against the digest the board announced. LinkError when one differs."""
        pulled = {}
        for name in names:
            spec = self.graph.spec(name)
            value = np.frombuffer(self._agent.get(name, spec.valid_bytes), spec.numpy_dtype).reshape(spec.shape)
            if tensor_digest(value) != self._digests.get(name):
                raise LinkError(
                    f"{name}: the bytes pulled do not have the digest the board announced; its memory or its link is not stable"
                )
            pulled[name] = value
        return pulled

    def run_unit(self, unit: Unit, inputs: Mapping[str, Array]) -> dict[str, Array]:
        """The unit alone on the board, on injected tensors."""
        hashes = {}
        for name in unit.inputs:
            data = np.ascontiguousarray(inputs[name]).tobytes()
            hashes[name] = hashlib.sha256(data).hexdigest()
            self._agent.put(hashes[name], data)
        for event in self._agent.run_unit(self._sha256, [n.name for n in unit.nodes], hashes):
            self._digests[event.tensor] = event.digest
        return self.pull(list(unit.outputs))

    def close(self) -> None:
        self._agent.close()
