"""When a board gets no jobs: quarantine after results that it spoiled, and health checks at growing intervals."""

from __future__ import annotations

from dataclasses import dataclass

IN_A_ROW = 3  # INCONCLUSIVE for reasons of the board's own, until it is quarantined
FIRST_S, MOST_S = 60.0, 3600.0  # until the next health check: 1, 2, 4 ... 60 minutes
REST_FIRST_S, REST_MOST_S = 1.0, 30.0  # until a board that somebody else holds is tried again


@dataclass(slots=True)
class BoardHealth:
    """inconclusive: results in a row that the board spoiled. checks: health checks in a row that failed. busy: times in a
    row that somebody else held it."""

    inconclusive: int = 0
    checks: int = 0
    quarantined: bool = False
    busy: int = 0

    def after_result(self, verdict: str, of_board: bool, most: int = IN_A_ROW) -> bool:
        """Notes a job's result; returns whether the board is quarantined by it. most: 0 never does that."""
        self.busy = 0
        if verdict != "INCONCLUSIVE":
            self.inconclusive = 0
        elif of_board:
            self.inconclusive += 1
        if self.quarantined or not most or self.inconclusive < most:
            return False
        self.quarantined, self.checks = True, 0
        return True

    def after_check(self, why_not: str) -> None:
        """Notes a health check: "" where it passed, which ends the quarantine."""
        if why_not:
            self.checks += 1
        else:
            self.quarantined, self.checks, self.inconclusive = False, 0, 0

    def seconds_to_check(self) -> float:
        """Returns how long to wait before the next health check."""
        return min(MOST_S, FIRST_S * 2.0 ** min(self.checks, 10))

    def after_busy(self) -> float:
        """Notes that somebody else held the board; returns for how many seconds it is left alone."""
        self.busy += 1
        return min(REST_MOST_S, REST_FIRST_S * 2.0 ** min(self.busy - 1, 10))
