"""Host islands: parts of a network for which there is no kernel. onnxruntime computes them on the host, between nodes
of model.bin, and they are not verified (normative: board_runtime/FORMAT.md)."""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Protocol, TypeVar

from qverify.errors import BadFileError
from qverify.plural import count

MAX_ISLANDS, MAX_NAMES = 4096, 65536  # MAX_NAMES: in each list of one island
READS_RESULT = "reads a result of the host"  # in the reason of a node behind another one of the host


@dataclass(frozen=True, slots=True)
class HostNode:
    """One ONNX node of an island. why: the reason why it cannot be compiled."""

    name: str
    op: str
    why: str


@dataclass(frozen=True, slots=True)
class HostIsland:
    """One host island.

    Attributes:
        inputs: the tensors that it reads: graph inputs, outputs of nodes of model.bin, and outputs of other islands.
        pulled: the inputs that are outputs of the graph only because islands read them.
        outputs: its tensors that nodes of model.bin or other islands read.
        finals: its tensors that are outputs of the ONNX.
        nodes: its ONNX nodes.
    """

    inputs: tuple[str, ...]
    pulled: tuple[str, ...]
    outputs: tuple[str, ...]
    finals: tuple[str, ...]
    nodes: tuple[HostNode, ...]

    @property
    def made(self) -> tuple[str, ...]:
        """The tensors in outputs and finals, each once."""
        return tuple(dict.fromkeys((*self.outputs, *self.finals)))


class _Step(Protocol):
    @property
    def outputs(self) -> tuple[str, ...]: ...


class _ReadingStep(_Step, Protocol):
    @property
    def inputs(self) -> tuple[str | None, ...]: ...


Step = TypeVar("Step", bound=_Step)
ReadingStep = TypeVar("ReadingStep", bound=_ReadingStep)


def in_order(islands: Sequence[HostIsland], steps: Iterable[Step], known: Iterable[str]) -> Iterator[Step | HostIsland]:
    """Yields the steps in their order, and each island as soon as all tensors that it reads are computed. An island
    that reads a tensor which is never computed is left out. known: names of graph inputs and constants."""
    if not islands:
        yield from steps
        return
    waiting = _WaitingIslands(islands, set(known))
    yield from waiting.pop_ready()
    for step in steps:
        yield step
        waiting.add_computed(step.outputs)
        yield from waiting.pop_ready()


def sort_nodes(nodes: Sequence[ReadingStep], islands: Sequence[HostIsland], known: Iterable[str]) -> list[ReadingStep]:
    """Returns the nodes in their order, except that a node comes after the islands that it reads and what these read.
    Nodes that read what is never computed come last. known: names of graph inputs and constants."""
    steps: list[HostIsland | ReadingStep] = [*islands, *nodes]
    available = set(known)
    lacking = [{n for n in step.inputs if n is not None} - available for step in steps]
    readers: dict[str, list[int]] = {}
    for at, names in enumerate(lacking):
        for name in names:
            readers.setdefault(name, []).append(at)
    ready, done = [at for at, names in enumerate(lacking) if not names], list[int]()  # in ascending order: a heap
    while ready:
        done.append(heapq.heappop(ready))
        step = steps[done[-1]]
        for name in step.made if isinstance(step, HostIsland) else step.outputs:
            for reader in readers.pop(name, ()):
                lacking[reader].discard(name)
                if not lacking[reader]:
                    heapq.heappush(ready, reader)
    order = [*done, *sorted({*range(len(steps))}.difference(done))]
    return [nodes[at - len(islands)] for at in order if at >= len(islands)]


class _WaitingIslands:
    """The islands that cannot be computed yet. known: names of the tensors that are available from the start."""

    def __init__(self, islands: Sequence[HostIsland], known: set[str]):
        self._islands, self._lacking = islands, [set(i.inputs) - known for i in islands]
        self._readers: dict[str, list[int]] = {}
        for at, names in enumerate(self._lacking):
            for name in names:
                self._readers.setdefault(name, []).append(at)
        self._ready = deque(at for at, names in enumerate(self._lacking) if not names)

    def add_computed(self, names: Iterable[str]) -> None:
        """Registers tensors that have been computed."""
        for name in names:
            for at in self._readers.pop(name, ()):
                self._lacking[at].discard(name)
                if not self._lacking[at]:
                    self._ready.append(at)

    def pop_ready(self) -> Iterator[HostIsland]:
        """Yields the islands that can be computed now, each once. Some of them may read tensors of others."""
        while self._ready:
            island = self._islands[self._ready.popleft()]
            yield island
            self.add_computed(island.made)


def describe_islands(islands: Sequence[HostIsland]) -> str:
    """Returns the statement about a graph's islands in every verdict."""
    nodes = sum(len(island.nodes) for island in islands)
    finals = [name for island in islands for name in island.finals]
    ends = f", with {count(len(finals), 'final output')} among them ({', '.join(finals[:3])})" if finals else ""
    return f"{count(nodes, 'node')} computed on the host, not verified{ends}"


def list_reasons(islands: Sequence[HostIsland], most: int) -> list[str]:
    """Returns why the nodes are computed on the host, of at most `most` nodes, first of those that do not only read
    results of others; the last line counts the remaining nodes."""
    nodes = [node for island in islands for node in island.nodes]
    ranked = sorted(nodes, key=lambda node: READS_RESULT in node.why)
    lines = [f"computed on the host, not verified: {node.why}" for node in ranked[:most]]
    if rest := ranked[most:]:
        readers = sum(READS_RESULT in node.why for node in rest)
        of_them = f", {readers} of which read results of the host" if readers else ""
        lines.append(
            f"computed on the host, not verified: {count(len(rest), 'more node')}{of_them} (qverify inspect MODEL.bin lists all)"
        )
    return lines


def to_meta(islands: Sequence[HostIsland]) -> list[dict[str, Any]]:
    """Returns the islands in the form in which the meta section of model.bin contains them."""
    return [asdict(island) for island in islands]


def from_meta(rows: Any) -> tuple[HostIsland, ...]:
    """Returns the islands in a meta section. Raises BadFileError if they cannot be read."""
    try:
        if len(rows) > MAX_ISLANDS:
            raise ValueError(f"{len(rows)} islands, at most {MAX_ISLANDS}")
        return tuple(_read_island(row) for row in rows)
    except (TypeError, ValueError, LookupError, AttributeError) as error:
        raise BadFileError(f"model.bin: its host islands cannot be read: {error}") from error


def _read_island(row: Any) -> HostIsland:
    inputs, pulled, outputs, finals = (_read_names(row[key]) for key in ("inputs", "pulled", "outputs", "finals"))
    nodes = tuple(HostNode(*_read_names([node[key] for key in ("name", "op", "why")])) for node in row["nodes"])
    if not nodes or len(nodes) > MAX_NAMES:
        raise ValueError(f"an island of {len(nodes)} nodes")
    return HostIsland(inputs, pulled, outputs, finals, nodes)


def _read_names(values: Any) -> tuple[str, ...]:
    if not isinstance(values, list) or len(values) > MAX_NAMES or not all(isinstance(v, str) for v in values):
        raise ValueError("a list of names was wanted")
    return tuple(values)
