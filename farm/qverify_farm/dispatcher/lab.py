"""The boards as the dispatcher knows them: whether each is reachable, drained or quarantined, and when its next health
check is due."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from qverify_farm.engines.engine import ReachedBoard
from qverify_farm.scheduling.board_health import BoardHealth
from qverify_farm.store.states import BUSY, FREE, OFFLINE, QUARANTINED
from qverify_farm.store.tables import BoardRecord


@dataclass(slots=True)
class LabBoard:
    """A board of the lab.

    Attributes:
        reached: A worker reaches it.
        drained: An administrator took it out of service.
        next_check: When its next health check is due, in monotonic seconds; None if none is due.
        checking: A health check is running.
        job: The id of the job that holds it, or None.
        why: Why it is quarantined, or "".
        stored: The state in its row when the dispatcher started; "" once the row has been written again.
    """

    name: str
    tags: dict[str, str] = field(default_factory=dict)
    host: str = ""
    reached: bool = False
    drained: bool = False
    health: BoardHealth = field(default_factory=BoardHealth)
    next_check: float | None = None
    checking: bool = False
    job: str | None = None
    why: str = ""
    stored: str = ""

    @property
    def usable(self) -> bool:
        return self.reached and not self.drained and not self.health.quarantined

    @property
    def state(self) -> str:
        if not self.reached or self.drained:
            return OFFLINE
        return QUARANTINED if self.health.quarantined else BUSY if self.job else FREE

    @property
    def reason(self) -> str:
        """Returns the reason why the board gets no jobs, or ""."""
        if self.drained:
            return "drained"
        if not self.reached:
            return "no worker reaches it"
        return self.why if self.health.quarantined else ""

    def row(self, now: float, wall: float) -> dict[str, Any]:
        """Returns the values of its row in the database. `now` (monotonic seconds) and `wall` (seconds since 1970) are the
        same moment."""
        return {
            "host": self.host,
            "tags": dict(self.tags),
            "state": self.state,
            "reason": self.reason,
            "inconclusive": self.health.inconclusive,
            "checks": self.health.checks,
            "next_check": None if self.next_check is None else round(wall + self.next_check - now),
            "job": self.job,
        }


class Lab:
    """All boards that the dispatcher has ever seen, by name."""

    def __init__(self) -> None:
        self.boards: dict[str, LabBoard] = {}

    def load(self, rows: list[BoardRecord], now: float) -> None:
        """Loads the boards from the database. A health check of those that were quarantined is due at once."""
        for row in rows:
            board = self._board(row.name)
            board.drained, board.why, board.stored = bool(row.drained), row.reason, row.state
            board.tags, board.host = dict(row.tags or {}), row.host
            board.health.inconclusive, board.health.checks = row.inconclusive, row.checks
            board.health.quarantined = row.state == QUARANTINED or row.next_check is not None
            if board.health.quarantined:
                board.next_check = now

    def update(self, reached: Mapping[str, ReachedBoard], drained: Mapping[str, bool]) -> list[LabBoard]:
        """Notes which boards are reachable and drained now, and returns the boards that changed."""
        changed = []
        for name in {*self.boards, *reached}:
            board, reached_board = self._board(name), reached.get(name)
            before = (board.reached, board.drained, board.tags, board.host)
            board.reached, board.drained = reached_board is not None, drained.get(name, False)
            if reached_board is not None:
                board.tags, board.host = dict(reached_board.tags), reached_board.host
            stale, board.stored = board.stored not in ("", board.state), ""
            if stale or (board.reached, board.drained, board.tags, board.host) != before:
                changed.append(board)
        return changed

    def due_checks(self, now: float) -> list[LabBoard]:
        """Returns the boards that are due for a health check, and marks them as being checked."""
        due = [
            board
            for board in self.boards.values()
            if board.next_check is not None
            and board.next_check <= now
            and not board.checking
            and board.reached
            and not board.drained
            and board.job is None
        ]
        for board in due:
            board.checking = True
        return due

    def after_result(
        self, board: LabBoard, verdict: str, why: str, of_board: bool, quarantine_after: int, now: float
    ) -> None:
        """Notes the result of a job on a board. After `quarantine_after` results in a row that were INCONCLUSIVE because of
        the board, the board is quarantined."""
        if board.health.after_result(verdict, of_board, quarantine_after):
            board.why = f"{board.health.inconclusive} INCONCLUSIVE in a row; the last: {why}"[:500]
            board.next_check = now + board.health.seconds_to_check()

    def after_check(self, board: LabBoard, why_not: str, now: float) -> None:
        """Notes the result of a health check. why_not: why it failed, or "" if it passed."""
        board.checking = False
        board.health.after_check(why_not)
        if why_not:
            board.health.quarantined, board.why = True, f"health check {board.health.checks}: {why_not}"[:500]
            board.next_check = now + board.health.seconds_to_check()
        else:
            board.next_check, board.why = None, ""

    def _board(self, name: str) -> LabBoard:
        return self.boards.setdefault(name, LabBoard(name))
