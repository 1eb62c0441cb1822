"""Routes of the history of models, boards and nodes, and of the baselines with which verdicts are compared."""

from __future__ import annotations

import json
import time
from datetime import UTC, date, datetime
from typing import Annotated, Literal

from fastapi import APIRouter, Depends, Query, Request, Response
from fastapi.responses import JSONResponse
from qverify.errors import UsageError
from qverify.report.document import plain
from qverify.report.matrix.document import StoredRun
from qverify.report.matrix.grouping import build_matrix, default_axes, known_facts
from sqlalchemy import delete, func, select

from qverify_farm.errors import ArtifactError
from qverify_farm.service.access import SUBMITTER, Scope, Scoped
from qverify_farm.service.error_replies import error_responses
from qverify_farm.service.errors import ApiError
from qverify_farm.service.farm import add_audit
from qverify_farm.service.node_points import node_points
from qverify_farm.service.routes.runs import find_run
from qverify_farm.service.schemas.runs import (
    BaselineOf,
    BaselineRow,
    Baselines,
    Changed,
    History,
    HistoryChoices,
    HistoryRow,
    NodeHistory,
    NodePoint,
)
from qverify_farm.service.schemas.texts import Limit, Offset, RequiredQuery, Text, TitleQuery
from qverify_farm.store.finished_jobs import JobFilter, find_jobs
from qverify_farm.store.tables import BaselineRecord, JobRecord, SuiteRunRecord
from qverify_farm.store.verdicts import take_baseline
from qverify_farm.suites.stored_runs import StoredReports, runs_of_jobs

router = APIRouter(tags=["history"], responses=error_responses())
MAX_REPORTS = 50  # number of reports that are read for one reply about a node
MAX_REPORT_BYTES = 32 << 20
MAX_TOTAL_BYTES = 256 << 20  # total size of these reports
MAX_CHOICES = 1000  # of each menu
MAX_MATRIX_RUNS = 5000
DAY_S = 86_400
Facts = Annotated[tuple[Text, ...], Query(max_length=8, description="names of facts; may be repeated")]
MAX_SCANNED_ROWS = 20_000  # number of jobs that are searched for a node


Verdict = Literal["PASSED", "FAILED", "INCONCLUSIVE"]
Day = Annotated[date | None, Query(description="a day, UTC, such as 2026-11-30")]


def history_filter(
    model: TitleQuery = "",
    board: TitleQuery = "",
    suite: TitleQuery = "",
    job: TitleQuery = "",
    verdict: Verdict | None = None,
    since: Day = None,
    until: Day = None,
) -> JobFilter:
    """Filters: a model, a board, a suite, a job's name, a verdict, and the first and the last day."""
    return JobFilter(
        model=model,
        board=board,
        suite=suite,
        job=job,
        verdict=verdict or "",
        since=_midnight(since) if since is not None else None,
        until=_midnight(until) + DAY_S if until is not None else None,
    )


Wanted = Annotated[JobFilter, Depends(history_filter)]


def _midnight(day: date) -> float:
    return datetime(day.year, day.month, day.day, tzinfo=UTC).timestamp()


@router.get("/history", summary="Finished jobs, newest first")
def get_history(
    scope: Scoped, wanted: Wanted, node: TitleQuery = "", limit: Limit = 100, offset: Offset = 0
) -> History:
    """Filters: a model, a board, a suite, a job's name, a verdict, first and last day, or a node that was blamed or failed."""
    rows = _rows(scope, wanted, node, limit, offset)
    with scope.farm.database.read() as session:
        expected = {
            (baseline.suite, baseline.job): baseline.verdict
            for baseline in session.scalars(select(BaselineRecord).where(BaselineRecord.project == scope.project))
        }
    return History(jobs=[_shown(job, run, expected.get((run.name, job.name))) for job, run in rows])


def _rows(
    scope: Scope, wanted: JobFilter, node: str, limit: int, offset: int = 0
) -> list[tuple[JobRecord, SuiteRunRecord]]:
    query = wanted.query(scope.project)
    with scope.farm.database.read() as session:
        if not node:
            return [(job, run) for job, run in session.execute(query.limit(limit).offset(offset))]
        candidates = session.execute(query.limit(MAX_SCANNED_ROWS).execution_options(yield_per=200))
        rows = []
        for done, run in candidates:
            if node == done.blame_node or node in (done.nodes or ()):
                rows.append((done, run))
                if len(rows) == offset + limit:
                    break
        return rows[offset:]


