"""Explains the difference of a blamed unit: describes it, searches the known faults that give the board's bytes, and
decides between them by experiments on the board."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

import numpy as np

from qverify.triage import evidence
from qverify.triage.case import Case
from qverify.triage.difference_description import DifferenceDescription, describe_difference
from qverify.triage.experiments import (
    Experiment,
    ExperimentBoard,
    ExperimentSeries,
    FallenFault,
    lacking_evidence,
    run_experiments,
)
from qverify.triage.fault import MARGIN_BITS, Candidate, Fault
from qverify.triage.fault_search import FaultSearch, Partial, Watch, complete_partial, search_faults
from qverify.triage.probes import run_probes

MAX_GROUPS = 60  # groups of causes that are tried on the board
MAX_TRIED_OF_GROUP = 16  # causes of one group, which give equal bytes for random inputs but perhaps not for others
NO_BOARD = "no board to try it on (qverify triage -m MODELS -b BOARD decides)"


@dataclass(slots=True)
class FaultExplanation:
    """The explanation of a difference.

    Attributes:
        description: how the recorded output differs.
        exact: groups of causes that give every byte of the board, the most specific first. The causes of a group give
            equal bytes for random inputs, too.
        confirmed: whether experiments on the board confirmed the first group.
        unconfirmed: the reason why they did not.
        general: groups that also give every byte, by a fault that is much less specific than the best.
        experiments: all experiments in the order they ran.
        fallen: causes that gave every recorded byte and failed an experiment.
        partial: the nearest of the faults that do not give every byte.
        families: for each family, the best share of all elements that it reproduces; 1.0 if it reproduces all. A family
            that does not apply to the unit is absent.
        unexplained: whether the bytes differ and no fault that was tried gives them all.
        tried: number of faults that were tried.
        not_tried: families that were not tried, or not completely, with the reason.
        scope: on which other nodes of its op, and in which shapes, the cause was tried, and what they did.
        evidence_bits: the evidence of the experiments for the first cause.
        seconds: duration of the search.
    """

    description: DifferenceDescription
    exact: list[list[Fault]] = field(default_factory=list)
    confirmed: bool = False
    unconfirmed: str = ""
    general: list[list[Fault]] = field(default_factory=list)
    experiments: list[Experiment] = field(default_factory=list)
    fallen: list[FallenFault] = field(default_factory=list)
    partial: list[Partial] = field(default_factory=list)
    families: dict[str, float] = field(default_factory=dict)
    unexplained: bool = False
    tried: int = 0
    not_tried: list[str] = field(default_factory=list)
    scope: str = ""
    evidence_bits: float = 0.0
    seconds: float = 0.0

    @property
    def kinds(self) -> list[str]:
        """The families of the exact causes, the most specific group's first."""
        return list(dict.fromkeys(group[0].family for group in self.exact))


def explain_fault(
    case: Case, deadline_s: float = 20.0, watch: Watch | None = None, board: ExperimentBoard | None = None
) -> FaultExplanation:
    """Explains the case: searches the known faults, then decides between them on the board if there is one."""
    end = time.monotonic() + deadline_s
    search = search_faults(case, deadline_s, watch)
    return describe_search(search) if board is None else decide(search, board, end)


def describe_search(search: FaultSearch) -> FaultExplanation:
    """Returns the explanation that the recorded bytes alone give: candidates, never a confirmed cause."""
    explanation = _explain_without_causes(search)
    _list_groups(explanation, [[c for c in g if c.supported] for g in search.groups], search)
    if explanation.exact:
        bits = evidence.difference_bits(search.case)
        explanation.unconfirmed = (
            f"{NO_BOARD}, and of {search.tried} faults tried some fit by chance ({bits:.0f} bits of evidence)"
        )
    return explanation


