"""Names the cause at the node where a side that is not qvrt is blamed, from the recording alone, below the blame."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from qverify.compare.one_arithmetic import choose_shown
from qverify.model_bin.units import units
from qverify.report.document import Blame, Pair, ReportDocument
from qverify.session.node_evidence import NodeEvidence, as_stored, board_tensors, list_verdicts, make_case
from qverify.tensors.find import Find, find_nothing
from qverify.tensors.recording import Array, Recording

CPU_S = 2.0  # seconds of computing at one output
MOST_ELEMENTS = 1 << 22  # of an output, beyond which computing it a few times takes longer
MOST_SEARCHES = 4  # in a run of many frames
MOST_AT_NODE = 2  # the second one knows what the frame before may have left in a buffer


@dataclass(slots=True)
class CauseFinder:
    """Searches the causes of one board, frame by frame: at the first blamed node of a frame, until a cause of this node
    is named."""

    _searched: Counter[str] = field(default_factory=Counter)
    _named: set[str] = field(default_factory=set)
    _previous: Find = find_nothing

    def add(self, report: ReportDocument, evidence: NodeEvidence, frame: int = 0) -> None:
        """Adds the cause to the blame of a board that is not qvrt, if one is found."""
        board = next((r for r in evidence.recordings.values() if r.side == "board"), None)
        if board is None or board.runtime == "qvrt":
            return
        evidence = replace(evidence, previous=self._previous)
        self._previous = _find_in(board, evidence)
        blame = next((b for b in report.blamed if b.side == "board"), None)
        if blame is None or blame.node in self._named or self._searched.total() >= MOST_SEARCHES:
            return
        self._searched[blame.node] += 1
        if self._searched[blame.node] <= MOST_AT_NODE:
            name_cause(blame, report.pairs, evidence, frame)
        if blame.cause is not None:
            self._named.add(blame.node)


def name_cause(blame: Blame, pairs: Iterable[Pair], evidence: NodeEvidence, frame: int = 0) -> None:
    """Sets the blame's cause to the known faults that give what its side recorded at its node, if there are any. A node
    of which an arithmetic of the catalogue gives every element is left as it is, for the reason of the blame names it."""
    from qverify.triage.recorded_cause import find_recorded_cause  # only a blamed node needs triage

    unit = next((u for u in units(evidence.graph) if u.name == blame.node), None)
    if unit is None or blame.region is not None:
        return
    verdicts = list_verdicts(pairs, blame.side)
    given = {name for name, found in verdicts.items() if choose_shown(found, verdicts.values())}
    tensors = board_tensors(evidence, blame.side)
    for name in unit.outputs:
        spec, case = evidence.graph.spec(name), None
        if name not in given and not spec.interior and spec.elements <= MOST_ELEMENTS:
            case, _ = make_case(unit, name, evidence, tensors)
        if case is not None and blame.cause is None:
            blame.cause = find_recorded_cause(case, CPU_S, frame)


def _find_in(board: Recording, evidence: NodeEvidence) -> Find:
    """Returns the function that looks up a tensor of this frame, of those that are in memory: the board's, or else the
    simulator's."""
    simulator = next((r for r in evidence.recordings.values() if r.side == "simulator"), None)
    kept = [r.tensors for r in (board, simulator) if r is not None and isinstance(r.tensors, dict)]
    graph, inputs = evidence.graph, evidence.inputs

    def find(name: str) -> Array | None:
        if name in inputs:
            return inputs[name]
        value = next((tensors[name] for tensors in kept if name in tensors), None)
        return None if value is None or name not in graph.tensors else as_stored(value, graph.spec(name))

    return find