@router.get("/history/choices", summary="What the history can be filtered by")
def get_choices(scope: Scoped) -> HistoryChoices:
    """The models, boards, suites, jobs, verdicts, days and labels of the finished jobs that are stored, each once."""
    with scope.farm.database.read() as session:
        whole = JobFilter().query(scope.project).order_by(None).subquery()
        columns = {"models": whole.c.model, "boards": whole.c.board, "suites": whole.c.name_1, "jobs": whole.c.name}
        found = {
            key: [str(v) for v in session.scalars(select(column).distinct().order_by(column).limit(MAX_CHOICES)) if v]
            for key, column in columns.items()
        }
        verdicts = [str(v) for v in session.scalars(select(whole.c.verdict).distinct().order_by(whole.c.verdict)) if v]
        first, last = session.execute(select(func.min(whole.c.ended), func.max(whole.c.ended))).one()
        newest = select(SuiteRunRecord.labels).where(SuiteRunRecord.project == scope.project)
        labels = session.scalars(newest.order_by(SuiteRunRecord.created.desc()).limit(MAX_CHOICES)).all()
    return HistoryChoices(
        verdicts=verdicts,
        first_day=None if first is None else datetime.fromtimestamp(first, UTC).date(),
        last_day=None if last is None else datetime.fromtimestamp(last, UTC).date(),
        labels=sorted({str(key) for row in labels for key in row or {}}),
        **found,
    )


@router.get(
    "/history/runs",
    response_class=JSONResponse,
    responses={200: {"content": {"application/json": {"schema": {"type": "object"}}}, "description": "The runs"}},
    summary="Finished jobs as runs of a matrix",
)
def get_history_runs(
    request: Request, scope: Scoped, wanted: Wanted, limit: Limit = 100, offset: Offset = 0
) -> Response:
    """`runs`: what `qverify report matrix --server` reads of each job: facts, stack, verdict, the tensor that differs most, task
    numbers and time."""
    return JSONResponse({"runs": plain(_stored(request, scope, wanted, limit, offset))})


@router.get(
    "/matrix",
    response_class=JSONResponse,
    responses={
        **error_responses(422),
        200: {"content": {"application/json": {"schema": {"type": "object"}}}, "description": "The matrix"},
    },
    summary="The history as a matrix",
)
def get_matrix(
    request: Request,
    scope: Scoped,
    wanted: Wanted,
    rows: Facts = (),
    columns: Facts = (),
    order: Literal["version", "date"] = "version",
    limit: Annotated[int, Query(ge=1, le=MAX_MATRIX_RUNS)] = 1000,
) -> Response:
    """The document of `qverify report schema matrix`, of the newest jobs. rows, columns: names of facts, as those of `qverify report
    matrix`; by default the usual ones that differ."""
    runs = _stored(request, scope, wanted, limit, 0)
    try:
        axes = default_axes(runs, rows, columns)
        matrix = build_matrix(runs, *axes, by_date=order == "date")
    except UsageError as error:
        raise ApiError(422, str(error), where="rows, columns") from None
    return JSONResponse(matrix.to_json() | {"facts_known": known_facts(runs)})


def _stored(request: Request, scope: Scope, wanted: JobFilter, limit: int, offset: int) -> list[StoredRun]:
    state = request.app.state
    if not hasattr(state, "stored_reports"):
        state.stored_reports = StoredReports(scope.farm.artifacts)
    with scope.farm.database.read() as session:
        found = find_jobs(session, wanted, scope.project, limit, offset)
    return runs_of_jobs(found, state.stored_reports, lambda job: f"/jobs/{job}")


def _shown(job: JobRecord, run: SuiteRunRecord, expected: str | None) -> HistoryRow:
    names = (
        "name",
        "model",
        "board",
        "verdict",
        "why",
        "caveats",
        "gate",
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
    wanted: Wanted,
    node: RequiredQuery,
    limit: Annotated[int, Query(ge=1, le=MAX_REPORTS)] = 20,
) -> NodeHistory:
    """The metrics of a node or tensor in the reports of the last jobs, oldest first, for a chart over firmware versions. Where a
    report shows only that the bytes are equal, the errors are 0."""
    points, bytes_read = list[NodePoint](), 0
    for done_job, run in _rows(scope, wanted, "", limit):
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
