"""By what a comparison may be judged: the rules of decimals, how many places, the extra gates. One table, read by the command
line too, so nothing heavy is imported here."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

RULES = ("half", "round", "truncate", "numpy", "exact")
MOST_DIGITS = 17  # decimal places; float64 has no more


@dataclass(frozen=True, slots=True)
class ExtraGate:
    """option: the field of Options, and of a capture's command. metric: what it limits, as the report names it. sign: how the
    metric stands to the limit; none for the two that make one room, atol + rtol*|a|."""

    option: str
    metric: str
    sign: Literal["<=", ">=", ""]
    lowest: float | None = 0
    highest: float | None = None
    unit: str | None = None

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
    ExtraGate("atol", "atol", ""),
    ExtraGate("rtol", "rtol", ""),
    ExtraGate("min_cosine", "cosine", ">=", -1, 1),
    ExtraGate("min_sqnr_db", "sqnr_db", ">=", None, unit="dB"),
    ExtraGate("max_rmse", "rmse", "<="),
    ExtraGate("max_lsb", "max_lsb", "<="),
)
