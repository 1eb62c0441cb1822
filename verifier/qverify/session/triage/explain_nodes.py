"""Explains the differences at the nodes where a board is blamed: pulls the board's tensors, simulates each unit with
every known fault, and decides between the faults that fit by experiments on the board."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from qverify_agents.errors import LinkError

from qverify.arithmetic.workers import one_blas_thread
from qverify.compare.catalogue import describe
from qverify.compare.forced import Located
from qverify.compare.limits import BITS
from qverify.compare.one_arithmetic import choose_shown
from qverify.model_bin.units import Unit, units
from qverify.plural import count
from qverify.report.document import ReportDocument
from qverify.report.facts import NamedCause
from qverify.session.node_evidence import NodeEvidence, board_tensors, list_verdicts, make_case
from qverify.tensors.find import Find
from qverify.tensors.recording import Array
from qverify.triage.case import Case
from qverify.triage.experiments import ExperimentBoard
from qverify.triage.fault_search import FaultSearch, Watch, search_faults
from qverify.triage.forensics import FaultExplanation, decide, describe_search
from qverify.triage.one_cause import compare_causes
from qverify.triage.plain_faults import plain_pages_of

HISTORY = "stale-buffer"  # the only family of faults that explains why a board's results change from run to run
UNSTEADY = "its bytes change from run to run: no other fault is concluded from one run"
MAX_NODES = 4  # blamed nodes that are explained
SEARCH_SHARE = 0.7  # of the time, for the search; the remainder is for experiments


@dataclass(frozen=True, slots=True)
class ExplainedOutput:
    """One output of a blamed unit, and its explanation.

    Attributes:
        node, op, tensor: the unit's name and op, and the name of the output.
        explanation: None if there is none, for the reason `why`.
        why: why there is no explanation, "" if there is one.
        frame: number of the frame that was explained.
        cost: a text on what the experiments transfer over a slow link, "" for another link.
    """

    node: str
    op: str
    tensor: str
    explanation: FaultExplanation | None
    why: str = ""
    frame: int = 0
    cost: str = ""


def simulated_exactly(located: Iterable[Located]) -> frozenset[str]:
    """Returns the board's outputs that the simulator, when forced, computed with the same bytes, so that they need not
    be computed again. located: the forced verdicts of a report that compared a simulator and a board."""
    verdicts = next((x.forced for x in located if (x.a, x.b) == ("simulator", "board")), {})
    return frozenset(
        name for name, f in verdicts.items() if (f.verdict, f.mismatched, f.limit) == ("PASSED", 0, BITS.text)
    )


def explain_blame(
    report: ReportDocument, evidence: NodeEvidence, deadline_s: float = 20.0, watch: Watch | None = None
) -> list[ExplainedOutput]:
    """Explains every output of the first MAX_NODES nodes where the board is blamed. Returns [] if the board is not
    blamed. deadline_s: time limit for all of them together."""
    with one_blas_thread():
        return _explain_blame(report, evidence, deadline_s, watch)


def _explain_blame(
    report: ReportDocument, evidence: NodeEvidence, deadline_s: float, watch: Watch | None
) -> list[ExplainedOutput]:
    blamed = next((b for b in report.blamed if b.side == "board"), None)
    if blamed is None:
        return []
    graph, end = evidence.graph, time.monotonic() + deadline_s
    by_name, unsteady = {unit.name: unit for unit in units(graph)}, _unsteady(report)
    names = [*([] if blamed.region else [blamed.node]), *blamed.also]  # a region's inner tensors are not known
    chosen = [by_name[n] for n in names[:MAX_NODES]]
    outputs = [(unit, name) for unit in chosen for name in unit.outputs if not graph.spec(name).interior]
    board, explained = board_tensors(evidence), list[ExplainedOutput]()
    searches = dict[str, FaultSearch]()
    search_end = end if evidence.board is None else time.monotonic() + SEARCH_SHARE * deadline_s
    for at, (unit, name) in enumerate(outputs):
        if name in evidence.frozen:
            explained.append(ExplainedOutput(unit.name, unit.op, name, None, evidence.frozen[name]))
            continue
        if given := _describe_arithmetic(report, name):
            explained.append(ExplainedOutput(unit.name, unit.op, name, None, given))
            continue
        share_s = max(0.0, (search_end - time.monotonic()) / (len(outputs) - at))
        output, search = _search_output(unit, name, evidence, board, share_s, watch)
        kinds = output.explanation.kinds[:1] if output.explanation is not None else []
        hidden = name in unsteady and kinds != [HISTORY]
        explained.append(replace(output, explanation=None, why=UNSTEADY) if hidden else output)
        if search is not None and not hidden:
            searches[name] = search
    if evidence.board is not None:
        evidence.board.until = end
        explained = [
            _run_experiments(output, searches.get(output.tensor), evidence.board, end, watch) for output in explained
        ]
    explanations = {output.tensor: output.explanation for output in explained if output.explanation is not None}
    compare_causes(searches, explanations, _other_cases(evidence, chosen, board), end)
    return [_keep_recorded(output, blamed.cause) for output in explained]


def _keep_recorded(output: ExplainedOutput, cause: NamedCause | None) -> ExplainedOutput:
    """Returns the explanation of an output. If there is none, the cause that the main job names is the candidate: a board
    that rounds in its own way differs from every prediction in some elements."""
    explanation = output.explanation
    if cause is None or cause.tensor != output.tensor or (explanation is not None and explanation.exact):
        return output
    why = f"CANDIDATE: {cause.line.removeprefix('cause: ')}; not confirmed: the board rounds in its own way"
    return replace(output, explanation=None, why=why)


def _describe_arithmetic(report: ReportDocument, tensor: str) -> str:
    """Returns the explanation of an output of which an arithmetic of the catalogue gives every element, as the main job
    names it; "" if none does, or chance could."""
    verdicts = list_verdicts(report.pairs, "board")
    if tensor not in verdicts or not (name := choose_shown(verdicts[tensor], verdicts.values())):
        return ""
    found = verdicts[tensor]
    differ = (
        f"{found.mismatched} of {count(found.elements, 'element')} {'differs' if found.mismatched == 1 else 'differ'}"
    )
    return f"EXPLAINED: {describe(name)} gives every element; {differ} from the model's own rounding"


class BlameExplainer:
    """Explains the first frame whose board is blamed. If that is the very first frame of the run, a later one is
    explained as well, because only then it is known what the frame before may have left in a buffer. seconds: time
    limit of the search in a frame; 0: nothing is explained."""

    def __init__(self, seconds: float):
        self._seconds, self._knew_previous_frame = seconds, False
        self._previous_frame: dict[str, Array] = {}  # the inputs and the simulator's tensors of the frame before
        self.explained: list[ExplainedOutput] = []

    def frame(self, report: ReportDocument, evidence: NodeEvidence, number: int, watch: Watch | None = None) -> None:
        """Explains the frame if it is one of those to explain. number: of the frame."""
        previous, simulated = self._previous_frame, evidence.recordings.get("simulator")
        self._previous_frame = {} if simulated is None else {**simulated.tensors, **evidence.inputs}
        if self._seconds <= 0 or (self.explained and (self._knew_previous_frame or not previous)):
            return
        if explained := explain_blame(report, replace(evidence, previous=previous.get), self._seconds, watch):
            self.explained = [replace(output, frame=number) for output in explained]
            self._knew_previous_frame = bool(previous)


def _unsteady(report: ReportDocument) -> frozenset[str]:
    """Returns the tensors that changed between the runs of --repeat."""
    return frozenset(str(row["tensor"]) for row in (report.repeat or {}).get("unstable", []))


def _search_output(
    unit: Unit, name: str, evidence: NodeEvidence, board: tuple[Find, Find], deadline_s: float, watch: Watch | None
) -> tuple[ExplainedOutput, FaultSearch | None]:
    """Searches for faults that explain one output of a unit. Returns the result, and the search for later experiments;
    None if the board's tensors are not available."""
    case, lacking = make_case(unit, name, evidence, board)
    if case is None:
        return ExplainedOutput(unit.name, unit.op, name, None, f"the board's {lacking} is not available"), None
    sides = evidence.recordings.values()
    is_foreign = any(side.side == "board" and side.runtime != "qvrt" for side in sides)
    search = search_faults(case, deadline_s, watch, first=plain_pages_of(case) if is_foreign else ())
    return ExplainedOutput(unit.name, unit.op, name, describe_search(search)), search


