"""Routes for administrators: projects, tokens, sessions, the audit log and the retention."""

from __future__ import annotations

import time
import uuid
from typing import Annotated

from fastapi import APIRouter, Query, Request, Response
from qverify import __version__
from sqlalchemy import select
from sqlalchemy.orm import Session as Rows

from qverify_farm.service.access import (
    ADMIN,
    ADMIN_OF_ALL,
    COOKIE,
    CurrentCaller,
    admit,
    farm_of,
    is_secure,
    same_origin,
)
from qverify_farm.service.error_replies import error_responses
from qverify_farm.service.errors import ApiError, not_found
from qverify_farm.service.farm import add_audit
from qverify_farm.service.retention import ClockDoubtError, Retention
from qverify_farm.service.routes.artifacts import used_bytes
from qverify_farm.service.schemas.lab import (
    Audit,
    AuditRow,
    Done,
    NewProject,
    NewToken,
    ProjectChange,
    Projects,
    ProjectShort,
    Session,
    Swept,
    TokenMade,
    Tokens,
    TokenShort,
    WhoAmI,
)
from qverify_farm.service.schemas.texts import IdPath, Limit, NamePath
from qverify_farm.service.sessions import MAX_AGE_S, SESSION_ID, begin_session, end_session
from qverify_farm.service.submissions import queued_jobs
from qverify_farm.service.tokens import SECRET, create_token, list_tokens, revoke_token
from qverify_farm.store.board_usage import used_seconds
from qverify_farm.store.tables import AuditRecord, ProjectRecord, TokenRecord

router = APIRouter(tags=["administration"], responses=error_responses())


@router.get("/whoami", summary="Who the caller is")
def get_whoami(request: Request, caller: CurrentCaller) -> WhoAmI:
    """Name, role and project of the token."""
    name = None
    if caller.project is not None:
        with farm_of(request).database.read() as session:
            name = session.get_one(ProjectRecord, caller.project).name
    return WhoAmI(name=caller.name, role=caller.role, project=name, local=caller.local, qverify=__version__)


@router.post("/session", summary="Log a browser in")
def post_session(request: Request, response: Response, body: Session) -> Done:
    """Begins a session for the token and ends the browser's earlier one. The cookie contains the session's id, not the token; it
    is sent to this service only, by its own pages only, and scripts cannot read it. The session ends 12 hours after its last
    request, 7 days after its beginning, or with the token."""
    farm = farm_of(request)
    if not same_origin(request):
        raise ApiError(403, "a page of another site may not log in")
    known_caller = farm.known_callers.find(body.token) if SECRET.fullmatch(body.token) else None
    caller = admit(request, known_caller, body.token)
    with farm.database.write() as session:
        end_session(session, request.cookies.get(COOKIE, ""))
        secret = begin_session(session, caller.token, time.time())
    farm.known_callers.forget()
    response.set_cookie(
        COOKIE, secret, max_age=int(MAX_AGE_S), httponly=True, samesite="strict", secure=is_secure(request)
    )
    return Done()


@router.delete("/session", summary="Log the browser out")
def delete_session(request: Request, response: Response) -> Done:
    """Ends the session; the token stays valid."""
    farm, secret = farm_of(request), request.cookies.get(COOKIE, "")
    if not same_origin(request):
        raise ApiError(403, "a page of another site may not log out")
    if SESSION_ID.fullmatch(secret):
        with farm.database.write() as session:
            end_session(session, secret)
        farm.known_callers.forget()
    response.delete_cookie(COOKIE, httponly=True, samesite="strict", secure=is_secure(request))
    return Done()


@router.get("/projects", summary="Projects that the caller may see")
def list_projects(request: Request, caller: CurrentCaller) -> Projects:
    """Includes the used part of their quotas."""
    query = select(ProjectRecord).order_by(ProjectRecord.name)
    if caller.project is not None:
        query = query.where(ProjectRecord.id == caller.project)
    with farm_of(request).database.read() as session:
        return Projects(projects=[_project_reply(session, row) for row in session.scalars(query)])


@router.post(
    "/projects", status_code=201, dependencies=[ADMIN_OF_ALL], responses=error_responses(409), summary="Make a project"
)
def post_project(request: Request, caller: CurrentCaller, body: NewProject) -> ProjectShort:
    """quota_bytes: the permitted bytes of artifacts. quota_jobs: the permitted number of jobs that wait or run.
    quota_job_s, quota_submitter_s: the permitted board time of one job, and of the unfinished jobs of one submitter.
    quota_day_s, quota_submitter_day_s: the board time that its jobs, and those of one submitter, may use within 24 hours. keep_days: how long
    runs and unused artifacts are kept."""
    with farm_of(request).database.write() as session:
        if session.scalar(select(ProjectRecord.id).where(ProjectRecord.name == body.name)) is not None:
            raise ApiError(409, "there is a project of this name", got=body.name)
        row = ProjectRecord(id=uuid.uuid4().hex, created=time.time(), **body.model_dump())
        session.add(row)
        session.flush()
        add_audit(session, caller, request.state.request_id, "project.create", row.id, **body.model_dump())
        return _project_reply(session, row)


