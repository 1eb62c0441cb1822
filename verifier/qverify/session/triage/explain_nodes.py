"""Explains the difference at a job's blamed nodes: pulls the board's tensors, runs each unit under every known fault,
and lets experiments on the board decide between those that fit."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial

from qverify_agents.errors import LinkError

from qverify.arithmetic.workers import one_blas_thread
from qverify.compare.forced import Located
from qverify.compare.limits import BITS
from qverify.model_bin.graph import Graph
from qverify.model_bin.units import Unit, units
from qverify.report.document import Report
from qverify.session.run_evidence import Pull, board_values
from qverify.tensors.recording import Array, Recording
from qverify.triage.case import Case, Find, nothing
from qverify.triage.experiments import ExperimentBoard
from qverify.triage.fault_search import FaultSearch, Watch, search_faults
from qverify.triage.forensics import FaultExplanation, decide, describe_search
from qverify.triage.one_cause import compare_causes

HISTORY = "stale-buffer"  # the family that alone tells why a board may differ from itself
UNSTEADY = "its bytes change from run to run: no other fault is concluded from one run"
MOST_NODES = 4  # where the board is blamed
SEARCH_SHARE = 0.7  # of the time; the rest is for experiments


@dataclass(frozen=True, slots=True)
class Explained:
    """One output of the blamed unit. explanation: None where the board's tensors are not available, for the reason why.
    cost: what the experiments take on a slow link, in words."""

    node: str
    op: str
    tensor: str
    explanation: FaultExplanation | None
    why: str = ""
    frame: int = 0
    cost: str = ""


@dataclass(slots=True)
class NodeEvidence:
    """What an explanation needs. recordings: by label, as judged. inputs: of the graph. pull: Board.pull of a board
    that is still connected, for tensors it has not sent. previous: returns a tensor of the frame before by name. board:
    for experiments; None where no board is connected. exact: outputs that the simulator gives bit for bit from the
    board's inputs (simulated_exactly)."""

    recordings: Mapping[str, Recording]
    graph: Graph
    inputs: Mapping[str, Array]
    pull: Pull | None = None
    previous: Find = nothing
    board: ExperimentBoard | None = None
    exact: frozenset[str] = frozenset()


def simulated_exactly(located: Iterable[Located]) -> frozenset[str]:
    """Returns the board's outputs that were forced on the simulator and have the same bytes there, so that nobody needs
    to compute them again. located: of a report that compared a simulator and a board."""
    verdicts = next((x.forced for x in located if (x.a, x.b) == ("simulator", "board")), {})
    return frozenset(
        name for name, f in verdicts.items() if (f.verdict, f.mismatched, f.limit) == ("PASSED", 0, BITS.text)
    )


def explain_blame(
    report: Report, evidence: NodeEvidence, deadline_s: float = 20.0, watch: Watch | None = None
) -> list[Explained]:
    """Explains every output of the first few nodes where the board is blamed; [] where the board is not blamed.
    deadline_s: for all of them together."""
    with one_blas_thread():
        return _explain_blame(report, evidence, deadline_s, watch)


def _explain_blame(report: Report, evidence: NodeEvidence, deadline_s: float, watch: Watch | None) -> list[Explained]:
    blamed = next((b for b in report.blamed if b.side == "board"), None)
    if blamed is None:
        return []
    graph, end = evidence.graph, time.monotonic() + deadline_s
    by_name, unsteady = {unit.name: unit for unit in units(graph)}, _unsteady(report)
    chosen = [by_name[n] for n in (blamed.node, *blamed.also)[:MOST_NODES]]
    todo = [(unit, name) for unit in chosen for name in unit.outputs if not graph.spec(name).interior]
    board, explained = board_tensors(evidence), list[Explained]()
    searches = dict[str, FaultSearch]()
    stop = end if evidence.board is None else time.monotonic() + SEARCH_SHARE * deadline_s
    for at, (unit, name) in enumerate(todo):
        share = max(0.0, (stop - time.monotonic()) / (len(todo) - at))
        one, search = _searched(unit, name, evidence, board, share, watch)
        kinds = one.explanation.kinds[:1] if one.explanation is not None else []
        hidden = name in unsteady and kinds != [HISTORY]
        explained.append(replace(one, explanation=None, why=UNSTEADY) if hidden else one)
        if search is not None and not hidden:
            searches[name] = search
    if evidence.board is not None:
        evidence.board.until = end
        explained = [_decided(one, searches.get(one.tensor), evidence.board, end, watch) for one in explained]
    known = {one.tensor: one.explanation for one in explained if one.explanation is not None}
    compare_causes(searches, known, _other_cases(evidence, chosen, board), end)
    return explained


