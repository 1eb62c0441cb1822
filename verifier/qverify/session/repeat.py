"""--repeat: runs the board repeatedly on the same inputs, and reports what changes from run to run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from qverify_agents.errors import LinkError

from qverify.model_bin.graph import Graph
from qverify.plural import count
from qverify.printable import printable
from qverify.report.document import ReportDocument, worst
from qverify.session.run_evidence import RunEvidence
from qverify.tensors.digest import tensor_digest
from qverify.tensors.recording import Array

Step = Callable[[int, int], None]


@dataclass(slots=True)
class UnstableTensor:
    """A tensor that changed between runs.

    Attributes:
        tensor: name of the tensor.
        node: name of the node that computes it.
        runs: number of later runs that differ from the first.
        contents: number of different contents, including the first.
        elements: number of elements that changed in any run.
        bits: numbers of the bits that changed in any element and run, 0 for the lowest.
    """

    tensor: str
    node: str
    runs: int = 0
    contents: int = 1
    elements: int = 0
    bits: list[int] = field(default_factory=list)


def repeat(
    board: Any, evidence: RunEvidence, graph: Graph, report: ReportDocument, times: int, step: Step | None = None
) -> None:
    """Runs the board `times` - 1 more times and adds the unstable tensors to the report; if there are any, no pair with
    the board stays PASSED. If the board fails before the last run, its PASSED pairs become INCONCLUSIVE, and the
    unstable tensors found until then are reported."""
    recording = evidence.results.recordings["board"]
    first = dict(recording.digests) or {
        n: tensor_digest(v) for n, v in recording.tensors.items() if n not in graph.inputs
    }
    makers, changing, ran, failure = graph.producers(), dict[str, _ChangingTensor](), 1, ""
    try:
        for number in range(1, times):
            digests, values = board.repeat_run(first)
            ran += 1
            for name, value in values.items():
                if name not in changing:
                    row = UnstableTensor(name, makers[name].name if name in makers else name)
                    changing[name] = _ChangingTensor(row, evidence.board_value(name)[0])
                changing[name].add(digests[name], value)
            if step is not None:
                step(number + 1, times)
    except LinkError as error:
        failure = f"the board failed in run {ran + 1} of {times}: {' '.join(str(error).split())}"
    unstable = [_plain(changing[n].row) for n in graph.observable() if n in changing]
    mark_repeat(report, {"runs": ran, "wanted": times, "why": failure, "unstable": unstable})


def mark_repeat(report: ReportDocument, outcome: dict[str, Any]) -> None:
    """Adds the outcome of --repeat, from this run or from a capture, to a report. Raises LookupError, TypeError or
    ValueError for a malformed outcome."""
    rows = [UnstableTensor(**{k: row[k] for k in UnstableTensor.__dataclass_fields__}) for row in outcome["unstable"]]
    report.repeat = outcome
    if rows:
        _mark_failed(report, rows[0], int(outcome["runs"]), len(rows))
    if outcome["why"]:
        _mark_inconclusive(report, printable(str(outcome["why"])))


def _mark_inconclusive(report: ReportDocument, why: str) -> None:
    for pair in report.pairs:
        if "board" in (pair.a, pair.b) and pair.verdict == "PASSED":
            pair.verdict, pair.why = "INCONCLUSIVE", why
    report.verdict = worst([pair.verdict for pair in report.pairs])
    report.notes.append(why)


class _ChangingTensor:
    """A tensor that changed, and which of its elements and bits changed so far. first: its value in the first run, None
    if that is not known."""

    def __init__(self, row: UnstableTensor, first: Array | None):
        self.row, self._first = row, None if first is None else np.ascontiguousarray(first)
        self._digests: set[str] = set()
        self._changed: Array | None = None

    def add(self, digest: str, value: Array) -> None:
        """Adds the value of a run in which the tensor differed from the first run."""
        self.row.runs += 1
        self._digests.add(digest)
        self.row.contents = len(self._digests) + 1
        if self._first is None or self._first.shape != value.shape:
            return
        unsigned = np.dtype(f"u{value.dtype.itemsize}")
        differing_bits = np.ascontiguousarray(value).view(unsigned) ^ self._first.view(unsigned)
        self._changed = differing_bits if self._changed is None else self._changed | differing_bits
        self.row.elements = int(np.count_nonzero(self._changed))
        changed_bits = int(np.bitwise_or.reduce(self._changed, axis=None))
        self.row.bits = [b for b in range(8 * unsigned.itemsize) if changed_bits >> b & 1]


def _mark_failed(report: ReportDocument, first: UnstableTensor, times: int, tensors: int) -> None:
    """Sets every pair with the board that is not INCONCLUSIVE to FAILED. first: the first of all unstable tensors.
    times, tensors: number of runs and of unstable tensors."""
    positions = f"{'bit' if len(first.bits) == 1 else 'bits'} {', '.join(map(str, first.bits))}"
    bits = f", {positions} of {count(first.elements, 'element')}" if first.bits else ""
    runs = f"{first.runs} of {count(times - 1, 'more run')} on the same inputs"
    why = f"{first.tensor} is not the same in {runs}{bits} ({count(tensors, 'tensor')} in all)"
    for pair in report.pairs:
        if "board" in (pair.a, pair.b) and pair.verdict != "INCONCLUSIVE":
            pair.verdict, pair.cause, pair.why = "FAILED", "not_deterministic", why
    report.verdict = worst([pair.verdict for pair in report.pairs])
    report.notes.append(f"the board is not deterministic: {why}")


def _plain(row: UnstableTensor) -> dict[str, Any]:
    return {k: getattr(row, k) for k in ("tensor", "node", "runs", "contents", "elements", "bits")}