def decide(search: FaultSearch, board: ExperimentBoard, deadline: float) -> FaultExplanation:
    """Returns the explanation that experiments on the board give. If they refute every candidate of the search, the
    search goes on in the families that are left. deadline: a time of time.monotonic(). Raises LinkError if the board
    fails."""
    if not search.groups:
        complete_partial(search)
        return _explain_without_causes(search)
    decided = _decide_by_experiments(search, board, deadline)
    withdrawn = (search, decided)
    while not decided.has_cause and search.not_tried and (seconds_left := deadline - time.monotonic()) > 0:
        fallen, finished = decided.series.fallen, search.finished
        search = search_faults(search.case, seconds_left, before=search)
        if search.groups:
            decided = _decide_by_experiments(search, board, deadline)
            decided.series.fallen = [*fallen, *decided.series.fallen]
            withdrawn = (search, decided) if decided.series.standing or not withdrawn[1].series.standing else withdrawn
        elif search.finished == finished:
            break
    return _conclude(search, *withdrawn)


def _conclude(last: FaultSearch, search: FaultSearch, decided: _Decided) -> FaultExplanation:
    """Returns the explanation. last: the last search. search: the one that found the causes that were decided on."""
    series = decided.series
    standing = _keep_standing(search.groups, series.standing)
    if series.confirmed and not standing[0][0].cause.taken:  # a cause that takes elements from the record fits easily
        standing = [group for group in standing if not group[0].cause.taken]
    explanation = _explain_without_causes(last)
    explanation.scope = decided.scope
    explanation.experiments, explanation.fallen = series.experiments, series.fallen
    explanation.confirmed, explanation.unconfirmed = series.confirmed, series.why
    explanation.evidence_bits = round(series.bits, 1)
    listed = standing if series.confirmed or decided.withdrawn else [[c for c in g if c.supported] for g in standing]
    _list_groups(explanation, listed, last)
    return explanation


@dataclass(slots=True)
class _Decided:
    """The decision of experiments and probes. withdrawn: whether the probes refuted all causes that the experiments
    confirmed. scope: where the board is right in the probes, in words."""

    series: ExperimentSeries
    withdrawn: bool = False
    scope: str = ""

    @property
    def has_cause(self) -> bool:
        """Whether a cause still stands."""
        return bool(self.series.standing) and not self.withdrawn


def _decide_by_experiments(search: FaultSearch, board: ExperimentBoard, deadline: float) -> _Decided:
    with np.errstate(all="ignore"):
        groups = search.groups[:MAX_GROUPS]
        candidates = [candidate for group in groups for candidate in group[:MAX_TRIED_OF_GROUP]]
        series = run_experiments(search.case, candidates, board, search.tried, deadline)
    if not series.confirmed or any(run.place != "node" for run in series.experiments):
        return _Decided(series)
    probed = run_probes(search.case, series.standing, series.experiments, board, series.bits, deadline)
    series.experiments = [*series.experiments, *probed.ran]
    series.fallen = [*series.fallen, *probed.fallen]
    if not probed.standing:  # the causes that stood before are candidates only
        series.confirmed, series.why = False, probed.why
        return _Decided(series, withdrawn=True)
    series.standing = probed.standing
    if (why := lacking_evidence(series, search.tried)) is not None:
        series.confirmed, series.why = False, why
    return _Decided(series, scope=probed.scope)


def _keep_standing(groups: list[list[Candidate]], standing: list[Candidate]) -> list[list[Candidate]]:
    """Returns the groups with only those causes that were tried on the board and stand."""
    standing_ids = {id(candidate) for candidate in standing}
    kept = [[candidate for candidate in group if id(candidate) in standing_ids] for group in groups]
    return [group for group in kept if group]


def _explain_without_causes(search: FaultSearch) -> FaultExplanation:
    case = search.case
    return FaultExplanation(
        describe_difference(case.healthy, case.recorded, case.spec),
        partial=search.partial,
        families=search.families,
        tried=search.tried,
        not_tried=search.not_tried,
        unexplained=search.tried > 0,
        seconds=search.seconds,
    )


def _list_groups(explanation: FaultExplanation, groups: list[list[Candidate]], search: FaultSearch) -> None:
    """Adds the causes to the explanation or, if there are none, the nearest faults of the search."""
    causes = [[candidate.cause for candidate in group] for group in groups if group]
    least = min((cause.bits for group in causes for cause in group), default=0.0)
    for group in causes:
        (explanation.exact if group[0].bits <= least + MARGIN_BITS else explanation.general).append(group)
    explanation.unexplained = explanation.tried > 0 and not causes
    if explanation.unexplained:
        complete_partial(search)
        explanation.partial, explanation.families = search.partial, search.families