@router.patch("/projects/{name}", dependencies=[ADMIN_OF_ALL], summary="Change a project's quotas")
def patch_project(request: Request, caller: CurrentCaller, name: NamePath, body: ProjectChange) -> ProjectShort:
    """Fields that are left out do not change."""
    with farm_of(request).database.write() as session:
        row = session.scalar(select(ProjectRecord).where(ProjectRecord.name == name))
        if row is None:
            raise not_found("project", name)
        changes = body.model_dump(exclude_none=True)
        for key, value in changes.items():
            setattr(row, key, value)
        session.flush()
        add_audit(session, caller, request.state.request_id, "project.change", row.id, **changes)
        return _project_reply(session, row)


def _project_reply(session: Rows, row: ProjectRecord) -> ProjectShort:
    names = [name for name in ProjectShort.model_fields if name not in ("bytes", "queued", "day_s")]
    values = {name: getattr(row, name) for name in names}
    values["day_s"] = used_seconds(session, row.id, time.time())
    return ProjectShort(bytes=used_bytes(session, row.id), queued=queued_jobs(session, row.id), **values)


@router.get("/tokens", dependencies=[ADMIN], summary="Tokens, without their secrets")
def get_tokens(request: Request, caller: CurrentCaller) -> Tokens:
    """Those of the administrator's project, or of all projects."""
    with farm_of(request).database.read() as session:
        rows = list_tokens(session, caller.project)
    return Tokens(tokens=[_token_reply(row, project) for row, project in rows])


@router.post("/tokens", status_code=201, dependencies=[ADMIN], summary="Make a token")
def post_token(request: Request, caller: CurrentCaller, body: NewToken) -> TokenMade:
    """The secret is shown only in this reply. An administrator of one project can make tokens only for that project."""
    with farm_of(request).database.write() as session:
        project = body.project
        if caller.project is not None:
            own_project = session.get_one(ProjectRecord, caller.project).name
            if project not in (None, own_project):
                raise not_found("project", project or "")
            project = own_project
        row, secret = create_token(session, body.name, body.role, project, body.days, time.time())
        content = {"token": row.id, "name": row.name, "role": row.role}
        add_audit(session, caller, request.state.request_id, "token.create", row.project, **content)
    return TokenMade(token=secret, **_token_reply(row, project).model_dump())


@router.delete("/tokens/{token}", dependencies=[ADMIN], summary="Revoke a token")
def delete_token(request: Request, caller: CurrentCaller, token: IdPath) -> Done:
    """The token is not accepted any more, and its sessions end."""
    with farm_of(request).database.write() as session:
        row = revoke_token(session, token, time.time(), caller.project)
        if row is None:
            raise not_found("token", token)
        add_audit(session, caller, request.state.request_id, "token.revoke", row.project, token=row.id, name=row.name)
    farm_of(request).known_callers.forget()
    return Done()


def _token_reply(row: TokenRecord, project: str | None) -> TokenShort:
    names = [name for name in TokenShort.model_fields if name != "project"]
    return TokenShort(project=project, **{name: getattr(row, name) for name in names})


@router.get("/audit", dependencies=[ADMIN], summary="Who changed what, the newest first")
def get_audit(
    request: Request,
    caller: CurrentCaller,
    before: Annotated[int | None, Query(ge=1, le=1 << 53, description="only of smaller numbers")] = None,
    limit: Limit = 100,
) -> Audit:
    """The entries of the administrator's project, or of all projects."""
    query = select(AuditRecord, ProjectRecord.name).outerjoin(ProjectRecord, ProjectRecord.id == AuditRecord.project)
    if caller.project is not None:
        query = query.where(AuditRecord.project == caller.project)
    if before is not None:
        query = query.where(AuditRecord.number < before)
    with farm_of(request).database.read() as session:
        rows = session.execute(query.order_by(AuditRecord.number.desc()).limit(limit)).all()
    names = [name for name in AuditRow.model_fields if name != "project"]
    entries = [AuditRow(project=name, **{key: getattr(row, key) for key in names}) for row, name in rows]
    return Audit(entries=entries)


@router.post("/retention", dependencies=[ADMIN_OF_ALL], responses=error_responses(409), summary="Remove old data now")
def post_retention(request: Request, caller: CurrentCaller, despite_clock: bool = False) -> Swept:
    """This also happens automatically, every hour. While the clock may be wrong (it jumped, or the newest row is a week old when
    the service starts), nothing is removed for a day, unless despite_clock is true."""
    farm = farm_of(request)
    retention: Retention = request.app.state.retention
    try:
        swept = retention.sweep(despite_clock=despite_clock)
    except ClockDoubtError as error:
        next_step = "set the clock right and wait, or add despite_clock=true"
        raise ApiError(409, "the clock may be wrong", got=error, next=next_step) from None
    with farm.database.write() as session:
        add_audit(session, caller, request.state.request_id, "retention", None, **swept.model_dump())
    return swept
