"""How an addition treats its operands before they are added, where each is rounded by itself: a value and its text
(verifier/ARITHMETICS.md)."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache

from qverify.arithmetic.rounding_rules import RULES

MOST_FRACTION = 20  # bits of an operand below a step of the output


@dataclass(frozen=True, slots=True)
class OperandSteps:
    """Each operand becomes an integer by itself, and the integers are added.

    Attributes:
        fraction: fraction bits of an operand, in steps of the output, so that the sum is rounded once more; None for
            operands in steps of the larger of both scales, so that the sum is scaled.
        rounding: of the sum; of operands in steps of the larger scale that of these.
    """

    fraction: int | None
    rounding: str

    def __str__(self) -> str:
        if self.fraction is None:
            return f"each operand in steps of the larger scale first ({self.rounding})"
        many = "s" if self.fraction != 1 else ""
        return f"each operand to {self.fraction} fraction bit{many} of the output first (their sum {self.rounding})"

    @staticmethod
    @cache
    def parse(text: str) -> OperandSteps | None:
        """Returns what a text states; None for any other text."""
        if match := _LARGER.fullmatch(text):
            found = OperandSteps(None, match[1])
        elif match := _FRACTION.fullmatch(text):
            found = OperandSteps(int(match[1]), match[2])
        else:
            return None
        usual = found.fraction is None or 1 <= found.fraction <= MOST_FRACTION
        return found if usual and found.rounding in RULES and str(found) == text else None


_LARGER = re.compile(r"each operand in steps of the larger scale first \((.*)\)")
_FRACTION = re.compile(r"each operand to (\d{1,2}) fraction bits? of the output first \(their sum (.*)\)")
