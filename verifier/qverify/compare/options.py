"""What a comparison is judged by."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Options:
    """digits, rule: DESIGN section 4. given: the user named -c or a gate, so bit equality alone no longer decides."""

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
