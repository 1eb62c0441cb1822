"""Host islands: parts of a network that no kernel serves, which onnxruntime computes on the host between the nodes of
model.bin. Nothing of them is verified (normative: board_runtime/FORMAT.md)."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Protocol, TypeVar

from qverify.errors import BadFileError
from qverify.plural import count

MOST_ISLANDS, MOST_NAMES = 4096, 65536  # in all; names of one island


@dataclass(frozen=True, slots=True)
class HostNode:
    """One ONNX node of an island. why: what keeps it from being compiled."""

    name: str
    op: str
    why: str


@dataclass(frozen=True, slots=True)
class HostIsland:
    """One island. inputs: the tensors it reads: graph inputs, outputs of nodes of model.bin and of other islands.
    pulled: those of them that are graph outputs for islands alone. outputs: those of its tensors that nodes of model.bin
    or other islands read. finals: those that are outputs of the ONNX."""

    inputs: tuple[str, ...]
    pulled: tuple[str, ...]
    outputs: tuple[str, ...]
    finals: tuple[str, ...]
    nodes: tuple[HostNode, ...]

    @property
    def made(self) -> tuple[str, ...]:
        """Returns outputs and finals, each once."""
        return tuple(dict.fromkeys((*self.outputs, *self.finals)))


class _Step(Protocol):
    @property
    def outputs(self) -> tuple[str, ...]: ...


Step = TypeVar("Step", bound=_Step)


def in_order(islands: Sequence[HostIsland], steps: Iterable[Step], known: Iterable[str]) -> Iterator[Step | HostIsland]:
    """Yields the steps in their order, and each island as soon as everything that it reads is known; an island that
    waits for ever is left out. known: names of graph inputs and constants."""
    waiting = _Waiting(islands, set(known))
    yield from waiting.due()
    for step in steps:
        yield step
        waiting.made(step.outputs)
        yield from waiting.due()


class _Waiting:
    """The islands that cannot be computed yet. known: the tensors there are."""

    def __init__(self, islands: Sequence[HostIsland], known: set[str]):
        self._islands, self._lacking = islands, [set(i.inputs) - known for i in islands]
        self._readers: dict[str, list[int]] = {}
        for at, names in enumerate(self._lacking):
            for name in names:
                self._readers.setdefault(name, []).append(at)
        self._ready = deque(at for at, names in enumerate(self._lacking) if not names)

    def made(self, names: Iterable[str]) -> None:
        """Notes tensors that are computed now."""
        for name in names:
            for at in self._readers.pop(name, ()):
                self._lacking[at].discard(name)
                if not self._lacking[at]:
                    self._ready.append(at)

    def due(self) -> Iterator[HostIsland]:
        """Yields the islands that can be computed now, also from one another, each once."""
        while self._ready:
            island = self._islands[self._ready.popleft()]
            yield island
            self.made(island.made)


def describe_islands(islands: Sequence[HostIsland]) -> str:
    """Returns what every verdict states of a graph's islands."""
    nodes = sum(len(island.nodes) for island in islands)
    finals = [name for island in islands for name in island.finals]
    ends = f", with {count(len(finals), 'final output')} among them ({', '.join(finals[:3])})" if finals else ""
    return f"{count(nodes, 'node')} computed on the host, not verified{ends}"


def to_meta(islands: Sequence[HostIsland]) -> list[dict[str, Any]]:
    """Returns the islands as model.bin's meta section has them."""
    return [asdict(island) for island in islands]


def from_meta(rows: Any) -> tuple[HostIsland, ...]:
    """Returns the islands of a meta section. Raises BadFileError where they cannot be read."""
    try:
        if len(rows) > MOST_ISLANDS:
            raise ValueError(f"{len(rows)} islands, at most {MOST_ISLANDS}")
        return tuple(_island(row) for row in rows)
    except (TypeError, ValueError, LookupError, AttributeError) as error:
        raise BadFileError(f"model.bin: its host islands cannot be read: {error}") from error


def _island(row: Any) -> HostIsland:
    inputs, pulled, outputs, finals = (_names(row[key]) for key in ("inputs", "pulled", "outputs", "finals"))
    nodes = tuple(HostNode(*_names([node[key] for key in ("name", "op", "why")])) for node in row["nodes"])
    if not nodes or len(nodes) > MOST_NAMES:
        raise ValueError(f"an island of {len(nodes)} nodes")
    return HostIsland(inputs, pulled, outputs, finals, nodes)


def _names(values: Any) -> tuple[str, ...]:
    if not isinstance(values, list) or len(values) > MOST_NAMES or not all(isinstance(v, str) for v in values):
        raise ValueError("a list of names was wanted")
    return tuple(values)
