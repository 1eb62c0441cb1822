"""Compares the causes of several nodes: one kernel has one fault, so nodes of one op do not have three."""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np

from qverify.plural import count
from qverify.triage.case import Case, bits
from qverify.triage.experiments import predict
from qverify.triage.fault import DOES_NOT_FIT, Candidate, Fault
from qverify.triage.fault_search import FaultSearch
from qverify.triage.forensics import FaultExplanation
from qverify.triage.hypotheses import pages

MOST_OTHERS = 8  # nodes of an op that are not blamed and on which a cause is tried
NUMBER = re.compile(r"[-+]?[0-9]+(?:\.[0-9]+)?")


def describe_kind(case: Case, cause: Fault) -> tuple[str, str]:
    """Returns the cause's family and its words without numbers and without this case's tensors: equal for the same
    fault at another node."""
    said = cause.said
    for name in sorted({*case.unit.inputs, *case.unit.outputs}, key=len, reverse=True):
        said = said.replace(name, "*")
    return cause.family, NUMBER.sub("#", said)


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
    tally = dict[str, _Tally]()
    for case in others:
        for name, search in searches.items():
            if time.monotonic() > deadline:
                break
            if search.case.unit.op == case.unit.op and explanations[name].confirmed:
                tally.setdefault(name, _Tally()).add(case, describe_kind(search.case, explanations[name].exact[0][0]))
    for name, found in tally.items():
        explanations[name].scope = found.describe(searches[name].case.unit.op)


def _compare_blamed(op: str, nodes: Mapping[str, tuple[FaultSearch, FaultExplanation]]) -> None:
    confirmed = {n: found for n, (_, found) in nodes.items() if found.confirmed}
    if not confirmed or len(nodes) < 2:
        return
    kinds = {n: {describe_kind(nodes[n][0].case, c) for g in f.exact for c in g} for n, f in confirmed.items()}
    shared = set.intersection(*kinds.values())
    if not shared:
        for found in confirmed.values():
            _withdraw(
                found, f"{count(len(confirmed), 'node')} of this op have different causes, and one kernel has one"
            )
        return
    for name, found in confirmed.items():
        case = nodes[name][0].case
        found.exact.sort(key=lambda group: not any(describe_kind(case, c) in shared for c in group))
    for name, (search, found) in nodes.items():
        fits = {_fits(search.case, kind) for kind in shared} if name not in confirmed and found.tried else set()
        if False in fits and True not in fits:
            for one in confirmed.values():
                _withdraw(one, f"{name}, another {op} at which the board is blamed, does not have this cause")
            return


def _withdraw(found: FaultExplanation, why: str) -> None:
    found.confirmed, found.unconfirmed = False, why


def _variants(case: Case, kind: tuple[str, str]) -> list[Candidate]:
    page = next(page for page in pages() if kind[0] == page.NAME)
    try:
        faults = [(Fault(kind[0], variant.said, 0.0), variant) for variant in page.variants(case)]
    except DOES_NOT_FIT:
        return []
    return [Candidate(cause, variant) for cause, variant in faults if describe_kind(case, cause) == kind]


def _fits(case: Case, kind: tuple[str, str]) -> bool | None:
    """Returns whether a fault of this kind gives the recorded bytes; None where the kind does not apply."""
    with np.errstate(all="ignore"):
        outputs = [predict(case, candidate) for candidate in _variants(case, kind)]
    known = [output for output in outputs if output is not None]
    return any((bits(output) == bits(case.recorded)).all() for output in known) if known else None


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
            first = self.contradict[0]
            return f"at this node only: under the same fault {first} and {count(len(self.contradict) - 1, 'other')} would differ, and they are right"
        return f"it predicts that {count(len(self.fit), f'other {op} node')} agree, and they do" if self.fit else ""
