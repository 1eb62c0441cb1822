"""The criteria of a comparison: the decimals rules, the number of places, the extra gates. One table, which the command
line reads too, so nothing heavy is imported here."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

RULES = ("half", "round", "truncate", "numpy", "exact")
NOT_MILDER = ("half", "exact")  # rules that accept no pair of values that `half` refuses at the same number of places
DIGITS, RULE = 5, "half"  # the default gate of value pairs
MAX_DIGITS = 17  # decimal places; float64 has no more


@dataclass(frozen=True, slots=True)
class ExtraGate:
    """A gate that limits one metric.

    Attributes:
        option: name of the field of Options, and of the command that a capture stores.
        metric: name of the limited metric in the report.
        sign: relation of metric to limit that passes, or "" for atol and rtol, which together are one tolerance,
            atol + rtol*|a|.
        help: help text of the command-line option.
        lowest, highest: range of valid limits, None if unbounded.
    """

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
    def allowed_range(self) -> str:
        """The range of valid limits as text, for error messages."""
        if self.lowest is None:
            return "a finite number" if self.highest is None else f"a number <= {self.highest:g}"
        return f"a number >= {self.lowest:g}" if self.highest is None else f"{self.lowest:g} to {self.highest:g}"


GATES = (
    ExtraGate("atol", "atol", "", "the largest |a-b| allowed is atol + rtol*|a|, real values"),
    ExtraGate("rtol", "rtol", "", "see --atol"),
    ExtraGate("min_cosine", "cosine", ">=", "smallest cosine allowed between a tensor's values on both sides", -1, 1),
    ExtraGate("min_sqnr_db", "sqnr_db", ">=", "smallest signal-to-noise ratio allowed, dB", None),
    ExtraGate(
        "min_euclid",
        "euclidean_similarity",
        ">=",
        "smallest euclidean similarity allowed, 1 - |a-b| / |(a+b)/2|",
        None,
        1,
    ),
    ExtraGate("max_rmse", "rmse", "<=", "largest root mean squared error allowed"),
    ExtraGate("max_lsb", "max_lsb", "<=", "largest difference of stored integers allowed, in LSB"),
)
