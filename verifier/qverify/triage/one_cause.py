"""Compares the causes of several nodes: one kernel has one fault, so nodes of one op do not have three."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np

from qverify.plural import count
from qverify.triage.case import Case, bits
from qverify.triage.cause_kind import MEASURED, Kind, describe_exactly, describe_kind, variants_of
from qverify.triage.experiments import predict
from qverify.triage.fault import Fault
from qverify.triage.fault_search import FaultSearch
from qverify.triage.forensics import FaultExplanation

MOST_OTHERS = 8  # nodes of an op that are not blamed and on which a cause is tried
MOST_FAMILIES = 3  # of causes that do the same at a node and that healthy nodes contradict
ALONE = 400.0  # bits of evidence for a cause that other nodes of its op do not have
NOT_ALL = "not tried on all other nodes of its op: the time limit was reached"
MOST_ALTERNATIVES = 8  # causes of a node that are tried on others
PLACES = ("resize-mode", "resize-nearest-source")


def compare_causes(
    searches: Mapping[str, FaultSearch],
    explanations: Mapping[str, FaultExplanation],
    others: Iterable[Case],
    deadline: float,
) -> None:
    """Withdraws the confirmation of causes that contradict each other, and says on which other nodes of the op a
    confirmed cause was tried. searches, explanations: by output. others: cases of nodes that are not blamed."""
    for op in dict.fromkeys(search.case.unit.op for search in searches.values()):
        names = [n for n, search in searches.items() if search.case.unit.op == op and n in explanations]
        _compare_blamed(op, {n: (searches[n], explanations[n]) for n in names})
    for found in explanations.values():
        if found.confirmed and all(MEASURED.match(cause.said) for cause in found.exact[0]):
            _withdraw(found, "this limit is what the board shows, not what makes it")
        elif found.confirmed and len(rules := _rules_of_places(found)) > 1:
            _withdraw(found, f"{count(len(rules), 'rule')} of places give the same at this size, and others may")
    tallies, whole = _try_on_others(searches, explanations, others, deadline)
    for name, by_kind in tallies.items():
        _judge_by_others(searches[name].case, explanations[name], by_kind)
    for found in explanations.values():
        if found.confirmed and not whole:
            found.scope = "; ".join(filter(None, (found.scope, NOT_ALL)))


def _try_on_others(
    searches: Mapping[str, FaultSearch],
    explanations: Mapping[str, FaultExplanation],
    others: Iterable[Case],
    deadline: float,
) -> tuple[dict[str, dict[Kind, _Tally]], bool]:
    """Returns, by output and kind of cause, what the confirmed causes predict for nodes that are not blamed, and whether
    there was time for all."""
    tallies = dict[str, dict[Kind, _Tally]]()
    for case in others:
        for name, search in searches.items():
            if time.monotonic() > deadline:
                return tallies, False
            if search.case.unit.op == case.unit.op and explanations[name].confirmed:
                kinds = list(dict.fromkeys(describe_kind(search.case, c) for c in explanations[name].exact[0]))
                for kind in kinds[:MOST_ALTERNATIVES]:
                    tallies.setdefault(name, {}).setdefault(kind, _Tally()).add(case, kind)
    return tallies, True


def _judge_by_others(case: Case, found: FaultExplanation, by_kind: Mapping[Kind, _Tally]) -> None:
    """Keeps the causes that no healthy node contradicts, where there are such, and says what these nodes do."""
    right = {kind for kind, tally in by_kind.items() if tally.fit and not tally.contradict}
    found.exact[0] = _kept(case, found.exact[0], right, describe_kind)
    tally = by_kind.get(describe_kind(case, found.exact[0][0]), _Tally())
    found.scope = "; ".join(filter(None, (found.scope, tally.describe(case.unit.op))))
    families = {cause.family for cause in found.exact[0]}
    why = f"under the same fault {next(iter(tally.contradict), '')} would differ, and it is right"
    if tally.contradict and found.evidence_bits < ALONE:
        _withdraw(found, f"{why}; {found.evidence_bits:.0f} bits of evidence, where {ALONE:.0f} were wanted")
    elif tally.contradict and len(families) > MOST_FAMILIES:
        _withdraw(found, f"{why}; and faults of {len(families)} families do the same here")


def _compare_blamed(op: str, nodes: Mapping[str, tuple[FaultSearch, FaultExplanation]]) -> None:
    confirmed = {n: found for n, (_, found) in nodes.items() if found.confirmed}
    if not confirmed or len(nodes) < 2:
        return
    shared = _shared(nodes, confirmed, describe_kind)
    if not shared:
        for found in confirmed.values():
            _withdraw(
                found, f"{count(len(confirmed), 'node')} of this op have different causes, and one kernel has one"
            )
        return
    alike = _shared(nodes, confirmed, describe_exactly)
    for name, found in confirmed.items():
        case = nodes[name][0].case
        describe, wanted = (describe_exactly, alike) if alike else (describe_kind, shared)
        found.exact.sort(key=lambda group: not any(describe(case, c) in wanted for c in group))
        found.exact[0] = _kept(case, found.exact[0], wanted, describe)
    for name, (search, found) in nodes.items():
        if (
            name not in confirmed
            and found.description.differing
            and not any(_fits(search.case, kind) for kind in shared)
        ):
            for one in confirmed.values():
                _withdraw(one, f"{name}, another {op} at which the board is blamed, does not have this cause")
            return


def _rules_of_places(found: FaultExplanation) -> set[str]:
    """Returns the coordinate rules of a nearest resize among the causes: no input tells those from each other that read
    the same elements at this node's size."""
    return {cause.said for cause in found.exact[0] if cause.family in PLACES}


