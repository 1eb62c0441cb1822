"""The simulator side: runs model.bin in numpy, bit for bit as a correct board does."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import fields, is_dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np

from qverify import __version__, ops
from qverify.arithmetic.one_dnn import loaded_version
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
MAX_PREPARED_BYTES = 1 << 27  # of prepared constants that are kept; the others are prepared again in each run
INLINE_DIGEST_BYTES = 1 << 18  # digests of smaller tensors are computed at once, which is faster than in a thread


def _where(node: Node) -> str:
    return f"model.bin node {node.name!r} ({node.op})"


class Simulator:
    """Runs a Graph, and its host islands on onnxruntime. Data that the pages of ops prepare from constants is kept for
    the life of the object, up to MAX_PREPARED_BYTES."""

    def __init__(self, graph: Graph, islands: HostIslands | None = None):
        """islands: the graph's host islands, which only run() needs."""
        self.graph, self._islands = graph, islands
        self._states: dict[str, Any] = {}
        self._room = MAX_PREPARED_BYTES

    def _node(self, node: Node, values: Mapping[str, Array]) -> dict[str, Array]:
        """Returns the node's outputs by name. Raises BadFileError if the node of a hostile model.bin cannot be computed
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
        """Returns the data that the node's page prepares, and keeps it if there is room."""
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
        """Runs the graph. The Recording is partial if a host island cannot be computed from this run's tensors.

        Args:
            keep: names of the tensors whose values the Recording keeps; default: all observable ones.
            digests: True to compute the digest of every observable tensor.
            progress: called with the number of steps that are done, and of all steps.
            peer: the recording of a side that ran before; tensors with the same digest share its array.
        """
        start, graph = time.perf_counter(), self.graph
        results = _RunResults(set(graph.observable()) if keep is None else keep | set(graph.outputs), digests, peer)
        with one_blas_thread():
            why = self._compute(dict(prepared.arrays()), results, progress)
        finals = frozenset(graph.outputs)
        results.kept |= {n: v for n, v in prepared.arrays().items() if n in finals}
        return Recording(
            "simulator",
            "qverify simulator",
            __version__,
            _describe_engines(graph),
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

    def _compute(
        self, values: dict[str, Array], results: _RunResults, progress: Callable[[int, int], None] | None
    ) -> str:
        """Runs every node in order, up to a host island that cannot be computed. Returns the reason, or "" if all can
        be computed. values: initially the inputs; a tensor is removed once no further node reads it."""
        graph, (steps, last_use) = self.graph, self._order
        for i, step in enumerate(steps):
            if isinstance(step, HostIsland):
                try:
                    outputs = self._island_of(step).run(step, values)
                except BadFileError as error:
                    results.share(wait=True)
                    return f"{error}"
                results.kept |= outputs
            else:
                outputs = self._node(step, values)
            for name, value in outputs.items():
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

    @cached_property
    def _order(self) -> tuple[list[Node | HostIsland], dict[str, int]]:
        """The nodes and islands in running order, and by tensor the place of the last one that reads it."""
        steps = list(self.graph.steps())
        return steps, {name: i for i, step in enumerate(steps) for name in step.inputs if name is not None}

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
        """Frees the prepared data of the unit's nodes. It is prepared again if the unit runs again."""
        for node in unit.nodes:
            self._room += _bytes_of(self._states.pop(node.name, None))


def _describe_engines(graph: Graph) -> dict[str, Any]:
    """Returns the settings of a run: the rounding mode, the arithmetic if one is stated, and the libraries that this
    process has loaded for products."""
    onednn, stated = loaded_version(), graph.meta.get("options", {}).get("arithmetic")
    named = {"arithmetic": str(stated["name"])} if stated else {}
    return {"rounding": graph.rounding, **named, "numpy": np.__version__, **({"onednn": onednn} if onednn else {})}


def _bytes_of(state: Any) -> int:
    """Returns the size of the arrays in the prepared data of a node, in bytes; views count as arrays."""
    if isinstance(state, np.ndarray):
        return state.nbytes
    if isinstance(state, (tuple, list)):
        return sum(map(_bytes_of, state))
    return sum(_bytes_of(getattr(state, f.name)) for f in fields(state)) if is_dataclass(state) else 0


class _RunResults:
    """The results of a run: the values of the tensors in `keep`, and all digests, which other threads compute. Tensors
    that are equal to the peer's share its arrays."""

    def __init__(self, keep: set[str], digests: bool, peer: Recording | None):
        self.kept: dict[str, Array] = {}
        self.names = set[str]()
        self._keep, self._digests = keep, digests
        self._found: dict[str, str | Future[str]] = {}  # digests
        self._waiting: list[str] = []  # names of tensors that both keep, whose digests are not compared yet
        self._peer_digests = peer.digests if peer is not None else {}
        self._peer_arrays = peer.tensors if peer is not None and isinstance(peer.tensors, dict) else {}

    def add(self, name: str, value: Array) -> None:
        self.names.add(name)
        if self._digests:
            small = value.nbytes < INLINE_DIGEST_BYTES
            self._found[name] = tensor_digest(value) if small else submit(partial(tensor_digest, value))
        if name in self._keep:
            self.kept[name] = value
            if name in self._peer_arrays and name in self._found:
                self._waiting.append(name)

    def share(self, wait: bool) -> None:
        """Replaces tensors that are equal to the peer's by its arrays, as far as the digests are computed. wait: True
        to wait for every digest."""
        unfinished = []
        for name in self._waiting:
            digest = self._found[name]
            if not wait and isinstance(digest, Future) and not digest.done():
                unfinished.append(name)
            elif self._peer_digests.get(name) == _finished(digest):
                self.kept[name] = self._peer_arrays[name]
        self._waiting = unfinished

    def digests(self) -> dict[str, str]:
        return {name: _finished(digest) for name, digest in self._found.items()}


def _finished(digest: str | Future[str]) -> str:
    return digest.result() if isinstance(digest, Future) else digest