def _run_experiments(
    output: ExplainedOutput, search: FaultSearch | None, board: ExperimentBoard, end: float, watch: Watch | None
) -> ExplainedOutput:
    """Returns the output with the explanation that experiments on the board confirm. If an experiment cannot be run,
    the explanation states that it is not confirmed."""
    if search is None or output.explanation is None or not search.groups:
        return output
    cost = board.cost(search.case)
    if watch is not None:
        watch(cost or "experiments", 0, 1)
    try:
        return replace(output, explanation=decide(search, board, end), cost=cost)
    except LinkError as error:
        output.explanation.unconfirmed = f"an experiment could not be run: {' '.join(str(error).split())}"
        return output


def _other_cases(evidence: NodeEvidence, blamed: list[Unit], board: tuple[Find, Find]) -> Iterator[Case]:
    """Yields the cases of the nodes that are not blamed, but have the same op as a blamed one."""
    names, ops = {unit.name for unit in blamed}, {unit.op for unit in blamed}
    for unit in units(evidence.graph):
        if unit.op in ops and unit.name not in names:
            for name in unit.outputs:
                case = None if evidence.graph.spec(name).interior else make_case(unit, name, evidence, board, True)[0]
                if case is not None and name in evidence.exact:
                    case.cache["healthy"] = case.recorded
                if case is not None:
                    yield case
