"""Projects, tokens, the audit log, the retention: what administrators do."""

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
    Asking,
    admit,
    farm_of,
    is_secure,
    same_origin,
)
from qverify_farm.service.errors import ApiError, not_found
from qverify_farm.service.farm import add_audit
from qverify_farm.service.replies import documented
from qverify_farm.service.retention import Retention
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
from qverify_farm.service.sessions import LONGEST_S, SESSION_ID, begin_session, end_session
from qverify_farm.service.submissions import queued_jobs
from qverify_farm.service.tokens import SECRET, create_token, list_tokens, revoke_token
from qverify_farm.store.tables import AuditEntry, Project, Token

router = APIRouter(tags=["administration"], responses=documented())


@router.get("/whoami", summary="Who the caller is")
def get_whoami(request: Request, caller: Asking) -> WhoAmI:
    """Name, role and project of the token."""
    name = None
    if caller.project is not None:
        with farm_of(request).database.read() as session:
            name = session.get_one(Project, caller.project).name
    return WhoAmI(name=caller.name, role=caller.role, project=name, local=caller.local, qverify=__version__)


@router.post("/session", summary="Log a browser in")
def post_session(request: Request, response: Response, asked: Session) -> Done:
    """Begins a session of the token and ends the browser's earlier one. The cookie holds the session, not the token; it is
    sent to this service only, by its own pages only, and no script reads it. The session ends 12 hours after its last
    request, 7 days after its begin, and with the token."""
    farm = farm_of(request)
    if not same_origin(request):
        raise ApiError(403, "a page of another site may not log in")
    found = farm.known.find(asked.token) if SECRET.fullmatch(asked.token) else None
    caller = admit(request, found, asked.token)
    with farm.database.write() as session:
        end_session(session, request.cookies.get(COOKIE, ""))
        secret = begin_session(session, caller.token, time.time())
    farm.known.forget()
    response.set_cookie(
        COOKIE, secret, max_age=int(LONGEST_S), httponly=True, samesite="strict", secure=is_secure(request)
    )
    return Done()


@router.delete("/session", summary="Log the browser out")
def delete_session(request: Request, response: Response) -> Done:
    """The session is unknown from now on; the token stays valid."""
    farm, secret = farm_of(request), request.cookies.get(COOKIE, "")
    if SESSION_ID.fullmatch(secret) and same_origin(request):
        with farm.database.write() as session:
            end_session(session, secret)
        farm.known.forget()
    response.delete_cookie(COOKIE, httponly=True, samesite="strict", secure=is_secure(request))
    return Done()


@router.get("/projects", summary="Projects that the caller may see")
def list_projects(request: Request, caller: Asking) -> Projects:
    """With what they use of their quotas."""
    query = select(Project).order_by(Project.name)
    if caller.project is not None:
        query = query.where(Project.id == caller.project)
    with farm_of(request).database.read() as session:
        return Projects(projects=[_shown_project(session, row) for row in session.scalars(query)])


@router.post(
    "/projects", status_code=201, dependencies=[ADMIN_OF_ALL], responses=documented(409), summary="Make a project"
)
def post_project(request: Request, caller: Asking, asked: NewProject) -> ProjectShort:
    """Quotas: bytes of artifacts, jobs that wait or run. keep_days: of runs and unused artifacts."""
    with farm_of(request).database.write() as session:
        if session.scalar(select(Project.id).where(Project.name == asked.name)) is not None:
            raise ApiError(409, "there is a project of this name", got=asked.name)
        row = Project(id=uuid.uuid4().hex, created=time.time(), **asked.model_dump())
        session.add(row)
        session.flush()
        add_audit(session, caller, request.state.request_id, "project.create", row.id, **asked.model_dump())
        return _shown_project(session, row)


