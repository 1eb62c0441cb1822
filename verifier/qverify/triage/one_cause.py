"""Compares the causes of several nodes: a kernel has one fault, so the nodes of one op have a cause in common."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np

from qverify.plural import count
from qverify.triage.case import Case, element_bits
from qverify.triage.cause_kind import MEASURED, Kind, describe_exactly, describe_kind, variants_of
from qverify.triage.experiments import predict
from qverify.triage.fault import Fault
from qverify.triage.fault_search import FaultSearch
from qverify.triage.forensics import FaultExplanation

MAX_HEALTHY_NODES = 8  # nodes of the op, not blamed, on which a cause is tried
MAX_FAMILIES = 3  # of causes that do the same at a node, if healthy nodes contradict the cause
ALONE_BITS = 400.0  # of evidence needed for a cause that other nodes of its op do not have
NOT_ALL = "not tried on all other nodes of its op: the time limit was reached"
MAX_ALTERNATIVES = 8  # causes of a node that are tried on other nodes
FAMILIES_OF_COORDINATES = ("resize-mode", "resize-nearest-source")


def compare_causes(
    searches: Mapping[str, FaultSearch],
    explanations: Mapping[str, FaultExplanation],
    others: Iterable[Case],
    deadline: float,
) -> None:
    """Withdraws the confirmation of causes that contradict each other, and sets the scope of confirmed causes: on which
    other nodes of the op they were tried.

    Args:
        searches, explanations: by the name of the blamed output.
        others: cases of nodes that are not blamed.
        deadline: a time of time.monotonic(), after which no other node is tried.
    """
    for op in dict.fromkeys(search.case.unit.op for search in searches.values()):
        names = [n for n, search in searches.items() if search.case.unit.op == op and n in explanations]
        _compare_blamed(op, {n: (searches[n], explanations[n]) for n in names})
    for explanation in explanations.values():
        if explanation.confirmed and all(MEASURED.match(cause.said) for cause in explanation.exact[0]):
            _withdraw(explanation, "this limit is what the board shows, not what makes it")
        elif explanation.confirmed and len(rules := _coordinate_rules(explanation)) > 1:
            _withdraw(explanation, f"{count(len(rules), 'rule')} of places give the same at this size, and others may")
    tallies, is_complete = _try_on_others(searches, explanations, others, deadline)
    for name, by_kind in tallies.items():
        _judge_by_others(searches[name].case, explanations[name], by_kind)
    for explanation in explanations.values():
        if explanation.confirmed and not is_complete:
            explanation.scope = "; ".join(filter(None, (explanation.scope, NOT_ALL)))


def _try_on_others(
    searches: Mapping[str, FaultSearch],
    explanations: Mapping[str, FaultExplanation],
    others: Iterable[Case],
    deadline: float,
) -> tuple[dict[str, dict[Kind, _Tally]], bool]:
    """Returns how the confirmed causes fit nodes that are not blamed, by output and kind of cause, and whether there
    was time for all of these nodes."""
    tallies = dict[str, dict[Kind, _Tally]]()
    for case in others:
        for name, search in searches.items():
            if time.monotonic() > deadline:
                return tallies, False
            if search.case.unit.op == case.unit.op and explanations[name].confirmed:
                kinds = list(dict.fromkeys(describe_kind(search.case, c) for c in explanations[name].exact[0]))
                for kind in kinds[:MAX_ALTERNATIVES]:
                    tallies.setdefault(name, {}).setdefault(kind, _Tally()).add(case, kind)
    return tallies, True


def _judge_by_others(case: Case, explanation: FaultExplanation, by_kind: Mapping[Kind, _Tally]) -> None:
    """Keeps only the causes that no healthy node contradicts, if there are any, and adds to the scope how the cause
    fits these nodes."""
    uncontradicted = {kind for kind, tally in by_kind.items() if tally.fit and not tally.contradict}
    explanation.exact[0] = _keep(case, explanation.exact[0], uncontradicted, describe_kind)
    tally = by_kind.get(describe_kind(case, explanation.exact[0][0]), _Tally())
    explanation.scope = "; ".join(filter(None, (explanation.scope, tally.describe(case.unit.op))))
    families = {cause.family for cause in explanation.exact[0]}
    why = f"under the same fault {next(iter(tally.contradict), '')} would differ, and it is right"
    if tally.contradict and explanation.evidence_bits < ALONE_BITS:
        _withdraw(
            explanation, f"{why}; {explanation.evidence_bits:.0f} bits of evidence, where {ALONE_BITS:.0f} were wanted"
        )
    elif tally.contradict and len(families) > MAX_FAMILIES:
        _withdraw(explanation, f"{why}; and faults of {len(families)} families do the same here")


def _compare_blamed(op: str, nodes: Mapping[str, tuple[FaultSearch, FaultExplanation]]) -> None:
    confirmed = {n: explanation for n, (_, explanation) in nodes.items() if explanation.confirmed}
    if not confirmed or len(nodes) < 2:
        return
    shared_kinds = _find_shared(nodes, confirmed, describe_kind)
    if not shared_kinds:
        for explanation in confirmed.values():
            _withdraw(
                explanation, f"{count(len(confirmed), 'node')} of this op have different causes, and one kernel has one"
            )
        return
    shared_exactly = _find_shared(nodes, confirmed, describe_exactly)
    for name, explanation in confirmed.items():
        case = nodes[name][0].case
        describe, shared = (describe_exactly, shared_exactly) if shared_exactly else (describe_kind, shared_kinds)
        explanation.exact.sort(key=lambda group: not any(describe(case, c) in shared for c in group))
        explanation.exact[0] = _keep(case, explanation.exact[0], shared, describe)
    for name, (search, explanation) in nodes.items():
        if (
            name not in confirmed
            and explanation.description.differing
            and not any(_fits(search.case, kind) for kind in shared_kinds)
        ):
            for other in confirmed.values():
                _withdraw(other, f"{name}, another {op} at which the board is blamed, does not have this cause")
            return


def _coordinate_rules(explanation: FaultExplanation) -> set[str]:
    """Returns the coordinate rules of a nearest resize among the causes. No input can distinguish rules that read the
    same elements at this node's size."""
    return {cause.said for cause in explanation.exact[0] if cause.family in FAMILIES_OF_COORDINATES}


