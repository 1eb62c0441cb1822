"""Finds finished jobs by what they are of: the history, and the runs of a matrix."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from qverify.errors import UsageError
from sqlalchemy import select
from sqlalchemy.orm import Session

from qverify_farm.store.boards import all_boards
from qverify_farm.store.runs import find_run
from qverify_farm.store.states import CANCELLED, DONE
from qverify_farm.store.tables import JobRecord, SuiteRunRecord

KINDS = ("suite", "verify")
ALL = "all"


@dataclass(frozen=True, slots=True, kw_only=True)
class JobFilter:
    """Which jobs are wanted; "" and None for all. since, until: seconds since 1970, of the end. runs: ids of runs, () for all."""

    model: str = ""
    board: str = ""
    suite: str = ""
    job: str = ""
    verdict: str = ""
    since: float | None = None
    until: float | None = None
    runs: tuple[str, ...] = ()
    states: tuple[str, ...] = (DONE,)

    def query(self, project: str | None) -> Any:
        """Returns the statement that selects the jobs with their runs, the one that ended last first. project: id, None for all."""
        query = (
            select(JobRecord, SuiteRunRecord)
            .join(SuiteRunRecord, SuiteRunRecord.id == JobRecord.run)
            .where(JobRecord.state.in_(self.states), SuiteRunRecord.kind.in_(KINDS))
            .order_by(JobRecord.ended.desc(), JobRecord.id)
        )
        for column, value in (
            (SuiteRunRecord.project, project),
            (JobRecord.model, self.model),
            (JobRecord.board, self.board),
            (SuiteRunRecord.name, self.suite),
            (JobRecord.name, self.job),
            (JobRecord.verdict, self.verdict),
        ):
            if value:
                query = query.where(column == value)
        if self.since is not None:
            query = query.where(JobRecord.ended >= self.since)
        if self.until is not None:
            query = query.where(JobRecord.ended < self.until)
        return query.where(JobRecord.run.in_(self.runs)) if self.runs else query


def filter_of(session: Session, text: str) -> JobFilter:
    """Returns the filter for the jobs of a suite by its name, of a run by its id or the beginning of it, or of ALL. Raises UsageError
    if there is none."""
    states = (DONE, CANCELLED)
    if text == ALL:
        return JobFilter(states=states)
    if session.scalars(select(SuiteRunRecord.id).where(SuiteRunRecord.name == text).limit(1)).first() is not None:
        return JobFilter(suite=text, states=states)
    try:
        return JobFilter(runs=(find_run(session, text).id,), states=states)
    except UsageError as error:
        raise UsageError(f"--suite {text[:80]}: no suite has this name, and {error}") from error


@dataclass(frozen=True, slots=True)
class FoundJobs:
    """Jobs with their runs, and the tags of the boards by name."""

    rows: Sequence[tuple[JobRecord, SuiteRunRecord]]
    tags: Mapping[str, Mapping[str, Any]]


def find_jobs(session: Session, wanted: JobFilter, project: str | None, limit: int, offset: int = 0) -> FoundJobs:
    """Returns the jobs that are wanted, the one that ended last first, at most `limit`, after the first `offset`."""
    rows = [(job, run) for job, run in session.execute(wanted.query(project).limit(limit).offset(offset))]
    return FoundJobs(rows, {row.name: row.tags or {} for row in all_boards(session)})