@router.patch("/projects/{name}", dependencies=[ADMIN_OF_ALL], summary="Change a project's quotas")
def patch_project(request: Request, caller: Asking, name: NamePath, asked: ProjectChange) -> ProjectShort:
    """Fields that are not given stay."""
    with farm_of(request).database.write() as session:
        row = session.scalar(select(Project).where(Project.name == name))
        if row is None:
            raise not_found("project", name)
        changes = asked.model_dump(exclude_none=True)
        for key, value in changes.items():
            setattr(row, key, value)
        session.flush()
        add_audit(session, caller, request.state.request_id, "project.change", row.id, **changes)
        return _shown_project(session, row)


def _shown_project(session: Rows, row: Project) -> ProjectShort:
    names = [name for name in ProjectShort.model_fields if name not in ("bytes", "queued")]
    values = {name: getattr(row, name) for name in names}
    return ProjectShort(bytes=used_bytes(session, row.id), queued=queued_jobs(session, row.id), **values)


@router.get("/tokens", dependencies=[ADMIN], summary="Tokens, without their secrets")
def get_tokens(request: Request, caller: Asking) -> Tokens:
    """Of the administrator's project, or of all."""
    with farm_of(request).database.read() as session:
        rows = list_tokens(session, caller.project)
    return Tokens(tokens=[_shown_token(row, project) for row, project in rows])


@router.post("/tokens", status_code=201, dependencies=[ADMIN], summary="Make a token")
def post_token(request: Request, caller: Asking, asked: NewToken) -> TokenMade:
    """Its secret is shown once. An administrator of one project makes tokens of it only."""
    with farm_of(request).database.write() as session:
        project = asked.project
        if caller.project is not None:
            own = session.get_one(Project, caller.project).name
            if project not in (None, own):
                raise not_found("project", project or "")
            project = own
        row, secret = create_token(session, asked.name, asked.role, project, asked.days, time.time())
        content = {"token": row.id, "name": row.name, "role": row.role}
        add_audit(session, caller, request.state.request_id, "token.create", row.project, **content)
    return TokenMade(token=secret, **_shown_token(row, project).model_dump())


@router.delete("/tokens/{token}", dependencies=[ADMIN], summary="Revoke a token")
def delete_token(request: Request, caller: Asking, token: IdPath) -> Done:
    """From now on it is unknown, and its sessions have ended."""
    with farm_of(request).database.write() as session:
        row = revoke_token(session, token, time.time(), caller.project)
        if row is None:
            raise not_found("token", token)
        add_audit(session, caller, request.state.request_id, "token.revoke", row.project, token=row.id, name=row.name)
    farm_of(request).known.forget()
    return Done()


def _shown_token(row: Token, project: str | None) -> TokenShort:
    names = [name for name in TokenShort.model_fields if name != "project"]
    return TokenShort(project=project, **{name: getattr(row, name) for name in names})


@router.get("/audit", dependencies=[ADMIN], summary="Who changed what, the newest first")
def get_audit(
    request: Request,
    caller: Asking,
    before: Annotated[int | None, Query(ge=1, le=1 << 53, description="only of smaller numbers")] = None,
    limit: Limit = 100,
) -> Audit:
    """Of the administrator's project, or of all."""
    query = select(AuditEntry, Project.name).outerjoin(Project, Project.id == AuditEntry.project)
    if caller.project is not None:
        query = query.where(AuditEntry.project == caller.project)
    if before is not None:
        query = query.where(AuditEntry.number < before)
    with farm_of(request).database.read() as session:
        rows = session.execute(query.order_by(AuditEntry.number.desc()).limit(limit)).all()
    names = [name for name in AuditRow.model_fields if name != "project"]
    entries = [AuditRow(project=name, **{key: getattr(row, key) for key in names}) for row, name in rows]
    return Audit(entries=entries)


@router.post("/retention", dependencies=[ADMIN_OF_ALL], summary="Remove now what is too old")
def post_retention(request: Request, caller: Asking) -> Swept:
    """It also happens by itself, every hour."""
    farm = farm_of(request)
    retention: Retention = request.app.state.retention
    swept = retention.sweep()
    with farm.database.write() as session:
        add_audit(session, caller, request.state.request_id, "retention", None, **swept.model_dump())
    return swept
