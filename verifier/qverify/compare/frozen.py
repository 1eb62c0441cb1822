"""Recognises outputs that do not change with the input: a side gives the same bytes of a tensor in all runs, while the
host's tensor changes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np

from qverify.arithmetic.functions64 import log2_of
from qverify.plural import count
from qverify.report.document import Verdict
from qverify.report.facts import Finding
from qverify.tensors.digest import tensor_digest
from qverify.tensors.recording import Array, Recording

MIN_BITS = 16  # information in the host's changes, from which a frozen tensor shows that the input is not read
MOST_SAMPLED = 4096  # elements of a tensor, evenly spaced, of which the information is counted
HOST = ("reference", "simulator")


@dataclass(slots=True)
class _TensorHistory:
    """The runs of one tensor of one side. digests: the different digests, in the order of the runs. runs: number of
    runs that gave it. samples: the bits of some of its elements, for each different digest of which the values are
    known, until they have MIN_BITS of information. bits: that information."""

    digests: dict[str, None] = field(default_factory=dict)
    runs: int = 0
    samples: list[Array] = field(default_factory=list)
    bits: float = 0.0

    def add(self, digest: str, values: Array | None) -> None:
        """Adds a run. values: the tensor, or None if it is not known or of no interest."""
        self.runs += 1
        if digest in self.digests:
            return
        self.digests[digest] = None
        if values is not None and self.bits < MIN_BITS:
            self.samples.append(_sample(values))
            self.bits = _measure_information(self.samples)
        if values is None or self.bits >= MIN_BITS:
            self.samples.clear()


def _sample(values: Array) -> Array:
    """Returns a copy of the bits of at most MOST_SAMPLED elements."""
    flat = values.reshape(-1)
    some = np.ascontiguousarray(flat[:: -(-flat.size // MOST_SAMPLED) or 1]).copy()
    return some.view(f"u{some.dtype.itemsize}")


def _measure_information(samples: list[Array]) -> float:
    """Returns the bits that tell the changes from one array to the next: the number of elements that change, times log2
    of the number of different values that those elements have."""
    changes = [a != b for a, b in pairwise(samples) if a.shape == b.shape and a.dtype == b.dtype]
    if not changes:
        return 0.0
    moving = np.logical_or.reduce(changes)
    different = np.unique(np.concatenate([sample[moving] for sample in samples])).size
    return sum(int(c.sum()) for c in changes) * log2_of(different) if different else 0.0


class OutputHistory:
    """The digests of every tensor of the host and the board, over several runs on different inputs."""

    def __init__(self) -> None:
        self._runs = 0
        self._sides: dict[str, dict[str, _TensorHistory]] = {}

    def add(self, recordings: Mapping[str, Recording]) -> None:
        """Adds one run. recordings: by any label. A run without a complete board does not count."""
        sides = {r.side: r for r in recordings.values()}
        board = sides.get("board")
        if board is None or board.state != "complete":
            return
        self._runs += 1
        for side in ("board", *HOST):
            recording = sides.get(side)
            tensors = self._sides.setdefault(side, {})
            if recording is None:
                continue
            for name, digest in _digests(recording, board):
                values = recording.tensors.get(name) if side in HOST and self._may_be_frozen(name) else None
                tensors.setdefault(name, _TensorHistory()).add(digest, values)

    def _may_be_frozen(self, name: str) -> bool:
        board = self._sides["board"].get(name)
        return board is not None and len(board.digests) == 1

    def frozen(self) -> list[str]:
        """Returns the tensors of which the board gave the same bytes in every run, while the host's differ, in running
        order; [] after fewer than two runs."""
        if self._runs < 2:
            return []
        board = self._sides.get("board", {})
        names = [n for n, h in board.items() if h.runs == self._runs and len(h.digests) == 1 and self._changes(n)]
        order = {n: at for at, n in enumerate(self._host_order())}
        return sorted(names, key=lambda n: order.get(n, len(order)))

    def _host_order(self) -> Iterable[str]:
        return max((self._sides.get(side, {}) for side in HOST), key=len)

    def _host(self, name: str) -> tuple[str, _TensorHistory] | None:
        found = ((side, self._sides.get(side, {}).get(name)) for side in HOST)
        return next(((side, h) for side, h in found if h is not None and h.runs == self._runs), None)

    def _changes(self, name: str) -> bool:
        host = self._host(name)
        return host is not None and len(host[1].digests) > 1

    def find_frozen(self, verdict: Verdict, runs: str = "frame") -> list[Finding]:
        """Returns a finding on the frozen tensors; [] without any, or if the verdict over these runs is PASSED: values
        that agree may be equal by chance. runs: what the runs are called."""
        names = self.frozen() if verdict != "PASSED" else []
        if not names:
            return []
        first, host = names[0], self._host(names[0])
        assert host is not None
        text = f"{first} has the same bytes in all {count(self._runs, runs)}, the {host[0]}'s differ"
        if host[1].bits >= MIN_BITS:
            text += ": the board's output does not depend on its input"
        if len(names) > 1:
            text += f" (and so have {count(len(names) - 1, 'more tensor')}: {_shorten(names[1:])})"
        return [Finding("frozen", first, text)]

    def put_frozen_first(self, verdict: Verdict, others: list[Finding]) -> list[Finding]:
        """Returns the findings on the frozen tensors, if any, and then the others without those on frozen tensors, whose
        values are of another run."""
        frozen = self.find_frozen(verdict)
        stale = frozenset(self.frozen() if frozen else ())
        return [*frozen, *(f for f in others if f.tensor not in stale)]


def _digests(side: Recording, board: Recording) -> Iterable[tuple[str, str]]:
    """Yields name and digest of the side's tensors that the board gives as well."""
    for name in dict.fromkeys((*side.specs, *side.finals)):
        if name in side.missing or not (name in board.digests or name in board.tensors):
            continue
        digest = side.digests.get(name)
        if digest is None and name in side.tensors:
            digest = tensor_digest(side.tensors[name])
        if digest is not None:
            yield name, digest


def _shorten(names: list[str], most: int = 4) -> str:
    return ", ".join(names[:most]) + (" ..." if len(names) > most else "")