def _shared(
    nodes: Mapping[str, tuple[FaultSearch, FaultExplanation]],
    confirmed: Mapping[str, FaultExplanation],
    describe: Callable[[Case, Fault], Kind],
) -> set[Kind]:
    """Returns what causes of all these nodes have in common."""
    return set.intersection(
        *({describe(nodes[n][0].case, c) for g in f.exact for c in g} for n, f in confirmed.items())
    )


def _kept(case: Case, group: list[Fault], kinds: set[Kind], describe: Callable[[Case, Fault], Kind]) -> list[Fault]:
    """Returns the causes of these kinds, or all where none is."""
    return [cause for cause in group if describe(case, cause) in kinds] or group


def _withdraw(found: FaultExplanation, why: str) -> None:
    found.confirmed, found.unconfirmed = False, why


def _fits(case: Case, kind: tuple[str, str]) -> bool | None:
    """Returns whether a fault of this kind gives the recorded bytes; None where the kind does not apply."""
    known = False
    with np.errstate(all="ignore"):
        for candidate in variants_of(case, kind):
            output = predict(case, candidate)
            if output is not None and (bits(output) == bits(case.recorded)).all():
                return True
            known = known or output is not None
    return False if known else None


@dataclass(slots=True)
class _Tally:
    """fit, contradict: healthy nodes at which the cause predicts what the board gave, and something else."""

    fit: list[str] = field(default_factory=list)
    contradict: list[str] = field(default_factory=list)

    def add(self, case: Case, kind: tuple[str, str]) -> None:
        if len(self.fit) + len(self.contradict) < MOST_OTHERS and (fits := _fits(case, kind)) is not None:
            (self.fit if fits else self.contradict).append(case.output)

    def describe(self, op: str) -> str:
        if self.contradict:
            others = len(self.contradict) - 1
            first = self.contradict[0] + (f" and {count(others, 'other')}" if others else "")
            right = "they are right" if others else "it is right"
            return f"at this node only: under the same fault {first} would differ, and {right}"
        if not self.fit:
            return ""
        agree = count(len(self.fit), f"other {op} node", "agrees, and it does", "agree, and they do")
        return f"it predicts that {agree}"
