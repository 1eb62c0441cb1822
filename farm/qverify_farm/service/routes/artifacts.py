"""Routes of artifacts: upload, and download by digest. An upload is never served as a page."""

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
from qverify_farm.service.error_replies import error_responses
from qverify_farm.service.errors import ApiError, not_found
from qverify_farm.service.farm import add_audit
from qverify_farm.service.schemas.lab import Artifacts, ArtifactShort
from qverify_farm.service.schemas.texts import FileNameQuery, Limit, Offset, Sha256Path, TitleQuery
from qverify_farm.store.artifact_rows import keep_artifact
from qverify_farm.store.artifacts import ArtifactWriter, Stored
from qverify_farm.store.tables import ArtifactRecord, ProjectArtifactRecord, ProjectRecord

router = APIRouter(prefix="/artifacts", tags=["artifacts"], responses=error_responses())
PIECE_BYTES = 1 << 20
RANGE = re.compile(r"bytes=(\d{0,18})-(\d{0,18})")
BINARY_CONTENT = {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}}
BINARY_BODY = {"requestBody": {"required": True, "content": BINARY_CONTENT}}
MAX_CONCURRENT_UPLOADS = 8  # number of uploads that are hashed and written at a time


@router.put(
    "/{sha256}",
    status_code=201,
    dependencies=[SUBMITTER],
    responses=error_responses(409, 507),
    openapi_extra=BINARY_BODY,
    summary="Upload bytes under their digest",
)
async def put_artifact(request: Request, scope: Scoped, sha256: Sha256Path, name: FileNameQuery = "") -> ArtifactShort:
    """Stores the body, in constant memory. Replies with 409 if its SHA-256 is another one. A HEAD request first tells whether the
    project has the bytes already."""
    return await _receive(request, scope, sha256, name)


@router.post(
    "",
    status_code=201,
    dependencies=[SUBMITTER],
    responses=error_responses(409, 507),
    openapi_extra=BINARY_BODY,
    summary="Upload bytes and get their digest",
)
async def post_artifact(request: Request, scope: Scoped, name: FileNameQuery = "") -> ArtifactShort:
    """Stores the body, in constant memory, and returns its digest."""
    return await _receive(request, scope, "", name)


async def _receive(request: Request, scope: Scope, sha256: str, name: str) -> ArtifactShort:
    limit = await anyio.to_thread.run_sync(_allowed_bytes, scope, _length(request))
    writer_context, threads = scope.farm.artifacts.writer(None, sha256), _threads(request)
    writer = await anyio.to_thread.run_sync(writer_context.__enter__, limiter=threads)
    try:
        await _write_all(request, writer, limit, threads)
    except BaseException as error:
        with anyio.CancelScope(shield=True):
            await anyio.to_thread.run_sync(writer_context.__exit__, type(error), error, error.__traceback__)
        raise
    with anyio.CancelScope(shield=True):
        await anyio.to_thread.run_sync(writer_context.__exit__, None, None, None, limiter=threads)
        await anyio.to_thread.run_sync(_add_to_project, scope, writer.stored, name)
    scope.farm.metrics.count_upload(writer.size)
    return ArtifactShort(sha256=writer.stored.sha256, size=writer.size, name=name, kind="file")


def _length(request: Request) -> int:
    text = request.headers.get("content-length", "")
    return int(text) if text.isdigit() else 0


def _threads(request: Request) -> anyio.CapacityLimiter:
    """Returns the limiter of threads that hash and write uploads, so that threads stay free for other requests."""
    state = request.app.state
    if not hasattr(state, "upload_threads"):
        state.upload_threads = anyio.CapacityLimiter(MAX_CONCURRENT_UPLOADS)
    threads: anyio.CapacityLimiter = state.upload_threads
    return threads


async def _write_all(request: Request, writer: ArtifactWriter, limit: int, threads: anyio.CapacityLimiter) -> None:
    buffer = bytearray()
    size = 0
    async for piece in request.stream():
        size += len(piece)
        if size > limit:
            raise ApiError(
                413, "the project's quota of bytes is full", got=f"{size} bytes and more", wanted=f"{limit} left"
            )
        buffer += piece
        if len(buffer) >= PIECE_BYTES:
            await anyio.to_thread.run_sync(writer.write, memoryview(buffer), limiter=threads)
            buffer = bytearray()
    if buffer:
        await anyio.to_thread.run_sync(writer.write, memoryview(buffer), limiter=threads)


def _allowed_bytes(scope: Scope, size: int) -> int:
    """Returns the largest upload that the project's quota and the service permit. Raises ApiError 413 if `size` is larger."""
    with scope.farm.database.read() as session:
        left = session.get_one(ProjectRecord, scope.project).quota_bytes - used_bytes(session, scope.project)
    allowed = min(left, scope.farm.settings.max_upload_bytes)
    if size > allowed or left <= 0:
        raise ApiError(413, "the project's quota of bytes is full", got=f"{size} bytes", wanted=f"{max(0, left)} left")
    return allowed


def _add_to_project(scope: Scope, stored: Stored, name: str) -> None:
    with scope.farm.database.write() as session:
        project = session.get_one(ProjectRecord, scope.project, with_for_update=True)
        existing = session.get(ProjectArtifactRecord, {"project": scope.project, "sha256": stored.sha256})
        if existing is None and used_bytes(session, scope.project) + stored.size > project.quota_bytes:
            raise ApiError(413, "the project's quota of bytes is full", got=f"{stored.size} bytes")
        keep_artifact(session, scope.project, stored.sha256, stored.size, time.time(), name=name)
        if not scope.farm.artifacts.exists(stored.sha256):  # the retention has just removed them
            raise ApiError(409, "the bytes were removed at the same time", next="put them again")
        if existing is None:
            content = {"sha256": stored.sha256, "size": stored.size, "name": name}
            add_audit(session, scope.caller, scope.request, "artifact.put", scope.project, **content)


