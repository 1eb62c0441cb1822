"""Recognises outputs that do not change with the input: a side gives the same bytes of a tensor in all runs, while the
host's tensor changes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from qverify.arithmetic.functions64 import log2_of
from qverify.compare.other_frames import FrameOrder
from qverify.plural import count
from qverify.report.document import Verdict
from qverify.report.facts import Finding
from qverify.tensors.digest import tensor_digest
from qverify.tensors.real_values import to_float64
from qverify.tensors.recording import Array, Recording

MIN_BITS = 16  # information in the host's changes, from which a frozen tensor shows that the input is not read
MOST_SAMPLED = 4096  # elements of a tensor, evenly spaced, of which the information is counted
MOST_SAMPLES = 64  # tensors of one name from which it is counted
SMALL = 2.0**-7  # of the largest value: changes of a float that a board of 8 bits need not show
Mask = npt.NDArray[np.bool_]
HOST = ("reference", "simulator")


@dataclass(slots=True)
class _TensorHistory:
    """The runs of one tensor of one side. digests: the different digests, in the order of the runs; after the second one, only
    those of samples. runs: number of runs that gave it. samples: some of its elements, for each different digest of which the values are known, until
    their large changes have MIN_BITS of information. bits: the information of all changes. large: that of changes by more
    than an integer, or SMALL."""

    digests: dict[str, None] = field(default_factory=dict)
    runs: int = 0
    samples: list[Array] = field(default_factory=list)
    bits: float = 0.0
    large: float = 0.0

    def add(self, digest: str, values: Array | None) -> None:
        """Adds a run. values: the tensor, or None if it is not known or of no interest."""
        self.runs += 1
        if digest in self.digests:
            return
        is_sampled = values is not None and self.large < MIN_BITS and len(self.samples) < MOST_SAMPLES
        if is_sampled or len(self.digests) < 2:
            self.digests[digest] = None
        if values is not None and is_sampled:
            self.samples.append(_sample(values))
            self.bits = _measure_information(self.samples, _differs)
            self.large = _measure_information(self.samples, _differs_much)
        if values is None or self.large >= MIN_BITS:
            self.samples.clear()


def _sample(values: Array) -> Array:
    """Returns a copy of at most MOST_SAMPLED elements."""
    flat = values.reshape(-1)
    return np.ascontiguousarray(flat[:: -(-flat.size // MOST_SAMPLED) or 1]).copy()


def _differs(a: Array, b: Array) -> Mask:
    """Returns a mask of the elements with other bits."""
    unsigned = f"u{a.dtype.itemsize}"
    return np.asarray(a.view(unsigned) != b.view(unsigned))


def _differs_much(a: Array, b: Array) -> Mask:
    """Returns a mask of the elements that differ by more than one integer, or more than SMALL of the largest float."""
    if a.dtype.kind not in "iuf":
        return _differs(a, b)
    wide = [to_float64(v) for v in (a, b)]
    with np.errstate(invalid="ignore"):
        finite = np.abs(np.concatenate(wide))
        least = SMALL * float(finite.max(initial=0.0, where=np.isfinite(finite))) if a.dtype.kind == "f" else 1.0
        return np.asarray(np.abs(wide[0] - wide[1]) > least)


def _measure_information(samples: list[Array], differs: Callable[[Array, Array], Mask]) -> float:
    """Returns the bits that tell the changes from one array to the next: the number of elements that change, times log2
    of the number of different values that those elements have."""
    changes = [differs(a, b) for a, b in pairwise(samples) if a.shape == b.shape and a.dtype == b.dtype]
    if not changes:
        return 0.0
    moving = np.logical_or.reduce(changes)
    different = np.unique(np.concatenate([sample[moving] for sample in samples])).size
    return sum(int(c.sum()) for c in changes) * log2_of(different) if different else 0.0


class OutputHistory:
    """The digests of every tensor of the host and the board, over several runs on different inputs."""

    def __init__(self) -> None:
        self._runs, self._frames, self._order = 0, -1, FrameOrder()
        self._sides: dict[str, dict[str, _TensorHistory]] = {}

    def add(self, recordings: Mapping[str, Recording]) -> None:
        """Adds one run. recordings: by any label. A run without a complete board does not count."""
        sides = {r.side: r for r in recordings.values()}
        board = sides.get("board")
        self._frames += 1
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
                elements = recording.specs[name].elements if name in recording.specs else 0
                self._order.add(self._frames, side, name, digest, elements)

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

    def _changes_much(self, name: str) -> bool:
        host = self._host(name)
        return host is not None and host[1].large >= MIN_BITS

    def _list_certain(self, verdict: Verdict) -> list[str]:
        """Returns the frozen tensors that count under this verdict."""
        return [n for n in self.frozen() if verdict != "PASSED" or self._changes_much(n)]

    def find_frozen(self, verdict: Verdict, runs: str = "frame") -> list[Finding]:
        """Returns a finding on the frozen tensors; [] without any. If the verdict over these runs is PASSED, a tensor
        counts only if large changes of the host's show that it is no chance: values that agree may be equal by chance.
        runs: what the runs are called."""
        names = self._list_certain(verdict)
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
        """Returns the findings on the frozen tensors, if any, or on those of another frame, and then the others without those on
        frozen tensors, whose values are of another run."""
        frozen = self.find_frozen(verdict) or (self._order.find(self._host_order()) if verdict != "PASSED" else [])
        stale = frozenset(self._list_certain(verdict))
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
