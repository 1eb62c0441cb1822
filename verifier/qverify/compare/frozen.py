"""Recognises outputs that do not change with the input: a side gives the same bytes of a tensor in all runs, while the
host's tensor changes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from qverify.plural import count
from qverify.report.document import Finding, Verdict
from qverify.tensors.digest import tensor_digest
from qverify.tensors.recording import Recording

MIN_BITS = 16  # size of all host values that differ, from which a frozen tensor shows that the input is not read
HOST = ("reference", "simulator")


@dataclass(slots=True)
class _TensorHistory:
    """The runs of one tensor of one side. digests: the different digests, in the order of the runs. runs: number of
    runs that gave it. bits: size of its elements."""

    digests: dict[str, None] = field(default_factory=dict)
    runs: int = 0
    bits: int = 0


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
            for name, digest, bits in _digests(recording, board) if recording is not None else ():
                history = tensors.setdefault(name, _TensorHistory())
                history.digests[digest] = None
                history.runs, history.bits = history.runs + 1, bits

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
        if host[1].bits * (len(host[1].digests) - 1) >= MIN_BITS:
            text += ": the board's output does not depend on its input"
        if len(names) > 1:
            text += f" (and so have {count(len(names) - 1, 'more tensor')}: {_shorten(names[1:])})"
        return [Finding("frozen", first, text)]


def _digests(side: Recording, board: Recording) -> Iterable[tuple[str, str, int]]:
    """Yields name, digest and size in bits of the side's tensors that the board gives as well."""
    for name in dict.fromkeys((*side.specs, *side.finals)):
        spec = side.specs.get(name) or board.specs.get(name)
        if name in side.missing or not (name in board.digests or name in board.tensors):
            continue
        digest = side.digests.get(name)
        if digest is None and name in side.tensors:
            digest = tensor_digest(side.tensors[name])
        if digest is not None:
            bits = spec.valid_bytes * 8 if spec is not None else 0
            yield name, digest, bits


def _shorten(names: list[str], most: int = 4) -> str:
    return ", ".join(names[:most]) + (" ..." if len(names) > most else "")
