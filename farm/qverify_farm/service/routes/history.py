"""Routes of the history of models, boards and nodes, and of the baselines with which verdicts are compared."""

from __future__ import annotations

import json
import time
from typing import Annotated

from fastapi import APIRouter, Query
from sqlalchemy import delete, select

from qverify_farm.errors import ArtifactError
from qverify_farm.service.access import SUBMITTER, Scope, Scoped
from qverify_farm.service.error_replies import error_responses
from qverify_farm.service.farm import add_audit
from qverify_farm.service.node_points import node_points
from qverify_farm.service.routes.runs import find_run
from qverify_farm.service.schemas.runs import (
    BaselineOf,
    BaselineRow,
    Baselines,
    Changed,
    History,
    HistoryRow,
    NodeHistory,
    NodePoint,
)
from qverify_farm.service.schemas.texts import Limit, RequiredQuery, TitleQuery
from qverify_farm.store.states import DONE
from qverify_farm.store.tables import BaselineRecord, JobRecord, SuiteRunRecord
from qverify_farm.store.verdicts import take_baseline

router = APIRouter(tags=["history"], responses=error_responses())
MAX_REPORTS = 50  # number of reports that are read for one reply about a node
MAX_REPORT_BYTES = 32 << 20
MAX_TOTAL_BYTES = 256 << 20  # total size of these reports
MAX_SCANNED_ROWS = 20_000  # number of jobs that are searched for a node


@router.get("/history", summary="Finished jobs, newest first")
def get_history(
    scope: Scoped,
    model: TitleQuery = "",
    board: TitleQuery = "",
    suite: TitleQuery = "",
    job: TitleQuery = "",
    node: TitleQuery = "",
    limit: Limit = 100,
) -> History:
    """Filters: a model, a board, a suite, a job's name, or a node that was blamed or failed."""
    rows = _rows(scope, model, board, suite, job, node, limit)
    with scope.farm.database.read() as session:
        expected = {
            (baseline.suite, baseline.job): baseline.verdict
            for baseline in session.scalars(select(BaselineRecord).where(BaselineRecord.project == scope.project))
        }
    return History(jobs=[_shown(job, run, expected.get((run.name, job.name))) for job, run in rows])


def _rows(
    scope: Scope, model: str, board: str, suite: str, job: str, node: str, limit: int
) -> list[tuple[JobRecord, SuiteRunRecord]]:
    query = (
        select(JobRecord, SuiteRunRecord)
        .join(SuiteRunRecord, SuiteRunRecord.id == JobRecord.run)
        .where(
            SuiteRunRecord.project == scope.project,
            JobRecord.state == DONE,
            SuiteRunRecord.kind.in_(("suite", "verify")),
        )
        .order_by(JobRecord.ended.desc(), JobRecord.id)
    )
    for column, value in (
        (JobRecord.model, model),
        (JobRecord.board, board),
        (SuiteRunRecord.name, suite),
        (JobRecord.name, job),
    ):
        if value:
            query = query.where(column == value)
    with scope.farm.database.read() as session:
        if not node:
            return [(job, run) for job, run in session.execute(query.limit(limit))]
        candidates = session.execute(query.limit(MAX_SCANNED_ROWS).execution_options(yield_per=200))
        rows = []
        for done, run in candidates:
            if node == done.blame_node or node in (done.nodes or ()):
                rows.append((done, run))
                if len(rows) == limit:
                    break
        return rows


def _shown(job: JobRecord, run: SuiteRunRecord, expected: str | None) -> HistoryRow:
    names = (
        "name",
        "model",
        "board",
        "verdict",
        "why",
        "caveats",
        "blame_side",
        "blame_node",
        "nodes",
        "facts",
        "report",
        "ended",
    )
    values = {name: getattr(job, name) for name in names}
    return HistoryRow(
        job=job.id,
        run=run.id,
        suite=run.name,
        baseline=expected,
        labels=dict(run.labels or {}),
        board_seconds=job.board_seconds,
        **values,
    )


@router.get("/history/nodes", summary="Metrics of a node over the last runs")
def get_node_history(
    scope: Scoped,
    node: RequiredQuery,
    model: TitleQuery = "",
    board: TitleQuery = "",
    suite: TitleQuery = "",
    job: TitleQuery = "",
    limit: Annotated[int, Query(ge=1, le=MAX_REPORTS)] = 20,
) -> NodeHistory:
    """The metrics of a node or tensor in the reports of the last jobs, oldest first, for a chart over firmware versions. Where a
    report shows only that the bytes are equal, the errors are 0."""
    points, bytes_read = list[NodePoint](), 0
    for done_job, run in _rows(scope, model, board, suite, job, "", limit):
        size = scope.farm.artifacts.size_of(done_job.report) if done_job.report else None
        if size is None or size > MAX_REPORT_BYTES or bytes_read + size > MAX_TOTAL_BYTES:
            continue
        bytes_read += size
        try:
            document = json.loads(scope.farm.artifacts.read(done_job.report, MAX_REPORT_BYTES))
        except (ValueError, RecursionError, ArtifactError):
            continue
        points += node_points(document, node, done_job, run)
    return NodeHistory(points=points[::-1])


@router.get("/baselines", summary="The expected verdicts of a suite's jobs")
def list_baselines(scope: Scoped, suite: TitleQuery = "", limit: Limit = 1000) -> Baselines:
    """Those of one suite, or of all suites."""
    query = select(BaselineRecord).where(BaselineRecord.project == scope.project)
    if suite:
        query = query.where(BaselineRecord.suite == suite)
    with scope.farm.database.read() as session:
        rows = session.scalars(query.order_by(BaselineRecord.suite, BaselineRecord.job).limit(limit)).all()
    names = BaselineRow.model_fields
    return Baselines(baselines=[BaselineRow(**{name: getattr(row, name) for name in names}) for row in rows])


@router.put("/baselines", dependencies=[SUBMITTER], summary="Make a run's results the baseline of its suite")
def put_baseline(scope: Scoped, body: BaselineOf) -> Changed:
    """Uses the finished jobs, and replaces the earlier baseline."""
    run = find_run(scope, body.run)
    with scope.farm.database.write() as session:
        jobs = take_baseline(session, run, time.time())
        add_audit(session, scope.caller, scope.request, "baseline.put", scope.project, run=run.id, jobs=jobs)
    return Changed(changed=bool(jobs), jobs=jobs)


@router.delete("/baselines", dependencies=[SUBMITTER], summary="Delete a suite's baseline")
def delete_baseline(scope: Scoped, suite: RequiredQuery) -> Changed:
    """The suite's runs are kept."""
    with scope.farm.database.write() as session:
        condition = (BaselineRecord.project == scope.project) & (BaselineRecord.suite == suite)
        names = session.scalars(select(BaselineRecord.job).where(condition)).all()
        session.execute(delete(BaselineRecord).where(condition))
        if names:
            add_audit(session, scope.caller, scope.request, "baseline.delete", scope.project, suite=suite)
    return Changed(changed=bool(names), jobs=len(names))
