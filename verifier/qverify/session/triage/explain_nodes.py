"""What a job found at its blamed node, explained: the board's tensors are pulled for it and the unit runs under every fault."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial

from qverify.model_bin.graph import Graph
from qverify.model_bin.units import Unit, units
from qverify.report.document import Report
from qverify.session.run_evidence import Pull, board_values
from qverify.tensors.recording import Array, Recording
from qverify.triage.case import Case, Find, nothing
from qverify.triage.forensics import FaultExplanation, Watch, explain_fault

HISTORY = "stale-buffer"  # the family that alone tells why a board may differ from itself
UNSTEADY = "its bytes change from run to run: no other fault is concluded from one run"
MOST_NODES = 4  # where the board is blamed


@dataclass(frozen=True, slots=True)
class Explained:
    """One output of the blamed unit. explanation: None where the board's tensors cannot be had; why says so."""

    node: str
    op: str
    tensor: str
    explanation: FaultExplanation | None
    why: str = ""
    frame: int = 0


@dataclass(slots=True)
class NodeEvidence:
    """recordings: by label, as judged. inputs: of the graph. pull: Board.pull, must still reach the board, for tensors it has
    not sent. previous: the frame before, by tensor name."""

    recordings: Mapping[str, Recording]
    graph: Graph
    inputs: Mapping[str, Array]
    pull: Pull | None = None
    previous: Find = nothing


def explain_blame(
    report: Report, evidence: NodeEvidence, deadline_s: float = 20.0, watch: Watch | None = None
) -> list[Explained]:
    """Every output of the nodes where the board is blamed, the first few of them; empty where the board is not blamed.
    deadline_s: for them all."""
    blamed = next((b for b in report.blamed if b.side == "board"), None)
    if blamed is None:
        return []
    graph, end = evidence.graph, time.monotonic() + deadline_s
    by_name, unsteady = {unit.name: unit for unit in units(graph)}, _unsteady(report)
    chosen = [by_name[n] for n in (blamed.node, *blamed.also)[:MOST_NODES]]
    todo = [(unit, name) for unit in chosen for name in unit.outputs if not graph.spec(name).interior]
    board, found = board_tensors(evidence), list[Explained]()
    for at, (unit, name) in enumerate(todo):
        share = max(0.0, (end - time.monotonic()) / (len(todo) - at))
        one = _explained(unit, name, evidence, board, share, watch)
        told = one.explanation.kinds[:1] if one.explanation is not None else []
        hidden = name in unsteady and told != [HISTORY]
        found.append(replace(one, explanation=None, why=UNSTEADY) if hidden else one)
    return found


class Blamed:
    """The first frame with a blamed board, explained. Once more where the first frame of all was it: only a later one can
    tell what the frame before left in a buffer. seconds: of a frame's search, 0 for none."""

    def __init__(self, seconds: float):
        self._seconds, self._knew_before = seconds, False
        self._before: dict[str, Array] = {}  # the simulator's tensors of the frame before
        self.explained: list[Explained] = []

    def frame(self, report: Report, evidence: NodeEvidence, number: int) -> None:
        before, simulated = self._before, evidence.recordings.get("simulator")
        self._before = {} if simulated is None else dict(simulated.tensors)
        if self._seconds <= 0 or (self.explained and (self._knew_before or not before)):
            return
        if found := explain_blame(report, replace(evidence, previous=before.get), self._seconds):
            self.explained, self._knew_before = [replace(f, frame=number) for f in found], bool(before)


def _unsteady(report: Report) -> frozenset[str]:
    """Tensors that --repeat saw change."""
    return frozenset(str(row["tensor"]) for row in (report.repeat or {}).get("unstable", []))


def _explained(
    unit: Unit, name: str, evidence: NodeEvidence, board: tuple[Find, Find], deadline_s: float, watch: Watch | None
) -> Explained:
    given = {n: board[0](n) for n in (*unit.inputs, name)}
    lacking = [n for n, value in given.items() if value is None]
    if lacking:
        return Explained(unit.name, unit.op, name, None, f"the board's {lacking[0]} cannot be had")
    recorded = given.pop(name)
    assert recorded is not None
    came = {n: v for n, v in given.items() if v is not None}
    case = Case(evidence.graph, unit, came, name, recorded, board[1], evidence.previous)
    found = explain_fault(case, deadline_s, watch)
    return Explained(unit.name, unit.op, name, found)


def board_tensors(evidence: NodeEvidence) -> tuple[Find, Find]:
    """The board's tensors by name, None where they cannot be had: pulled where they must be; and only what is here already,
    held by the board's recording or under the same digest by another side's, so that no link carries a whole dump."""
    values = board_values(evidence.recordings, evidence.pull)
    if values is None:
        return nothing, nothing
    known = values.recording.specs

    def find(name: str, get: Callable[[str], Array | None]) -> Array | None:
        if name in evidence.inputs:
            return evidence.inputs[name]
        spec, value = evidence.graph.tensors.get(name), get(name) if name in known else None
        fits = spec is not None and value is not None and (value.shape, value.dtype) == (spec.shape, spec.numpy_dtype)
        return value if fits else None

    return partial(find, get=values.get), partial(find, get=values.held)
