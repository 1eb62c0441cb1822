"""The options by which a comparison is judged."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from qverify.closest_names import did_you_mean
from qverify.compare.criteria import DIGITS, GATES, MAX_DIGITS, RULE, RULES
from qverify.compare.roles import parse_role_gate, parse_roles
from qverify.errors import UsageError


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """The options of one comparison. Raises UsageError for values out of range.

    Attributes:
        digits, rule: number of decimal places, and the rule (compare/decimals.py).
        dump_all: whether every paired tensor is judged, not only the final outputs.
        nan_equal: whether the same NaN or Inf on both sides is accepted.
        relax_board: whether simulator against board is judged by value, over the same tensors.
        strict: whether tensors after a node whose reference is float must pass the gate free-running, too.
        atol .. max_lsb: limits of the extra gates (criteria.GATES).
        digits_given: whether -c, --rule or --gate decimals was given, even with the default value.
        named: names of the fields that the user gave, even with their default value.
        frame: number of the frame.
        criteria: the vendor whose thresholds are in the fields above, for the verdict line, or "".
        no_fallback: whether a node that ran elsewhere than the user asked makes a pair FAILED (compare/placement.py).
        tokens_top: K of --gate tokens:topK, which only sequences have (sequences/tokens.py); 0 without it.
        drawings: whether tensors are also drawn (report/drawings.py). No verdict depends on drawings.
        roles: tables [outputs.NAME] of the description, by output (compare/roles.py).
        role_gates: gates of single roles, as given (OUTPUT.ROLE:METRIC>=LIMIT).
        task_gates: gates of the task's numbers, as given (task:METRIC>=LIMIT), which the session judges.
        facts: what the user states about the run (--fact), as (name, value); no verdict depends on it.
    """

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
    min_euclid: float | None = None
    max_rmse: float | None = None
    max_lsb: float | None = None
    digits_given: bool = False
    named: frozenset[str] = frozenset()
    frame: int = 0
    criteria: str = ""
    no_fallback: bool = False
    tokens_top: int = 0
    drawings: bool = False
    roles: Mapping[str, Any] = field(default_factory=dict)
    role_gates: tuple[str, ...] = ()
    task_gates: tuple[str, ...] = ()
    facts: tuple[tuple[str, str], ...] = ()

    def __post_init__(self) -> None:
        if self.rule not in RULES:
            raise UsageError(f"decimals rule: got {self.rule!r}, wanted one of {', '.join(RULES)}")
        if type(self.digits) is not int or not 0 <= self.digits <= MAX_DIGITS:
            raise UsageError(f"decimal places: got {self.digits}, wanted 0 to {MAX_DIGITS} (float64 has no more)")
        described = parse_roles(self.roles)
        for text in self.role_gates:
            if (role := parse_role_gate(text)).output not in described:
                meant = did_you_mean(role.output, list(described))
                raise UsageError(
                    f"--gate {text}: no roles of {role.output} are described{meant}; wanted [outputs.{role.output}] roles"
                )
        for gate in GATES:
            limit = getattr(self, gate.option)
            if limit is not None and not gate.allows(limit):
                raise UsageError(f"gate {gate.metric}: got {limit}, wanted {gate.allowed_range}")

    @property
    def gates(self) -> dict[str, float]:
        """The limits of the extra gates that were given, by metric."""
        return {gate.metric: limit for gate in GATES if (limit := getattr(self, gate.option)) is not None}

    @property
    def decimals(self) -> bool:
        """Whether value pairs must match to N decimals, which is so unless only extra gates were given."""
        return self.digits_given or (self.digits, self.rule) != (DIGITS, RULE) or not self.gates
