"""Explains a blamed unit's difference: describes it, searches known faults that give the board's bytes, and lets
experiments on the board decide between them."""

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
from qverify.triage.fault import Candidate, Fault
from qverify.triage.fault_search import FaultSearch, Partial, Watch, complete_partial, search_faults
from qverify.triage.probes import run_probes

MOST_CANDIDATES = 60  # groups of causes that are tried on the board
MARGIN = 10.0  # bits by which a cause may be less specific than the best and still be named beside it
TRIED_OF_GROUP = 16  # causes that give equal bytes for random inputs; other inputs may tell them apart
NO_BOARD = "no board to try it on (qverify triage -m MODELS -b BOARD decides)"


@dataclass(slots=True)
class FaultExplanation:
    """What explains a difference. exact: groups of causes that give every byte of the board, the most specific first;
    the causes of a group give equal bytes for other inputs, too. confirmed: whether experiments on the board decided for
    the first of them; unconfirmed: why not. general: groups that also give every byte, by a fault much less specific
    than the best. experiments: in the order they ran. fallen: causes that gave every recorded byte and failed an
    experiment. partial: the best of the rest. families: each family's best share of all elements, 1.0 where it
    reproduces all; a family that does not apply to the unit is absent. unexplained: the bytes differ and no fault that
    was tried gives them all. evidence_bits: of the experiments, for the first cause. scope: on which other nodes of its
    op the cause was tried, and what they did."""

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
    """Explains the case: search_faults, then describe_search, then decide where there is a board."""
    end = time.monotonic() + deadline_s
    search = search_faults(case, deadline_s, watch)
    return describe_search(search) if board is None else decide(search, board, end)


def describe_search(search: FaultSearch) -> FaultExplanation:
    """Returns what the recorded bytes alone say: candidates, never a confirmed cause."""
    explanation = _described(search)
    _list_groups(explanation, [[c for c in g if c.supported] for g in search.groups], search)
    if explanation.exact:
        bits = evidence.difference_bits(search.case)
        explanation.unconfirmed = (
            f"{NO_BOARD}, and of {search.tried} faults tried some fit by chance ({bits:.0f} bits of evidence)"
        )
    return explanation


def decide(search: FaultSearch, board: ExperimentBoard, deadline: float) -> FaultExplanation:
    """Returns what experiments on the board say of the search's candidates. deadline: on time.monotonic()'s clock.
    Raises LinkError where the board fails."""
    if not search.groups:
        complete_partial(search)
        return _described(search)
    decided = _experiment(search, board, deadline)
    withdrawn = (search, decided)
    while not decided.holds and search.not_tried and (left := deadline - time.monotonic()) > 0:
        fallen, finished = decided.series.fallen, search.finished
        search = search_faults(search.case, left, before=search)
        if search.groups:
            decided = _experiment(search, board, deadline)
            decided.series.fallen = [*fallen, *decided.series.fallen]
            withdrawn = (search, decided) if decided.series.standing or not withdrawn[1].series.standing else withdrawn
        elif search.finished == finished:
            break
    return _conclude(search, *withdrawn)


def _conclude(last: FaultSearch, search: FaultSearch, decided: _Decided) -> FaultExplanation:
    """Returns the explanation. last: the search that ended last; search: the one whose causes were decided."""
    series = decided.series
    standing = _left(search.groups, series.standing)
    if series.confirmed and not standing[0][0].cause.taken:  # what takes elements from the record fits anything
        standing = [group for group in standing if not group[0].cause.taken]
    explanation = _described(last)
    explanation.scope = decided.scope
    explanation.experiments, explanation.fallen = series.experiments, series.fallen
    explanation.confirmed, explanation.unconfirmed = series.confirmed, series.why
    explanation.evidence_bits = round(series.bits, 1)
    listed = standing if series.confirmed or decided.withdrawn else [[c for c in g if c.supported] for g in standing]
    _list_groups(explanation, listed, last)
    return explanation


@dataclass(slots=True)
class _Decided:
    """What experiments and probes decided. withdrawn: whether causes stood that the probes withdrew. scope: of the
    probes."""

    series: ExperimentSeries
    withdrawn: bool = False
    scope: str = ""

    @property
    def holds(self) -> bool:
        """Whether a cause stands."""
        return bool(self.series.standing) and not self.withdrawn


def _experiment(search: FaultSearch, board: ExperimentBoard, deadline: float) -> _Decided:
    with np.errstate(all="ignore"):
        groups = search.groups[:MOST_CANDIDATES]
        candidates = [candidate for group in groups for candidate in group[:TRIED_OF_GROUP]]
        series = run_experiments(search.case, candidates, board, search.tried, deadline)
    if not series.confirmed or any(run.place != "node" for run in series.experiments):
        return _Decided(series)
    probed = run_probes(search.case, series.standing, series.experiments, board, series.bits, deadline)
    series.experiments = [*series.experiments, *probed.ran]
    series.fallen = [*series.fallen, *probed.fallen]
    if not probed.standing:  # those that stood before are candidates
        series.confirmed, series.why = False, probed.why
        return _Decided(series, withdrawn=True)
    series.standing = probed.standing
    if (why := lacking_evidence(series, search.tried)) is not None:
        series.confirmed, series.why = False, why
    return _Decided(series, scope=probed.scope)


def _left(groups: list[list[Candidate]], standing: list[Candidate]) -> list[list[Candidate]]:
    """Returns what is left of the groups: only causes that were tried on the board and stood."""
    held = {id(candidate) for candidate in standing}
    left = [[candidate for candidate in group if id(candidate) in held] for group in groups]
    return [group for group in left if group]


def _described(search: FaultSearch) -> FaultExplanation:
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
    """Enters the causes; where there are none, the search's nearest faults."""
    causes = [[candidate.cause for candidate in group] for group in groups if group]
    least = min((cause.bits for group in causes for cause in group), default=0.0)
    for group in causes:
        (explanation.exact if group[0].bits <= least + MARGIN else explanation.general).append(group)
    explanation.unexplained = explanation.tried > 0 and not causes
    if explanation.unexplained:
        complete_partial(search)
        explanation.partial, explanation.families = search.partial, search.families
