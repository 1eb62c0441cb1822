"""How long the jobs of a project, and of each of its submitters, held boards within the last 24 hours, and until when a quota of
that time is used up."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from qverify_farm.store.tables import AttemptRecord, JobRecord, ProjectRecord, SuiteRunRecord

DAY_S = 86_400.0
NO_QUOTA_S = 8_640_000.0  # 100 boards for 24 hours, the default, which is not measured
LANES = "this-host-%"  # names of what runs on the service's host and is no board
Account = tuple[str, str]  # id of a project, and a submitter
Used = tuple[
    float, float
]  # when an attempt ended (or the present, while it runs), and the seconds that it held a board


@dataclass(frozen=True, slots=True)
class FullQuota:
    """A quota that is used up. what: whose it is, in words. quota_s: its size. until: when there is some again, seconds since
    1970."""

    what: str
    quota_s: float
    until: float


def full_quotas(session: Session, now: float) -> dict[Account, FullQuota]:
    """Returns the accounts whose jobs must wait, with the quota that ends last."""
    limited = session.scalars(
        select(ProjectRecord).where(
            (ProjectRecord.quota_day_s < NO_QUOTA_S) | (ProjectRecord.quota_submitter_day_s < NO_QUOTA_S)
        )
    ).all()
    if not limited:
        return {}
    used = _used_by(session, [project.id for project in limited], now)
    full: dict[Account, FullQuota] = {}
    for project in limited:
        of_project = {account: attempts for account, attempts in used.items() if account[0] == project.id}
        whole = _full_until([one for attempts in of_project.values() for one in attempts], project.quota_day_s)
        for account in {*of_project, *_waiting_accounts(session, project.id)}:
            own = _full_until(of_project.get(account, []), project.quota_submitter_day_s)
            found = [
                FullQuota(what, quota_s, until)
                for what, quota_s, until in (
                    (f"the project {project.name}", project.quota_day_s, whole),
                    (account[1], project.quota_submitter_day_s, own),
                )
                if until is not None
            ]
            if found:
                full[account] = max(found, key=lambda quota: quota.until)
    return full


def used_seconds(session: Session, project: str, now: float) -> float:
    """Returns the seconds for which the jobs of a project held boards within the last 24 hours."""
    return sum(seconds for attempts in _used_by(session, [project], now).values() for _, seconds in attempts)


def _used_by(session: Session, projects: Sequence[str], now: float) -> Mapping[Account, list[Used]]:
    ended = func.coalesce(AttemptRecord.ended, now)
    rows = session.execute(
        select(SuiteRunRecord.project, SuiteRunRecord.submitter, AttemptRecord.started, ended)
        .join(JobRecord, JobRecord.id == AttemptRecord.job)
        .join(SuiteRunRecord, SuiteRunRecord.id == JobRecord.run)
        .where(SuiteRunRecord.project.in_(projects), ended > now - DAY_S, AttemptRecord.board.not_like(LANES))
    )
    used: dict[Account, list[Used]] = defaultdict(list)
    for project, submitter, started, end in rows:
        used[project, submitter].append((end, max(0.0, end - max(started, now - DAY_S))))
    return used


def _waiting_accounts(session: Session, project: str) -> Iterable[Account]:
    query = select(SuiteRunRecord.submitter).where(SuiteRunRecord.project == project, SuiteRunRecord.verdict.is_(None))
    return [(project, str(submitter)) for submitter in session.scalars(query.distinct())]


def _full_until(attempts: Iterable[Used], quota_s: float) -> float | None:
    """Returns when less than the quota was used within 24 hours, None if that is so now."""
    oldest_first = sorted(attempts)
    left = sum(seconds for _, seconds in oldest_first)
    if left < quota_s:
        return None
    for end, seconds in oldest_first:
        left -= seconds
        if left < quota_s:
            return end + DAY_S
    return None
