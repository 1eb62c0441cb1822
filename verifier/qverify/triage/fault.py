"""Fault: a cause in words; Candidate: a cause with the variant that computes its bytes."""

from __future__ import annotations

from dataclasses import dataclass

from qverify.triage.hypotheses import FaultVariant

DOES_NOT_FIT = (ArithmeticError, AssertionError, LookupError, MemoryError, TypeError, ValueError)


@dataclass(frozen=True, slots=True)
class Fault:
    """A cause. family: a page's NAME. said: the fault in words. bits: log2 of the number of alternatives it was chosen
    from; fewer bits are more specific. taken: elements nothing predicts; they are as recorded, and their bits are part
    of `bits`."""

    family: str
    said: str
    bits: float
    taken: int = 0


@dataclass(frozen=True, slots=True)
class Candidate:
    """A cause that gives every recorded byte, and how it computes them. supported: whether the recorded bytes alone are
    evidence enough to name it. group: those of one number give equal bytes on random inputs."""

    cause: Fault
    variant: FaultVariant
    supported: bool = True
    group: int = 0
