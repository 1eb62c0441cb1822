"""What a comparison is judged by."""

from __future__ import annotations

from dataclasses import dataclass

from qverify.compare.criteria import DIGITS, GATES, MOST_DIGITS, RULE, RULES
from qverify.errors import UsageError


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """digits, rule: of decimals (compare/decimals.py). dump_all: every paired tensor is judged, not the final outputs only.
    atol .. max_lsb: extra gates, as criteria.GATES lists them. relax_board: simulator against board is judged as a value pair,
    over the same tensors. strict: what follows a node whose reference is float is judged free-running, too."""

    digits: int = DIGITS
    rule: str = RULE
    dump_all: bool = False
    nan_equal: bool = False
    relax_board: bool = False
    strict: bool = False
    atol: float | None = None
    rtol: float | None = None
    min_cosine: float | None = None
    min_sqnr_db: float | None = None
    max_rmse: float | None = None
    max_lsb: float | None = None
    digits_given: bool = False  # -c, --rule or --gate decimals was named, be it with the default
    named: frozenset[str] = frozenset()  # fields the user named, be it with their default
    frame: int = 0

    def __post_init__(self) -> None:
        if self.rule not in RULES:
            raise UsageError(f"decimals rule: got {self.rule!r}, wanted one of {', '.join(RULES)}")
        if type(self.digits) is not int or not 0 <= self.digits <= MOST_DIGITS:
            raise UsageError(f"decimal places: got {self.digits}, wanted 0 to {MOST_DIGITS} (float64 has no more)")
        for gate in GATES:
            limit = getattr(self, gate.option)
            if limit is not None and not gate.allows(limit):
                raise UsageError(f"gate {gate.metric}: got {limit}, wanted {gate.wanted}")

    @property
    def gates(self) -> dict[str, float]:
        """The extra gates that were given, by the metric they limit."""
        return {gate.metric: limit for gate in GATES if (limit := getattr(self, gate.option)) is not None}

    @property
    def decimals(self) -> bool:
        """Whether value pairs must match to N decimals: unless extra gates alone were given."""
        return self.digits_given or (self.digits, self.rule) != (DIGITS, RULE) or not self.gates
