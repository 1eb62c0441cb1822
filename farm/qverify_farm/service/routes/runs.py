"""Routes of runs: submitting, listing, cancelling, resuming and comparing them."""

from __future__ import annotations

import time
from typing import Annotated, Literal

from fastapi import APIRouter, Query
from sqlalchemy import select

from qverify_farm.service.access import SUBMITTER, Scope, Scoped
from qverify_farm.service.board_time import check_unfinished, unfinished_seconds
from qverify_farm.service.error_replies import error_responses
from qverify_farm.service.errors import ApiError, not_found, too_busy
from qverify_farm.service.farm import add_audit
from qverify_farm.service.job_waits import JobWaits
from qverify_farm.service.row_replies import counts_of_runs, job_reply, names_in_runs, run_reply
from qverify_farm.service.schemas.runs import (
    Cancel,
    Changed,
    Difference,
    Differences,
    Jobs,
    Runs,
    RunShort,
    Submitted,
    SuiteDefinition,
    Triage,
    Verification,
)
from qverify_farm.service.schemas.texts import ID, IdempotencyKey, IdPath, Limit, Offset, TitleQuery
from qverify_farm.service.submissions import queued_jobs, submit_suite, submit_verification
from qverify_farm.service.triage_submissions import submit_triage
from qverify_farm.store.runs import cancel_run, counts_of, reopen_run
from qverify_farm.store.states import QUEUED, RUNNING
from qverify_farm.store.tables import JobRecord, ProjectRecord, SuiteRunRecord

router = APIRouter(tags=["runs"], responses=error_responses())
State = Literal["running", "done", "cancelled"]
Kind = Literal["suite", "verify", "triage", "bad-case"]
Verdict = Literal["PASSED", "FAILED", "INCONCLUSIVE"]
JobState = Literal["queued", "running", "done", "cancelled"]


@router.post("/verifications", status_code=201, dependencies=[SUBMITTER], summary="Submit the main job")
def post_verification(scope: Scoped, body: Verification, key: IdempotencyKey = None) -> Submitted:
    """One job for each board."""
    return submit_verification(scope, body, key)


@router.post("/suites", status_code=201, dependencies=[SUBMITTER], summary="Submit a suite")
def post_suite(scope: Scoped, body: SuiteDefinition, key: IdempotencyKey = None) -> Submitted:
    """The client has expanded the suite into jobs and uploaded its files before."""
    return submit_suite(scope, body, key)


@router.post("/triages", status_code=201, dependencies=[SUBMITTER], summary="Submit a triage or a bad case")
def post_triage(scope: Scoped, body: Triage, key: IdempotencyKey = None) -> Submitted:
    """Runs the triage ladder on this host, without a board, from the models, the inputs, and the board's dump, outputs or
    capture."""
    return submit_triage(scope, body, key)


@router.get("/runs", summary="Runs, newest first")
def list_runs(
    scope: Scoped,
    state: State | None = None,
    kind: Kind | None = None,
    suite: TitleQuery = "",
    limit: Limit = 50,
    offset: Offset = 0,
) -> Runs:
    """suite: the name of a suite, to list only its runs."""
    query = select(SuiteRunRecord).where(SuiteRunRecord.project == scope.project)
    if state is not None:
        query = query.where(SuiteRunRecord.state == state)
    if kind is not None:
        query = query.where(SuiteRunRecord.kind == kind)
    if suite:
        query = query.where(SuiteRunRecord.name == suite)
    with scope.farm.database.read() as session:
        rows = session.scalars(
            query.order_by(SuiteRunRecord.created.desc(), SuiteRunRecord.id).limit(limit).offset(offset)
        ).all()
        ids = [row.id for row in rows]
        counts, names = counts_of_runs(session, ids), names_in_runs(session, ids)
    return Runs(runs=[run_reply(row, scope.project_name, counts[row.id], names[row.id]) for row in rows])


@router.get("/runs/{run}", summary="A run")
def get_run(scope: Scoped, run: IdPath) -> RunShort:
    """Its state, its verdict, and the number of jobs in each state."""
    with scope.farm.database.read() as session:
        row = session.get(SuiteRunRecord, run)
        if row is None or row.project != scope.project:
            raise not_found("run", run)
        return run_reply(row, scope.project_name, counts_of(session, run), names_in_runs(session, [run])[run])


@router.get("/runs/{run}/jobs", summary="A run's jobs")
def list_jobs(
    scope: Scoped,
    run: IdPath,
    state: JobState | None = None,
    verdict: Verdict | None = None,
    limit: Limit = 100,
    offset: Offset = 0,
) -> Jobs:
    """In the order of the suite."""
    find_run(scope, run)
    query = select(JobRecord).where(JobRecord.run == run)
    if state is not None:
        query = query.where(JobRecord.state == state)
    if verdict is not None:
        query = query.where(JobRecord.verdict == verdict)
    with scope.farm.database.read() as session:
        rows = session.scalars(query.order_by(JobRecord.number).limit(limit).offset(offset)).all()
        waits = JobWaits(scope, session) if any(row.state == QUEUED for row in rows) else None
    return Jobs(jobs=[job_reply(row, waits.of(row) if waits else "") for row in rows])


