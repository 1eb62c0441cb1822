"""Artifacts: put in any size, had again by their digest. No upload is ever shown as a page."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from typing import Annotated, BinaryIO

import anyio
from fastapi import APIRouter, Header, Request, Response
from fastapi.responses import StreamingResponse
from sqlalchemy import func, select
from sqlalchemy.orm import Session

from qverify_farm.errors import ArtifactError
from qverify_farm.service.access import SUBMITTER, Scope, Scoped
from qverify_farm.service.errors import ApiError, not_found
from qverify_farm.service.farm import add_audit
from qverify_farm.service.replies import documented
from qverify_farm.service.schemas.lab import Artifacts, ArtifactShort
from qverify_farm.service.schemas.texts import Limit, Offset, Sha256Path, TitleQuery
from qverify_farm.store.artifact_rows import keep_artifact
from qverify_farm.store.artifacts import Stored, Writing
from qverify_farm.store.tables import Artifact, Project, ProjectArtifact

router = APIRouter(prefix="/artifacts", tags=["artifacts"], responses=documented())
PIECE = 1 << 20
RANGE = re.compile(r"bytes=(\d{0,18})-(\d{0,18})")
BYTES = {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}}
BODY = {"requestBody": {"required": True, "content": BYTES}}
UPLOADS = 8  # that are hashed and written at a time


@router.put(
    "/{sha256}",
    status_code=201,
    dependencies=[SUBMITTER],
    responses=documented(409, 507),
    openapi_extra=BODY,
    summary="Put bytes under their digest",
)
async def put_artifact(request: Request, scope: Scoped, sha256: Sha256Path, name: TitleQuery = "") -> ArtifactShort:
    """Stores the body, in constant memory. 409 where its SHA-256 is another one. Who asks HEAD first saves the bytes that
    the project has already."""
    return await _take_in(request, scope, sha256, name)


@router.post(
    "",
    status_code=201,
    dependencies=[SUBMITTER],
    responses=documented(409, 507),
    openapi_extra=BODY,
    summary="Put bytes and be told their digest",
)
async def post_artifact(request: Request, scope: Scoped, name: TitleQuery = "") -> ArtifactShort:
    """Stores the body, in constant memory, and returns its digest."""
    return await _take_in(request, scope, "", name)


async def _take_in(request: Request, scope: Scope, sha256: str, name: str) -> ArtifactShort:
    limit = await anyio.to_thread.run_sync(_room, scope, _length(request))
    context, threads = scope.farm.artifacts.writing(None, sha256), _threads(request)
    writing = await anyio.to_thread.run_sync(context.__enter__, limiter=threads)
    try:
        await _write_all(request, writing, limit, threads)
    except BaseException as error:
        with anyio.CancelScope(shield=True):
            await anyio.to_thread.run_sync(context.__exit__, type(error), error, error.__traceback__)
        raise
    with anyio.CancelScope(shield=True):
        await anyio.to_thread.run_sync(context.__exit__, None, None, None, limiter=threads)
        await anyio.to_thread.run_sync(_keep, scope, writing.stored, name)
    scope.farm.metrics.count_upload(writing.size)
    return ArtifactShort(sha256=writing.stored.sha256, size=writing.size, name=name, kind="file")


def _length(request: Request) -> int:
    text = request.headers.get("content-length", "")
    return int(text) if text.isdigit() else 0


def _threads(request: Request) -> anyio.CapacityLimiter:
    """Returns the threads that hash and write uploads; others stay free for other requests."""
    state = request.app.state
    if not hasattr(state, "upload_threads"):
        state.upload_threads = anyio.CapacityLimiter(UPLOADS)
    threads: anyio.CapacityLimiter = state.upload_threads
    return threads


async def _write_all(request: Request, writing: Writing, limit: int, threads: anyio.CapacityLimiter) -> None:
    waiting = bytearray()
    size = 0
    async for piece in request.stream():
        size += len(piece)
        if size > limit:
            raise ApiError(
                413, "the project's quota of bytes is full", got=f"{size} bytes and more", wanted=f"{limit} left"
            )
        waiting += piece
        if len(waiting) >= PIECE:
            await anyio.to_thread.run_sync(writing.write, memoryview(waiting), limiter=threads)
            waiting = bytearray()
    if waiting:
        await anyio.to_thread.run_sync(writing.write, memoryview(waiting), limiter=threads)


def _room(scope: Scope, size: int) -> int:
    """Returns the bytes that the project may still put."""
    with scope.farm.database.read() as session:
        left = session.get_one(Project, scope.project).quota_bytes - used_bytes(session, scope.project)
    most = min(left, scope.farm.settings.max_upload_bytes)
    if size > most or left <= 0:
        raise ApiError(413, "the project's quota of bytes is full", got=f"{size} bytes", wanted=f"{max(0, left)} left")
    return most


def _keep(scope: Scope, stored: Stored, name: str) -> None:
    with scope.farm.database.write() as session:
        project = session.get_one(Project, scope.project, with_for_update=True)
        known = session.get(ProjectArtifact, {"project": scope.project, "sha256": stored.sha256})
        if known is None and used_bytes(session, scope.project) + stored.size > project.quota_bytes:
            raise ApiError(413, "the project's quota of bytes is full", got=f"{stored.size} bytes")
        keep_artifact(session, scope.project, stored.sha256, stored.size, time.time(), name=name)
        if not scope.farm.artifacts.exists(stored.sha256):  # the retention removed them in between
            raise ApiError(409, "the bytes were removed at the same time", next="put them again")
        if known is None:
            content = {"sha256": stored.sha256, "size": stored.size, "name": name}
            add_audit(session, scope.caller, scope.request, "artifact.put", scope.project, **content)


def used_bytes(session: Session, project: str) -> int:
    """Returns the bytes of a project's artifacts."""
    query = (
        select(func.coalesce(func.sum(Artifact.size), 0))
        .join(ProjectArtifact, ProjectArtifact.sha256 == Artifact.sha256)
        .where(ProjectArtifact.project == project)
    )
    return int(session.scalar(query) or 0)


