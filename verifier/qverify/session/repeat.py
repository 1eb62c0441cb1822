"""--repeat: the board runs again and again on the same inputs; what changes from run to run is named."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from qverify_agents.errors import LinkError

from qverify.model_bin.graph import Graph
from qverify.printable import printable
from qverify.report.document import Report, worst
from qverify.session.run_evidence import RunEvidence
from qverify.tensors.digest import tensor_digest
from qverify.tensors.recording import Array

Step = Callable[[int, int], None]


@dataclass(slots=True)
class Unstable:
    """A tensor whose bytes were not those of the first run. runs: how many of the others differ. contents: different ones,
    the first included. elements: that ever changed. bits: of an element, that ever changed, 0 the lowest."""

    tensor: str
    node: str
    runs: int = 0
    contents: int = 1
    elements: int = 0
    bits: list[int] = field(default_factory=list)


def repeat(
    board: Any, evidence: RunEvidence, graph: Graph, report: Report, times: int, step: Step | None = None
) -> None:
    """Runs times - 1 more; the report then says what is unstable, and no pair with that board is PASSED. A board that breaks
    on the way leaves its pairs INCONCLUSIVE, and what was found by then."""
    recording = evidence.results.recordings["board"]
    first = dict(recording.digests) or {
        n: tensor_digest(v) for n, v in recording.tensors.items() if n not in graph.inputs
    }
    makers, found, ran, broke = graph.producers(), dict[str, _Watched](), 1, ""
    try:
        for number in range(1, times):
            digests, values = board.again(first)
            ran += 1
            for name, value in values.items():
                if name not in found:
                    row = Unstable(name, makers[name].name if name in makers else name)
                    found[name] = _Watched(row, evidence.board_value(name)[0])
                found[name].add(digests[name], value)
            if step is not None:
                step(number + 1, times)
    except LinkError as error:
        broke = f"the board broke in run {ran + 1} of {times}: {' '.join(str(error).split())}"
    order = [n for n in graph.observable() if n in found]
    mark_repeat(report, {"runs": ran, "wanted": times, "why": broke, "unstable": [_plain(found[n].row) for n in order]})


def mark_repeat(report: Report, found: dict[str, Any]) -> None:
    """What --repeat found, put into a report: now, or out of a capture. Raises LookupError, TypeError or ValueError for what is
    none."""
    rows = [Unstable(**{k: row[k] for k in Unstable.__dataclass_fields__}) for row in found["unstable"]]
    report.repeat = found
    if rows:
        _judge(report, rows[0], int(found["runs"]), len(rows))
    if found["why"]:
        _inconclusive(report, printable(str(found["why"])))


def _inconclusive(report: Report, why: str) -> None:
    for pair in report.pairs:
        if "board" in (pair.a, pair.b) and pair.verdict == "PASSED":
            pair.verdict, pair.why = "INCONCLUSIVE", why
    report.verdict = worst([pair.verdict for pair in report.pairs])
    report.notes.append(why)


class _Watched:
    def __init__(self, row: Unstable, first: Array | None):
        self.row, self._first = row, None if first is None else np.ascontiguousarray(first)
        self._digests: set[str] = set()
        self._changed: Array | None = None

    def add(self, digest: str, value: Array) -> None:
        self.row.runs += 1
        self._digests.add(digest)
        self.row.contents = len(self._digests) + 1
        if self._first is None or self._first.shape != value.shape:
            return
        whole = np.dtype(f"u{value.dtype.itemsize}")
        apart = np.ascontiguousarray(value).view(whole) ^ self._first.view(whole)
        self._changed = apart if self._changed is None else self._changed | apart
        self.row.elements = int(np.count_nonzero(self._changed))
        ever = int(np.bitwise_or.reduce(self._changed, axis=None))
        self.row.bits = [b for b in range(8 * whole.itemsize) if ever >> b & 1]


def _judge(report: Report, first: Unstable, times: int, count: int) -> None:
    bits = f", bits {', '.join(map(str, first.bits))} of {first.elements} elements" if first.bits else ""
    why = f"{first.tensor} is not the same in {first.runs} of {times - 1} more runs on the same inputs{bits} ({count} tensors in all)"
    for pair in report.pairs:
        if "board" in (pair.a, pair.b) and pair.verdict != "INCONCLUSIVE":
            pair.verdict, pair.cause, pair.why = "FAILED", "not_deterministic", why
    report.verdict = worst([pair.verdict for pair in report.pairs])
    report.notes.append(f"the board is not deterministic: {why}")


def _plain(row: Unstable) -> dict[str, Any]:
    return {k: getattr(row, k) for k in ("tensor", "node", "runs", "contents", "elements", "bits")}
