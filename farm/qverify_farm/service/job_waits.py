"""Says why a queued job waits: for the artifact store, or for the boards that fit it, and until when."""

from __future__ import annotations

import time

from sqlalchemy.orm import Session

from qverify_farm.scheduling.board_filter import BoardFilter
from qverify_farm.service.access import Scope
from qverify_farm.service.row_replies import drain_reasons_of, visible_job_ids, visible_reason
from qverify_farm.service.triage_engine import is_lane
from qverify_farm.store.board_usage import FullQuota, full_quotas
from qverify_farm.store.boards import all_boards
from qverify_farm.store.states import QUEUED
from qverify_farm.store.tables import JobRecord, SuiteRunRecord
from qverify_farm.suites.board_waits import clock, given_up_at, reason_to_wait


class JobWaits:
    """The reasons why jobs wait at this moment, as one caller may see them."""

    def __init__(self, scope: Scope, session: Session):
        self._store = scope.farm.dispatcher.health().store
        self._session, self._boards = session, all_boards(session)
        self._visible_jobs = visible_job_ids(session, scope.caller.project, self._boards)
        self._drain_reasons = drain_reasons_of(session, self._boards)
        self._reasons = dict[tuple[str, ...], str | None]()
        self._runs = dict[str, SuiteRunRecord | None]()
        self._full = full_quotas(session, time.time())

    def of(self, job: JobRecord) -> str:
        """Returns why a job waits, with the part that varies (free space, a board's message, the deadline) after the first colon; ""
        for a job that does not wait, or that a free board is about to take."""
        if job.state != QUEUED:
            return ""
        if self._store:
            return self._store
        if (full := self._full_quota(job)) is not None:
            return f"the board time of {full.what} within 24 hours is used up ({full.quota_s:g} s): there is some at {clock(full.until)}"
        wanted = tuple(map(str, job.wanted))
        if wanted not in self._reasons:
            self._reasons[wanted] = self._reason(wanted)
        reason = self._reasons[wanted]
        if reason is None:
            return job.why  # the board refused it: another process holds the board
        return reason + self._deadline(job, wanted)

    def _reason(self, wanted: tuple[str, ...]) -> str | None:
        """Returns why the boards that fit do not take a job, or None if one of them is free."""
        fitting = [b for b in self._boards if BoardFilter.of(wanted).fits(b.name, b.tags or {})]
        reason = reason_to_wait(
            wanted, self._boards, lambda board: visible_reason(board, self._visible_jobs, self._drain_reasons)
        )
        return "other triages run" if reason and fitting and all(is_lane(board.name) for board in fitting) else reason

    def _full_quota(self, job: JobRecord) -> FullQuota | None:
        run = self._run_of(job) if self._full else None
        return self._full.get((run.project, run.submitter)) if run is not None else None

    def _run_of(self, job: JobRecord) -> SuiteRunRecord | None:
        if job.run not in self._runs:
            self._runs[job.run] = self._session.get(SuiteRunRecord, job.run)
        return self._runs[job.run]

    def _deadline(self, job: JobRecord, wanted: tuple[str, ...]) -> str:
        """Returns until when the job waits for unusable boards, as the end of its reason; "" while one is busy."""
        run = self._run_of(job)
        until = (
            given_up_at(wanted, run.started or run.created, self._boards, run.definition or {})
            if run is not None
            else None
        )
        return f"; it ends INCONCLUSIVE at {clock(until)} unless one is usable: see Boards" if until is not None else ""