def _find_shared(
    nodes: Mapping[str, tuple[FaultSearch, FaultExplanation]],
    confirmed: Mapping[str, FaultExplanation],
    describe: Callable[[Case, Fault], Kind],
) -> set[Kind]:
    """Returns the kinds that causes of all confirmed nodes have in common."""
    return set.intersection(
        *({describe(nodes[n][0].case, c) for g in f.exact for c in g} for n, f in confirmed.items())
    )


def _keep(case: Case, group: list[Fault], kinds: set[Kind], describe: Callable[[Case, Fault], Kind]) -> list[Fault]:
    """Returns the causes of these kinds, or all causes if there are none of them."""
    return [cause for cause in group if describe(case, cause) in kinds] or group


def _withdraw(explanation: FaultExplanation, why: str) -> None:
    explanation.confirmed, explanation.unconfirmed = False, why


def _fits(case: Case, kind: tuple[str, str]) -> bool | None:
    """Returns whether a fault of this kind gives the recorded bytes, or None if the kind does not apply to the case."""
    applies = False
    with np.errstate(all="ignore"):
        for candidate in variants_of(case, kind):
            output = predict(case, candidate)
            if output is not None and (element_bits(output) == element_bits(case.recorded)).all():
                return True
            applies = applies or output is not None
    return False if applies else None


@dataclass(slots=True)
class _Tally:
    """The fit of a cause to the healthy nodes. fit: nodes for which it predicts the board's output. contradict: nodes
    for which it predicts another output."""

    fit: list[str] = field(default_factory=list)
    contradict: list[str] = field(default_factory=list)

    def add(self, case: Case, kind: tuple[str, str]) -> None:
        if len(self.fit) + len(self.contradict) < MAX_HEALTHY_NODES and (fits := _fits(case, kind)) is not None:
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
