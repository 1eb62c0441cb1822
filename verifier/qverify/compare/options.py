"""What a comparison is judged by."""

from __future__ import annotations

from dataclasses import dataclass

from qverify.compare.criteria import GATES, MOST_DIGITS, RULES
from qverify.errors import UsageError


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """digits, rule: DESIGN section 4. given: the user named -c or a gate, so bit equality alone no longer decides.
    dump_all: every paired tensor is judged, not the final outputs only. atol .. max_lsb: extra gates, as criteria.GATES
    lists them."""

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
        if not 0 <= self.digits <= MOST_DIGITS:
            raise UsageError(f"decimal places: got {self.digits}, wanted 0 to {MOST_DIGITS} (float64 has no more)")
        for gate in GATES:
            limit = getattr(self, gate.option)
            if limit is not None and not gate.allows(limit):
                raise UsageError(f"gate {gate.metric}: got {limit}, wanted {gate.wanted}")

    @property
    def gates(self) -> dict[str, float]:
        """The extra gates that were given, by the metric they limit."""
        return {gate.metric: limit for gate in GATES if (limit := getattr(self, gate.option)) is not None}