def used_bytes(session: Session, project: str) -> int:
    """Returns the total size of a project's artifacts in bytes."""
    query = (
        select(func.coalesce(func.sum(ArtifactRecord.size), 0))
        .join(ProjectArtifactRecord, ProjectArtifactRecord.sha256 == ArtifactRecord.sha256)
        .where(ProjectArtifactRecord.project == project)
    )
    return int(session.scalar(query) or 0)


@router.get("", summary="The project's artifacts, most recently used first")
def list_artifacts(scope: Scoped, limit: Limit = 100, offset: Offset = 0) -> Artifacts:
    """Returns their names, kinds and sizes."""
    with scope.farm.database.read() as session:
        rows = session.execute(
            select(ProjectArtifactRecord, ArtifactRecord.size)
            .join(ArtifactRecord, ArtifactRecord.sha256 == ProjectArtifactRecord.sha256)
            .where(ProjectArtifactRecord.project == scope.project)
            .order_by(ProjectArtifactRecord.used.desc(), ProjectArtifactRecord.sha256)
            .limit(limit)
            .offset(offset)
        ).all()
    artifacts = [ArtifactShort(sha256=row.sha256, size=size, name=row.name, kind=row.kind) for row, size in rows]
    return Artifacts(artifacts=artifacts)


@router.head(
    "/{sha256}",
    response_class=Response,
    responses={**error_responses(416), 200: {"content": BINARY_CONTENT, "description": "The project has it"}},
    summary="Whether the project has it",
)
@router.get(
    "/{sha256}",
    response_class=StreamingResponse,
    responses={
        **error_responses(409, 416),
        200: {"content": BINARY_CONTENT, "description": "The bytes, as an attachment"},
        206: {"content": BINARY_CONTENT, "description": "A range of the bytes"},
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
    """Returns the bytes, or one range of them (Range: bytes=A-B). name: the name of the file for saving."""
    try:
        row, size = find_artifact(scope, sha256)
    except ArtifactError:
        if request.method == "HEAD":  # the bytes are lost, or were damaged: the client may upload them again
            raise not_found("artifact", sha256) from None
        raise
    headers = {
        "ETag": f'"{sha256}"',
        "Accept-Ranges": "bytes",
        "Content-Disposition": f'attachment; filename="{safe_name(name or row.name or sha256)}"',
        "Cache-Control": "private, max-age=31536000, immutable",
        "Content-Security-Policy": "default-src 'none'; sandbox",
    }
    first_byte, last_byte, status = _range(range, size)
    headers["Content-Length"] = str(last_byte - first_byte + 1)
    if status == 206:
        headers["Content-Range"] = f"bytes {first_byte}-{last_byte}/{size}"
    if request.method == "HEAD":
        return Response(status_code=status, headers=headers, media_type="application/octet-stream")
    file = scope.farm.artifacts.open(sha256)
    return StreamingResponse(
        _pieces(file, first_byte, last_byte - first_byte + 1),
        status,
        headers=headers,
        media_type="application/octet-stream",
    )


def find_artifact(scope: Scope, sha256: str) -> tuple[ProjectArtifactRecord, int]:
    """Returns the row of an artifact and its size in bytes. Raises ApiError 404 if the project does not have it."""
    with scope.farm.database.read() as session:
        row = session.get(ProjectArtifactRecord, {"project": scope.project, "sha256": sha256})
        size = session.scalar(select(ArtifactRecord.size).where(ArtifactRecord.sha256 == sha256))
    if row is None or size is None:
        raise not_found("artifact", sha256)
    if scope.farm.artifacts.size_of(sha256) != size:
        raise ArtifactError(f"{sha256}: its bytes are no longer stored")
    return row, size


def _range(text: str | None, size: int) -> tuple[int, int, int]:
    """Returns the positions of the first and the last byte, and the status 200 or 206. Raises ApiError 416 for an empty range."""
    match = RANGE.fullmatch(text.replace(" ", "")) if text else None
    if match is None or match.groups() == ("", ""):  # several ranges or other units: the whole artifact
        return 0, size - 1, 200
    begin, end = match.groups()
    first_byte = int(begin) if begin else max(0, size - int(end))
    last_byte = min(int(end), size - 1) if begin and end else size - 1
    if first_byte > last_byte or (not begin and int(end) == 0):
        raise ApiError(416, "no such range of bytes", got=text or "", headers={"Content-Range": f"bytes */{size}"})
    return first_byte, last_byte, 206


def _pieces(file: BinaryIO, first_byte: int, size: int) -> Iterator[bytes]:
    with file:
        file.seek(first_byte)
        while size > 0 and (piece := file.read(min(size, PIECE_BYTES))):
            size -= len(piece)
            yield piece


def safe_name(name: str) -> str:
    """Returns a name for saving a file: the last part, with only characters that are safe in headers and file systems."""
    last_part = re.split(r"[/\\]", name)[-1]
    return re.sub(r"[^A-Za-z0-9._+-]", "_", last_part).lstrip(".")[:100] or "file"
