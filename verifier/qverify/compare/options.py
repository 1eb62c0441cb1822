"""Options of a comparison: the decimals rule, the extra gates, and what is shown."""
from __future__ import annotations

from dataclasses import dataclass, field

from qverify.compare.decimals import RULES
from qverify.errors import UsageError

DEFAULT_DIGITS = 5
GATES = ("atol", "rtol", "cosine", "sqnr_db", "rmse", "max_lsb")


@dataclass(frozen=True, slots=True)
class Options:
    """digits: None when not given (then 5, and simulator against board is judged by bits). gates: of GATES, name to limit.
    dump_all: every paired tensor is judged, not the final outputs only. frame: index of the input set."""

    digits: int | None = None
    rule: str = "half"
    dump_all: bool = False
    gates: dict[str, float] = field(default_factory=dict)
    nan_equal: bool = False
    frame: int = 0

    def __post_init__(self) -> None:
        if self.rule not in RULES:
            raise UsageError(f"decimals rule: got {self.rule!r}, wanted one of {', '.join(RULES)}")
        if self.digits is not None and not 0 <= self.digits <= 17:
            raise UsageError(f"decimal places: got {self.digits}, wanted 0 to 17 (float64 has no more)")
        for name, limit in self.gates.items():
            if name not in GATES:
                raise UsageError(f"gate {name!r}: wanted one of {', '.join(GATES)}")
            if limit != limit or (limit < 0 and name not in ("cosine", "sqnr_db")):
                raise UsageError(f"gate {name}: got {limit}, wanted a number >= 0")

    @property
    def places(self) -> int:
        return DEFAULT_DIGITS if self.digits is None else self.digits

    @property
    def explicit(self) -> bool:
        """A gate was asked for, so it takes the place of bit equality."""
        return self.digits is not None or bool(self.gates) or self.rule != "half"
