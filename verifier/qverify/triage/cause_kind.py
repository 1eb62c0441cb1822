"""Kinds of causes: equal for the same fault at another node, or at the same op in another shape."""

from __future__ import annotations

import re

from qverify.triage.case import Case
from qverify.triage.fault import DOES_NOT_FIT, Candidate, Fault
from qverify.triage.hypotheses import pages_of

WORD = re.compile(r"[^\s,;()]+")
NUMBER = re.compile(r"[-+]?[0-9]+(?:\.[0-9]+)?")
MEASURED = re.compile(r"clamp (at )?-?[0-9]")  # limits that were read off the recorded bytes
Kind = tuple[str, str]


def describe_kind(case: Case, cause: Fault) -> Kind:
    """Returns the cause's family and its words without numbers and names of tensors, which are equal for the same fault
    at another node. A measured limit keeps its numbers, because another limit at another node is another fault."""
    family, text = describe_exactly(case, cause)
    return family, text if MEASURED.match(text) else NUMBER.sub("#", text)


def describe_exactly(case: Case, cause: Fault) -> Kind:
    """Returns the cause's family and its words without names of tensors."""

    def replace_name(word: re.Match[str]) -> str:
        name = word[0].rstrip(":")
        return word[0].replace(name, "#") if name in case.graph.tensors else word[0]

    return cause.family, WORD.sub(replace_name, cause.said)


def variants_of(case: Case, kind: Kind, named: Case | None = None) -> list[Candidate]:
    """Returns the variants of this kind that its family has for this case. named: the case by whose graph names of
    tensors are recognized, if it is not this one."""
    pages = (page for page in pages_of(case) if kind[0] == page.NAME)
    try:
        faults = [(Fault(kind[0], variant.text, 0.0), variant) for page in pages for variant in page.variants(case)]
    except DOES_NOT_FIT:
        return []
    return [Candidate(cause, variant) for cause, variant in faults if describe_kind(named or case, cause) == kind]
