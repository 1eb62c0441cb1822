"""The simulator side: runs model.bin in numpy, bit for bit as a correct board does."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import fields, is_dataclass
from functools import partial
from typing import Any

import numpy as np

from qverify import __version__, ops
from qverify.arithmetic.workers import one_blas_thread, submit
from qverify.errors import BadFileError
from qverify.model_bin.graph import Graph, Node
from qverify.model_bin.islands import HostIsland
from qverify.model_bin.units import Unit
from qverify.sides.host_islands import HostIslands
from qverify.tensors.digest import tensor_digest
from qverify.tensors.prepared import PreparedInputs
from qverify.tensors.recording import Array, Recording

NOT_COMPUTABLE = (ArithmeticError, AssertionError, LookupError, MemoryError, TypeError, ValueError)
MOST_PREPARED = 1 << 27  # bytes; what pages prepare beyond, in all, is prepared for each run again
DIGEST_INLINE = 1 << 18  # bytes; a smaller tensor's digest is faster than handing it to a thread


def _where(node: Node) -> str:
    return f"model.bin node {node.name!r} ({node.op})"


class Simulator:
    """Runs a Graph, and its host islands on onnxruntime. What an op's page prepares from constants is kept for the life of the object, as far as there is room."""

    def __init__(self, graph: Graph, islands: HostIslands | None = None):
        """islands: for run(), where the graph has any."""
        self.graph, self._islands = graph, islands
        self._states: dict[str, Any] = {}
        self._room = MOST_PREPARED

    def _node(self, node: Node, values: Mapping[str, Array]) -> dict[str, Array]:
        """Returns the node's outputs by name. Raises BadFileError where a hostile model.bin's node cannot be computed
        as recorded."""
        try:
            outputs = ops.simulate_node(self.graph, node, values, self._prepared(node))
        except NOT_COMPUTABLE as error:
            raise BadFileError(f"{_where(node)}: its tensors or words do not fit the op ({error})") from error
        for name, value in outputs.items():
            spec = self.graph.spec(name)
            if (value.shape, value.dtype) != (spec.shape, spec.numpy_dtype):
                wanted = f"its record says {spec.dtype}{list(spec.shape)}"
                raise BadFileError(f"{_where(node)}: gives {name!r} as {value.dtype}{list(value.shape)}, {wanted}")
        return outputs

    def _prepared(self, node: Node) -> Any:
        """Returns what the node's page prepares, kept while there is room."""
        if node.name in self._states:
            return self._states[node.name]
        ops.words(node)
        state = ops.prepare(node, self.graph)
        if (size := _bytes_of(state)) <= self._room:
            self._room -= size
            self._states[node.name] = state
        return state

    def run(
        self,
        prepared: PreparedInputs,
        keep: set[str] | None = None,
        digests: bool = True,
        progress: Callable[[int, int], None] | None = None,
        peer: Recording | None = None,
    ) -> Recording:
        """Runs the graph. keep: names whose values the Recording keeps (default all observable ones). Digests cover
        every observable tensor. Where a host island cannot be computed from this run's tensors, the Recording is partial. peer: a side that ran before; tensors with the same digest share its array."""
        start, graph = time.perf_counter(), self.graph
        results = _Seen(set(graph.observable()) if keep is None else keep | set(graph.outputs), digests, peer)
        with one_blas_thread():
            why = self._compute(dict(prepared.arrays()), results, progress)
        finals = frozenset(graph.outputs)
        results.kept |= {n: v for n, v in prepared.arrays().items() if n in finals}
        return Recording(
            "simulator",
            "qverify simulator",
            __version__,
            {"rounding": graph.rounding, "numpy": np.__version__},
            duration_s=time.perf_counter() - start,
            specs={n: graph.spec(n) for n in graph.observable()},
            finals=graph.outputs,
            tensors=results.kept,
            digests=results.digests(),
            missing=dict.fromkeys((n for n in graph.observable() if n not in results.names), why) if why else {},
            state="partial" if why else "complete",
            why=why,
            capabilities=frozenset({"finals", "per_node", "inject", "digests"}),
            inputs_sha256=prepared.sha256,
        )

    def _compute(self, values: dict[str, Array], results: _Seen, progress: Callable[[int, int], None] | None) -> str:
        """Runs every node in order, up to a host island that cannot be computed; returns why it cannot, "" where all can.
        values: initially the inputs; a tensor is removed once no further node reads it."""
        graph, steps = self.graph, list(self.graph.steps())
        last_use = {name: i for i, step in enumerate(steps) for name in step.inputs if name is not None}
        for i, step in enumerate(steps):
            if isinstance(step, HostIsland):
                try:
                    made = self._island_of(step).run(step, values)
                except BadFileError as error:
                    results.share(wait=True)
                    return f"{error}"
                results.kept |= made
            else:
                made = self._node(step, values)
            for name, value in made.items():
                values[name] = value
                if isinstance(step, Node) and not graph.tensors[name].interior:
                    results.add(name, value)
            for source in step.inputs:
                if source is not None and last_use.get(source) == i:
                    values.pop(source, None)
            results.share(wait=False)
            if progress is not None:
                progress(i + 1, len(steps))
        results.share(wait=True)
        return ""

    def _island_of(self, island: HostIsland) -> HostIslands:
        if self._islands is None:
            raise BadFileError(
                f"model.bin: {island.nodes[0].name} is computed on the host, which needs its quantized ONNX"
            )
        return self._islands

    def run_unit(self, unit: Unit, inputs: Mapping[str, Array]) -> dict[str, Array]:
        """Runs one unit on the given inputs (valid elements by tensor name). Returns its outputs by name."""
        values = {name: inputs[name] for name in unit.inputs if name in inputs}
        with one_blas_thread():
            for node in unit.nodes:
                values |= self._node(node, values)
        return {name: values[name] for name in unit.outputs}

    def forget(self, unit: Unit) -> None:
        """Frees what the unit's pages have prepared; they prepare it again if it is run again."""
        for node in unit.nodes:
            self._room += _bytes_of(self._states.pop(node.name, None))


