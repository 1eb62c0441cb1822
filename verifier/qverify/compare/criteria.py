"""The criteria of a comparison: the decimals rules, the number of places, the extra gates. One table, which the command
line reads too, so nothing heavy is imported here."""

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
    """A limit on one metric. option: the field of Options, and of a capture's command. metric: the metric it limits, by
    its name in the report. sign: the relation of metric to limit that passes; "" for atol and rtol, which together make
    one tolerance, atol + rtol*|a|. help: the command line's text. lowest, highest: the range of the limit; None:
    unbounded."""

    option: str
    metric: str
    sign: Literal["<=", ">=", ""]
    help: str
    lowest: float | None = 0
    highest: float | None = None

    @property
    def flag(self) -> str:
        """The option's name on the command line (without the unit, which the help states)."""
        return "--" + self.option.removesuffix("_db").replace("_", "-")

    def allows(self, limit: float) -> bool:
        """Returns whether the limit is finite and in range."""
        low = -math.inf if self.lowest is None else self.lowest
        high = math.inf if self.highest is None else self.highest
        return low <= limit <= high and abs(limit) != math.inf

    @property
    def wanted(self) -> str:
        """The allowed range, for error messages."""
        if self.lowest is None:
            return "a finite number"
        return f"a number >= {self.lowest:g}" if self.highest is None else f"{self.lowest:g} to {self.highest:g}"


GATES = (
    ExtraGate("atol", "atol", "", "the largest |a-b| allowed is atol + rtol*|a|, real values"),
    ExtraGate("rtol", "rtol", "", "see --atol"),
    ExtraGate("min_cosine", "cosine", ">=", "smallest cosine allowed between a tensor's values on both sides", -1, 1),
    ExtraGate("min_sqnr_db", "sqnr_db", ">=", "smallest signal-to-noise ratio allowed, dB", None),
    ExtraGate("max_rmse", "rmse", "<=", "largest root mean squared error allowed"),
    ExtraGate("max_lsb", "max_lsb", "<=", "largest difference of stored integers allowed, in LSB"),
)
