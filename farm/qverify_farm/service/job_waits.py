"""Says why a queued job waits: for the artifact store, or for the boards that fit it."""

from __future__ import annotations

from collections.abc import Iterable

from sqlalchemy.orm import Session

from qverify_farm.scheduling.board_filter import BoardFilter
from qverify_farm.service.access import Scope
from qverify_farm.service.row_replies import drain_reasons_of, visible_job_ids, visible_reason
from qverify_farm.service.triage_engine import is_lane
from qverify_farm.store.boards import all_boards
from qverify_farm.store.states import BUSY, FREE, QUARANTINED, QUEUED
from qverify_farm.store.tables import BoardRecord, JobRecord

MAX_NAMED = 3  # number of boards that one reason names


class JobWaits:
    """The reasons why jobs wait at this moment, as one caller may see them."""

    def __init__(self, scope: Scope, session: Session):
        self._store = scope.farm.dispatcher.health().store
        self._boards = all_boards(session)
        self._visible_jobs = visible_job_ids(session, scope.caller.project, self._boards)
        self._drain_reasons = drain_reasons_of(session, self._boards)
        self._reasons = dict[tuple[str, ...], str | None]()

    def of(self, job: JobRecord) -> str:
        """Returns why a job waits, with the part that varies (free space, a board's message) after the first colon; "" for a job
        that does not wait, or that a free board is about to take."""
        if job.state != QUEUED:
            return ""
        if self._store:
            return self._store
        wanted = tuple(map(str, job.wanted))
        if wanted not in self._reasons:
            self._reasons[wanted] = self._reason(BoardFilter.of(wanted))
        reason = self._reasons[wanted]
        return job.why if reason is None else reason  # the board refused it: another process holds the board

    def _reason(self, board_filter: BoardFilter) -> str | None:
        """Returns why the boards that fit do not take a job, or None if one of them is free."""
        fitting = [board for board in self._boards if board_filter.fits(board.name, board.tags or {})]
        if any(board.state == FREE for board in fitting):
            return None
        if not fitting:
            return "no board that fits is known"
        if all(is_lane(board.name) for board in fitting):
            return "other triages run"
        busy = [board.name for board in fitting if board.state == BUSY]
        reasons = [f"{_names(busy)} {'is' if len(busy) == 1 else 'are'} busy"] if busy else []
        unusable = [board for board in fitting if board.state != BUSY]
        reasons += [self._why_unusable(board) for board in unusable[: MAX_NAMED - len(reasons)]]
        more = len(unusable) - MAX_NAMED + (1 if busy else 0)
        return "; ".join(reasons) + (f"; and {more} more" if more > 0 else "")

    def _why_unusable(self, board: BoardRecord) -> str:
        reason = visible_reason(board, self._visible_jobs, self._drain_reasons)
        if board.drained:
            return f"{board.name} is {reason}"
        if board.state == QUARANTINED:
            return f"{board.name} is quarantined: {reason}"
        return f"{board.name}: {reason or board.state}"


def _names(names: Iterable[str]) -> str:
    ordered = sorted(names)
    more = len(ordered) - MAX_NAMED
    return ", ".join(ordered[:MAX_NAMED]) + (f" and {more} more" if more > 0 else "")
