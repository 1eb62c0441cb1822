"""Fault: a possible cause in words; Candidate: a cause together with the variant that computes its bytes."""

from __future__ import annotations

from dataclasses import dataclass

from qverify.triage.hypotheses import FaultVariant

DOES_NOT_FIT = (ArithmeticError, AssertionError, LookupError, MemoryError, TypeError, ValueError)
MARGIN_BITS = 10.0  # by which a cause may be less specific than the best one and still be named beside it


@dataclass(frozen=True, slots=True)
class Fault:
    """A possible cause of a difference.

    Attributes:
        family: NAME of the hypothesis page.
        said: the fault in words.
        bits: log2 of the number of alternatives from which it was chosen; fewer bits are more specific.
        taken: number of elements that nothing predicts. They are taken from the record, and their bits are part of
            `bits`.
    """

    family: str
    said: str
    bits: float
    taken: int = 0


@dataclass(frozen=True, slots=True)
class Candidate:
    """A cause that reproduces every recorded byte, with the variant that computes them.

    Attributes:
        supported: whether the recorded bytes alone are enough evidence to name the cause.
        group: number of its group; the candidates of one group give equal bytes on random inputs.
    """

    cause: Fault
    variant: FaultVariant
    supported: bool = True
    group: int = 0
