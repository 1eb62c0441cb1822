"""The boards as the dispatcher knows them: reached, drained, quarantined, and when each is checked next."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from qverify_farm.engines.engine import ReachedBoard
from qverify_farm.scheduling.board_health import BoardHealth
from qverify_farm.store.states import BUSY, FREE, OFFLINE, QUARANTINED
from qverify_farm.store.tables import Board


@dataclass(slots=True)
class LabBoard:
    """reached: a worker reaches it. drained: an administrator took it out. next_check: monotonic seconds, None where none
    is due. reason: why it gets no jobs, or "". stored: state that its row was left with, until it was written anew."""

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
        if self.drained:
            return "drained"
        if not self.reached:
            return "no worker reaches it"
        return self.why if self.health.quarantined else ""

    def row(self, now: float, wall: float) -> dict[str, Any]:
        """Returns the values of its row. now, wall: the same moment, monotonic and in seconds since 1970."""
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
    """All boards, by name."""

    def __init__(self) -> None:
        self.boards: dict[str, LabBoard] = {}

    def load(self, rows: list[Board], now: float) -> None:
        """Takes over what the database knew: who is quarantined is checked soon."""
        for row in rows:
            board = self._board(row.name)
            board.drained, board.why, board.stored = bool(row.drained), row.reason, row.state
            board.tags, board.host = dict(row.tags or {}), row.host
            board.health.inconclusive, board.health.checks = row.inconclusive, row.checks
            board.health.quarantined = row.state == QUARANTINED or row.next_check is not None
            if board.health.quarantined:
                board.next_check = now

    def update(self, reached: Mapping[str, ReachedBoard], drained: Mapping[str, bool]) -> list[LabBoard]:
        """Notes which boards are reached and drained now; returns those of which that is new."""
        changed = []
        for name in {*self.boards, *reached}:
            board, there = self._board(name), reached.get(name)
            before = (board.reached, board.drained, board.tags, board.host)
            board.reached, board.drained = there is not None, drained.get(name, False)
            if there is not None:
                board.tags, board.host = dict(there.tags), there.host
            stale, board.stored = board.stored not in ("", board.state), ""
            if stale or (board.reached, board.drained, board.tags, board.host) != before:
                changed.append(board)
        return changed

    def due_checks(self, now: float) -> list[LabBoard]:
        """Returns the boards whose health check is due; they are marked as being checked."""
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

    def after_result(self, board: LabBoard, verdict: str, why: str, of_board: bool, most: int, now: float) -> None:
        """Notes what a job on it gave: after `most` results in a row that it spoiled, it is quarantined."""
        if board.health.after_result(verdict, of_board, most):
            board.why = f"{board.health.inconclusive} INCONCLUSIVE in a row; the last: {why}"[:500]
            board.next_check = now + board.health.seconds_to_check()

    def after_check(self, board: LabBoard, why_not: str, now: float) -> None:
        """Notes a health check: "" where it passed."""
        board.checking = False
        board.health.after_check(why_not)
        if why_not:
            board.health.quarantined, board.why = True, f"health check {board.health.checks}: {why_not}"[:500]
            board.next_check = now + board.health.seconds_to_check()
        else:
            board.next_check, board.why = None, ""

    def _board(self, name: str) -> LabBoard:
        return self.boards.setdefault(name, LabBoard(name))
