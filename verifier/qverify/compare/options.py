"""What a comparison is judged by."""

from __future__ import annotations

from dataclasses import dataclass

from qverify.compare.decimals import RULES
from qverify.errors import UsageError


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """digits, rule: DESIGN section 4. given: the user named -c or a gate, so bit equality alone no longer decides.
    dump_all: every paired tensor is judged, not the final outputs only. atol .. max_lsb: extra gates."""

    digits: int = 5
    rule: str = "half"
    given: bool = False
    dump_all: bool = False
    nan_equal: bool = False
    atol: float | None = None
    rtol: float | None = None
    min_cosine: float | None = None
    min_sqnr_db: float | None = None
    max_rmse: float | None = None
    max_lsb: float | None = None
    digits_given: bool = False  # -c or --rule was named, not only a gate
    named: frozenset[str] = frozenset()  # fields the user named, be it with their default
    frame: int = 0

    def __post_init__(self) -> None:
        if self.rule not in RULES:
            raise UsageError(f"decimals rule: got {self.rule!r}, wanted one of {', '.join(RULES)}")
        if not 0 <= self.digits <= 17:
            raise UsageError(f"decimal places: got {self.digits}, wanted 0 to 17 (float64 has no more)")
        for name, limit in self.gates.items():
            if limit != limit or (limit < 0 and name not in ("cosine", "sqnr_db")):
                raise UsageError(f"gate {name}: got {limit}, wanted a number >= 0")

    @property
    def gates(self) -> dict[str, float]:
        """The extra gates that were given, by the metric they limit."""
        named = {
            "atol": self.atol,
            "rtol": self.rtol,
            "cosine": self.min_cosine,
            "sqnr_db": self.min_sqnr_db,
            "rmse": self.max_rmse,
            "max_lsb": self.max_lsb,
        }
        return {name: limit for name, limit in named.items() if limit is not None}