@router.get("", summary="The project's artifacts, the last used first")
def list_artifacts(scope: Scoped, limit: Limit = 100, offset: Offset = 0) -> Artifacts:
    """Returns names, kinds and sizes."""
    with scope.farm.database.read() as session:
        rows = session.execute(
            select(ProjectArtifact, Artifact.size)
            .join(Artifact, Artifact.sha256 == ProjectArtifact.sha256)
            .where(ProjectArtifact.project == scope.project)
            .order_by(ProjectArtifact.used.desc(), ProjectArtifact.sha256)
            .limit(limit)
            .offset(offset)
        ).all()
    found = [ArtifactShort(sha256=r.sha256, size=size, name=r.name, kind=r.kind) for r, size in rows]
    return Artifacts(artifacts=found)


@router.head(
    "/{sha256}",
    response_class=Response,
    responses={**documented(416), 200: {"content": BYTES, "description": "The project has it"}},
    summary="Whether the project has it",
)
@router.get(
    "/{sha256}",
    response_class=StreamingResponse,
    responses={
        **documented(409, 416),
        200: {"content": BYTES, "description": "The bytes, as an attachment"},
        206: {"content": BYTES, "description": "A range of the bytes"},
    },
    summary="The bytes",
)
def get_artifact(
    request: Request,
    scope: Scoped,
    sha256: Sha256Path,
    range: Annotated[str | None, Header(max_length=200)] = None,
    name: TitleQuery = "",
) -> Response:
    """Returns the bytes, or one range of them (Range: bytes=A-B). name: of the file to save them as."""
    row, size = find_artifact(scope, sha256)
    headers = {
        "ETag": f'"{sha256}"',
        "Accept-Ranges": "bytes",
        "Content-Disposition": f'attachment; filename="{safe_name(name or row.name or sha256)}"',
        "Cache-Control": "private, max-age=31536000, immutable",
        "Content-Security-Policy": "default-src 'none'; sandbox",
    }
    first, last, status = _range(range, size)
    headers["Content-Length"] = str(last - first + 1)
    if status == 206:
        headers["Content-Range"] = f"bytes {first}-{last}/{size}"
    if request.method == "HEAD":
        return Response(status_code=status, headers=headers, media_type="application/octet-stream")
    file = scope.farm.artifacts.open(sha256)
    return StreamingResponse(
        _pieces(file, first, last - first + 1), status, headers=headers, media_type="application/octet-stream"
    )


def find_artifact(scope: Scope, sha256: str) -> tuple[ProjectArtifact, int]:
    """Returns the row of an artifact and its bytes. ApiError 404 where the project has no such."""
    with scope.farm.database.read() as session:
        row = session.get(ProjectArtifact, {"project": scope.project, "sha256": sha256})
        size = session.scalar(select(Artifact.size).where(Artifact.sha256 == sha256))
    if row is None or size is None:
        raise not_found("artifact", sha256)
    if scope.farm.artifacts.size_of(sha256) != size:
        raise ArtifactError(f"{sha256}: its bytes are no longer stored")
    return row, size


def _range(text: str | None, size: int) -> tuple[int, int, int]:
    """Returns first and last byte, and 200 or 206. ApiError 416 for a range that there is not."""
    match = RANGE.fullmatch(text.replace(" ", "")) if text else None
    if match is None or match.groups() == ("", ""):  # several ranges, or other units: all of it
        return 0, size - 1, 200
    begin, end = match.groups()
    first = int(begin) if begin else max(0, size - int(end))
    last = min(int(end), size - 1) if begin and end else size - 1
    if first > last or (not begin and int(end) == 0):
        raise ApiError(416, "no such range of bytes", got=text or "", headers={"Content-Range": f"bytes */{size}"})
    return first, last, 206


def _pieces(file: BinaryIO, first: int, size: int) -> Iterator[bytes]:
    with file:
        file.seek(first)
        while size > 0 and (piece := file.read(min(size, PIECE))):
            size -= len(piece)
            yield piece


def safe_name(name: str) -> str:
    """Returns a name for a file to save: the last part, without what a header or a file system could misread."""
    last = re.split(r"[/\\]", name)[-1]
    return re.sub(r"[^A-Za-z0-9._+-]", "_", last).lstrip(".")[:100] or "file"
