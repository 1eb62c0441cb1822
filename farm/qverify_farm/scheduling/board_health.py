"""Decides when a board gets no jobs: quarantine after results that the board spoiled, and health checks at growing
intervals."""

from __future__ import annotations

from dataclasses import dataclass

QUARANTINE_AFTER = 3  # INCONCLUSIVE results in a row, caused by the board, until it is quarantined
FIRST_CHECK_PAUSE_S, LONGEST_CHECK_PAUSE_S = 60.0, 3600.0  # between health checks: 1, 2, 4 ... 60 minutes
FIRST_REST_S, LONGEST_REST_S = 1.0, 30.0  # before the next try on a board that somebody else is using


@dataclass(slots=True)
class BoardHealth:
    """The recent history of one board.

    Attributes:
        inconclusive: The number of results in a row that were INCONCLUSIVE because of the board.
        checks: The number of failed health checks in a row.
        quarantined: The board gets no jobs until a health check passes.
        busy: How often in a row somebody else was using the board.
    """

    inconclusive: int = 0
    checks: int = 0
    quarantined: bool = False
    busy: int = 0

    def after_result(self, verdict: str, of_board: bool, quarantine_after: int = QUARANTINE_AFTER) -> bool:
        """Notes a job's result and returns whether it puts the board into quarantine. of_board: the board caused the
        INCONCLUSIVE. quarantine_after: 0 disables the quarantine."""
        self.busy = 0
        if verdict != "INCONCLUSIVE":
            self.inconclusive = 0
        elif of_board:
            self.inconclusive += 1
        if self.quarantined or not quarantine_after or self.inconclusive < quarantine_after:
            return False
        self.quarantined, self.checks = True, 0
        return True

    def after_check(self, why_not: str) -> None:
        """Notes the result of a health check. why_not: why it failed, or "" if it passed, which ends the quarantine."""
        if why_not:
            self.checks += 1
        else:
            self.quarantined, self.checks, self.inconclusive = False, 0, 0

    def seconds_to_check(self) -> float:
        """Returns the seconds to wait before the next health check."""
        return min(LONGEST_CHECK_PAUSE_S, FIRST_CHECK_PAUSE_S * 2.0 ** min(self.checks, 10))

    def after_busy(self) -> float:
        """Notes that somebody else was using the board, and returns the seconds to wait before the next try."""
        self.busy += 1
        return min(LONGEST_REST_S, FIRST_REST_S * 2.0 ** min(self.busy - 1, 10))