def _bytes_of(state: Any) -> int:
    """Returns the size of the arrays in what a page prepared, views among them."""
    if isinstance(state, np.ndarray):
        return state.nbytes
    if isinstance(state, (tuple, list)):
        return sum(map(_bytes_of, state))
    return sum(_bytes_of(getattr(state, f.name)) for f in fields(state)) if is_dataclass(state) else 0


class _Seen:
    """The kept results of a run: the values of `wanted`, and all digests, which other threads compute. A tensor that
    the peer has too shares its array."""

    def __init__(self, wanted: set[str], digests: bool, peer: Recording | None):
        self.kept: dict[str, Array] = {}
        self.names = set[str]()
        self._wanted, self._digests = wanted, digests
        self._marks: dict[str, Future[str]] = {}
        self._waiting: list[str] = []  # kept by both, digests not compared yet
        self._theirs = peer.digests if peer is not None else {}
        self._known = peer.tensors if peer is not None and isinstance(peer.tensors, dict) else {}

    def add(self, name: str, value: Array) -> None:
        self.names.add(name)
        if self._digests:
            self._marks[name] = submit(partial(tensor_digest, value), inline=value.nbytes < DIGEST_INLINE)
        if name in self._wanted:
            self.kept[name] = value
            if name in self._known and name in self._marks:
                self._waiting.append(name)

    def share(self, wait: bool) -> None:
        """Replaces our copy of tensors that the peer has too by its arrays, where the digest is known; wait: for every
        digest."""
        unfinished = []
        for name in self._waiting:
            if not wait and not self._marks[name].done():
                unfinished.append(name)
            elif self._theirs.get(name) == self._marks[name].result():
                self.kept[name] = self._known[name]
        self._waiting = unfinished

    def digests(self) -> dict[str, str]:
        return {name: mark.result() for name, mark in self._marks.items()}
