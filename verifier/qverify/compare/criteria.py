"""By what a comparison may be judged: the rules of decimals, how many places, the extra gates. One table, read by the command
line too, so nothing heavy is imported here."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

RULES = ("half", "round", "truncate", "numpy", "exact")
NOT_MILDER = ("half", "exact")  # rules that accept nothing `half` refuses at the same N
DIGITS, RULE = 5, "half"  # the default gate of value pairs
MOST_DIGITS = 17  # decimal places; float64 has no more


@dataclass(frozen=True, slots=True)
class ExtraGate:
    """option: the field of Options, and of a capture's command. metric: what it limits, as the report names it. sign: how the
    metric stands to the limit; none for the two that make one tolerance, atol + rtol*|a|. help: what the command line says."""

    option: str
    metric: str
    sign: Literal["<=", ">=", ""]
    help: str
    lowest: float | None = 0
    highest: float | None = None

    @property
    def flag(self) -> str:
        """On the command line, where the unit stands in the help."""
        return "--" + self.option.removesuffix("_db").replace("_", "-")

    def allows(self, limit: float) -> bool:
        low = -math.inf if self.lowest is None else self.lowest
        high = math.inf if self.highest is None else self.highest
        return low <= limit <= high and abs(limit) != math.inf

    @property
    def wanted(self) -> str:
        if self.lowest is None:
            return "a finite number"
        return f"a number >= {self.lowest:g}" if self.highest is None else f"{self.lowest:g} to {self.highest:g}"


GATES = (
    ExtraGate("atol", "atol", "", "largest |a-b| is atol + rtol*|a|, real values"),
    ExtraGate("rtol", "rtol", "", "see --atol"),
    ExtraGate("min_cosine", "cosine", ">=", "least cosine of a tensor's values", -1, 1),
    ExtraGate("min_sqnr_db", "sqnr_db", ">=", "least signal to noise ratio, dB", None),
    ExtraGate("max_rmse", "rmse", "<=", "largest root of the mean squared difference"),
    ExtraGate("max_lsb", "max_lsb", "<=", "largest difference of stored integers, in LSB"),
)