class Blamed:
    """The explanation of the first frame with a blamed board. A later frame is explained once more if that was the very
    first frame, because only a later one shows what the frame before left in a buffer. seconds: limit of a frame's
    search, 0 for none."""

    def __init__(self, seconds: float):
        self._seconds, self._knew_before = seconds, False
        self._before: dict[str, Array] = {}  # the inputs and the simulator's tensors of the frame before
        self.explained: list[Explained] = []

    def frame(self, report: Report, evidence: NodeEvidence, number: int, watch: Watch | None = None) -> None:
        """Explains this frame where it is one of those to explain."""
        before, simulated = self._before, evidence.recordings.get("simulator")
        self._before = {} if simulated is None else {**simulated.tensors, **evidence.inputs}
        if self._seconds <= 0 or (self.explained and (self._knew_before or not before)):
            return
        if explained := explain_blame(report, replace(evidence, previous=before.get), self._seconds, watch):
            self.explained, self._knew_before = [replace(f, frame=number) for f in explained], bool(before)


def _unsteady(report: Report) -> frozenset[str]:
    """Returns the tensors that changed between the runs of --repeat."""
    return frozenset(str(row["tensor"]) for row in (report.repeat or {}).get("unstable", []))


def _searched(
    unit: Unit, name: str, evidence: NodeEvidence, board: tuple[Find, Find], deadline_s: float, watch: Watch | None
) -> tuple[Explained, FaultSearch | None]:
    case, lacking = _case(unit, name, evidence, board)
    if case is None:
        return Explained(unit.name, unit.op, name, None, f"the board's {lacking} is not available"), None
    search = search_faults(case, deadline_s, watch)
    return Explained(unit.name, unit.op, name, describe_search(search)), search


def _case(
    unit: Unit, name: str, evidence: NodeEvidence, board: tuple[Find, Find], held: bool = False
) -> tuple[Case | None, str]:
    """Returns the case, or None and the tensor that is not available. held: only of tensors that are on the host."""
    values = {n: board[held](n) for n in (*unit.inputs, name)}
    lacking = [n for n, value in values.items() if value is None]
    if lacking:
        return None, lacking[0]
    recorded = values.pop(name)
    assert recorded is not None
    inputs = {n: v for n, v in values.items() if v is not None}
    return Case(evidence.graph, unit, inputs, name, recorded, board[1], evidence.previous), ""


def _decided(
    one: Explained, search: FaultSearch | None, board: ExperimentBoard, end: float, watch: Watch | None
) -> Explained:
    if search is None or one.explanation is None or not search.groups:
        return one
    cost = board.cost(search.case)
    if watch is not None:
        watch(cost or "experiments", 0, 1)
    try:
        return replace(one, explanation=decide(search, board, end), cost=cost)
    except LinkError as error:
        one.explanation.unconfirmed = f"an experiment could not be run: {' '.join(str(error).split())}"
        return one


def _other_cases(evidence: NodeEvidence, blamed: list[Unit], board: tuple[Find, Find]) -> Iterator[Case]:
    """Yields the cases of the nodes that are not blamed, of those ops that are."""
    names, ops = {unit.name for unit in blamed}, {unit.op for unit in blamed}
    for unit in units(evidence.graph):
        if unit.op in ops and unit.name not in names:
            for name in unit.outputs:
                case = None if evidence.graph.spec(name).interior else _case(unit, name, evidence, board, True)[0]
                if case is not None and name in evidence.exact:
                    case.kept["made"] = case.recorded
                if case is not None:
                    yield case


def board_tensors(evidence: NodeEvidence) -> tuple[Find, Find]:
    """Returns two functions from a name to the board's tensor, or None where it is not available. The first pulls it
    where it must; the second finds only what is on the host already, in the board's recording or with the same digest
    in another side's, so that a search does not transfer a whole dump."""
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

    return partial(find, get=values.get), partial(find, get=values.get_local)