@router.post("/runs/{run}/cancel", dependencies=[SUBMITTER], summary="Cancel a run's unfinished jobs")
def post_cancel(scope: Scoped, run: IdPath, body: Cancel) -> Changed:
    """Finished jobs keep their results."""
    find_run(scope, run)
    with scope.farm.database.write() as session:
        why = f"cancelled by {scope.caller.name}" + (f": {body.why}" if body.why else "")
        changed = cancel_run(session, run, why, time.time())
        if changed:
            add_audit(session, scope.caller, scope.request, "run.cancel", scope.project, run=run, why=body.why)
    scope.farm.wake()
    return Changed(changed=changed)


@router.post("/runs/{run}/resume", dependencies=[SUBMITTER], summary="Queue a run's cancelled jobs again")
def post_resume(scope: Scoped, run: IdPath) -> Changed:
    """Jobs with a verdict keep it."""
    find_run(scope, run)
    with scope.farm.database.write() as session:
        row = session.get_one(SuiteRunRecord, run, with_for_update=True)
        queued_before, old_state = queued_jobs(session, scope.project), row.state
        seconds_before = unfinished_seconds(session, scope.project, row.submitter)
        jobs = reopen_run(session, row)
        project = session.get_one(ProjectRecord, scope.project)
        quota = project.quota_jobs
        session.flush()
        if queued_jobs(session, scope.project) > max(quota, queued_before):
            raise too_busy(f"the project's quota of {quota} queued jobs is full", 60)
        check_unfinished(session, project, row.submitter, 0.0, seconds_before)
        changed = old_state != RUNNING and row.state == RUNNING
        if changed:
            add_audit(session, scope.caller, scope.request, "run.resume", scope.project, run=run)
    scope.farm.wake()
    return Changed(changed=changed, jobs=jobs)


def _outcome(job: JobRecord) -> tuple[str | None, str, str]:
    """Returns what must be the same for two results to be the same. A verdict that something else weakens is another."""
    return job.verdict, job.blame_node, job.caveats


@router.get("/runs/{run}/differences", summary="What changed since another run")
def get_differences(
    scope: Scoped,
    run: IdPath,
    since: Annotated[str, Query(pattern=ID)],
    board: TitleQuery = "",
    since_board: TitleQuery = "",
) -> Differences:
    """Jobs are matched by name. since: the earlier run, or the same. board, since_board: only the jobs on this board of the run,
    and on that board of the earlier one; names are then matched without the boards, so that one model on two boards is."""
    earlier, after = _results(scope, since, since_board), _results(scope, run, board)
    different, same = [], 0
    for name in sorted(earlier.keys() | after.keys()):
        old, new = earlier.get(name), after.get(name)
        if old and new and _outcome(old) == _outcome(new):
            same += 1
            continue
        different.append(
            Difference(
                name=name,
                before=old.verdict if old else None,
                after=new.verdict if new else None,
                before_state=old.state if old else "",
                after_state=new.state if new else "",
                before_board=old.board if old else None,
                after_board=new.board if new else None,
                before_blame=old.blame_node if old else "",
                after_blame=new.blame_node if new else "",
                before_caveats=old.caveats if old else "",
                after_caveats=new.caveats if new else "",
                before_gate=old.gate if old else "",
                after_gate=new.gate if new else "",
                before_job=old.id if old else "",
                after_job=new.id if new else "",
                before_report=old.report if old else "",
                after_report=new.report if new else "",
            )
        )
    if len(different) > MAX_DIFFERENT:
        raise ApiError(422, f"{len(different)} jobs differ", wanted=f"at most {MAX_DIFFERENT}")
    return Differences(same=same, different=different)


MAX_DIFFERENT = 20_000


def _results(scope: Scope, run: str, board: str) -> dict[str, JobRecord]:
    """Returns the jobs of a run by name. board: only those on it, without its name in theirs; "" for all."""
    find_run(scope, run)
    query = select(JobRecord).where(JobRecord.run == run)
    with scope.farm.database.read() as session:
        jobs = session.scalars(query.where(JobRecord.board == board) if board else query).all()
    return {" ".join(word for word in job.name.split() if word != board): job for job in jobs}


def find_run(scope: Scope, run: str) -> SuiteRunRecord:
    """Returns a run of the project. Raises ApiError 404 for any other."""
    with scope.farm.database.read() as session:
        row = session.get(SuiteRunRecord, run)
    if row is None or row.project != scope.project:
        raise not_found("run", run)
    return row
