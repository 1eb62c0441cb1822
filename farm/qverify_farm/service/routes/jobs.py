"""Routes of jobs: their results, their reports as JSON or as a page, and other stored files."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response
from fastapi.responses import HTMLResponse, StreamingResponse
from sqlalchemy import select

from qverify_farm.service.access import Scope, Scoped
from qverify_farm.service.error_replies import error_responses
from qverify_farm.service.errors import ApiError, not_found
from qverify_farm.service.job_waits import JobWaits
from qverify_farm.service.report_pages import POLICY, ReportPages
from qverify_farm.service.routes.artifacts import find_artifact, safe_name
from qverify_farm.service.row_replies import attempt_reply, job_values
from qverify_farm.service.schemas.runs import JobWhole, ResultFile
from qverify_farm.service.schemas.texts import IdPath
from qverify_farm.service.triage_engine import is_lane, page_of
from qverify_farm.store.states import QUEUED
from qverify_farm.store.tables import ArtifactRecord, AttemptRecord, JobRecord, SuiteRunRecord

router = APIRouter(prefix="/jobs", tags=["jobs"], responses=error_responses())


@router.get("/{job}", summary="A job")
def get_job(scope: Scoped, job: IdPath) -> JobWhole:
    """The job's result and all its attempts."""
    row = find_job(scope, job)
    with scope.farm.database.read() as session:
        attempts = session.scalars(
            select(AttemptRecord).where(AttemptRecord.job == job).order_by(AttemptRecord.number)
        ).all()
        stored = [(kind, sha) for kind, sha in (("report", row.report), ("capture", row.capture)) if sha]
        rows = select(ArtifactRecord.sha256, ArtifactRecord.size).where(
            ArtifactRecord.sha256.in_([sha for _, sha in stored])
        )
        sizes = {sha: size for sha, size in session.execute(rows)}
        waits = JobWaits(scope, session).of(row) if row.state == QUEUED else ""
    files = [
        ResultFile(name=_file_name(row, kind), kind=kind, sha256=sha, size=sizes[sha])
        for kind, sha in stored
        if sha in sizes
    ]
    return JobWhole(**job_values(row, waits), attempts=[attempt_reply(attempt) for attempt in attempts], results=files)


@router.get(
    "/{job}/report",
    response_class=StreamingResponse,
    responses={
        **error_responses(409),
        200: {"content": {"application/json": {"schema": {"type": "object"}}}, "description": "The report"},
    },
    summary="Its report as JSON",
)
def get_report(scope: Scoped, job: IdPath) -> Response:
    """The document of `qverify schema`; for a triage, that of `qverify schema triage`."""
    row = _find_reported_job(scope, job)
    _, size = find_artifact(scope, row.report)
    headers = {"Content-Length": str(size), "ETag": f'"{row.report}"', "Content-Disposition": "attachment"}
    headers["Content-Disposition"] += f'; filename="{_file_name(row, "report")}"'
    return StreamingResponse(scope.farm.artifacts.pieces(row.report), headers=headers, media_type="application/json")


@router.get(
    "/{job}/page",
    response_class=HTMLResponse,
    responses={**error_responses(409), 200: {"content": {"text/html": {}}, "description": "The page"}},
    summary="Its report as a page",
)
def get_page(request: Request, scope: Scoped, job: IdPath) -> Response:
    """The same page as that of --html."""
    row = _find_reported_job(scope, job)
    find_artifact(scope, row.report)
    if is_lane(row.board or ""):
        page = page_of(scope.farm.artifacts, row.capture)
    else:
        page = _pages(request, scope).page_of(row.report)
    return Response(page, media_type="text/html", headers={"Content-Security-Policy": POLICY})


def _pages(request: Request, scope: Scope) -> ReportPages:
    state = request.app.state
    if not hasattr(state, "report_pages"):
        state.report_pages = ReportPages(scope.farm.artifacts)
    pages: ReportPages = state.report_pages
    return pages


def find_job(scope: Scope, job: str) -> JobRecord:
    """Returns a job of the project. Raises ApiError 404 for any other."""
    with scope.farm.database.read() as session:
        row = session.scalar(
            select(JobRecord)
            .join(SuiteRunRecord, SuiteRunRecord.id == JobRecord.run)
            .where(JobRecord.id == job, SuiteRunRecord.project == scope.project)
        )
    if row is None:
        raise not_found("job", job)
    return row


def _find_reported_job(scope: Scope, job: str) -> JobRecord:
    row = find_job(scope, job)
    if not row.report:
        why = row.why or f"it is {row.state}"
        raise ApiError(404, "the job has no report", got=why)
    return row


def _file_name(job: JobRecord, kind: str) -> str:
    suffix = {"report": ".json", "capture": ".zip" if is_lane(job.board or "") else ".capture.tar"}
    return safe_name(job.name.replace(" ", "-"))[:90] + suffix.get(kind, "")
