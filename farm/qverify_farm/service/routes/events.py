"""Events: as a list, and as a stream of server-sent events."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator
from dataclasses import asdict
from typing import Annotated

from fastapi import APIRouter, Header, Query
from fastapi.responses import StreamingResponse
from fastapi.sse import format_sse_event

from qverify_farm.service.access import Scope, Scoped
from qverify_farm.service.errors import too_busy
from qverify_farm.service.event_feed import Happened, happened
from qverify_farm.service.known_callers import KEPT_S
from qverify_farm.service.replies import documented
from qverify_farm.service.routes.runs import find_run
from qverify_farm.service.schemas.lab import Events, EventShort
from qverify_farm.service.schemas.texts import ID, Limit
from qverify_farm.service.triage_engine import is_lane
from qverify_farm.store.events import events_after

router = APIRouter(tags=["events"], responses=documented())
After = Annotated[int, Query(ge=0, le=1 << 53, description="number of the last event that is known")]
OfRun = Annotated[str | None, Query(pattern=ID, description="only of this run")]
STREAM = {"text/event-stream": {"schema": {"type": "string"}}}
REPLAYED = 500  # events read at a time


@router.get("/events", summary="What happened, the oldest first")
def list_events(scope: Scoped, after: After = 0, run: OfRun = None, limit: Limit = 100) -> Events:
    """Events of the project and of boards."""
    if run is not None:
        find_run(scope, run)
    found = [one for one in _replay(scope, after, run, limit) if _may_see(one, scope, run)]
    return Events(events=[_shown(one, scope) for one in found])


@router.get(
    "/events/stream",
    response_class=StreamingResponse,
    responses={**documented(), 200: {"content": STREAM, "description": "Events; a comment when there are none"}},
    summary="What happens, as it happens",
)
async def stream_events(
    scope: Scoped,
    after: Annotated[int | None, Query(ge=0, le=1 << 53)] = None,
    run: OfRun = None,
    last_event_id: Annotated[str | None, Header(pattern=r"^[0-9]{1,16}$")] = None,
) -> StreamingResponse:
    """Server-sent events: id is the number, event the kind, data the event as JSON. A client that reconnects says
    Last-Event-ID and misses nothing. A client that does not keep up is disconnected, and reconnects. The stream ends with the token or session."""
    if run is not None:
        await asyncio.to_thread(find_run, scope, run)
    farm = scope.farm
    if farm.feed.listeners >= farm.settings.max_streams:
        raise too_busy("the service has too many event streams", 10)
    begin = int(last_event_id) if last_event_id is not None else after
    headers = {"Cache-Control": "no-cache", "X-Accel-Buffering": "no"}
    return StreamingResponse(stream(scope, begin, run), media_type="text/event-stream", headers=headers)


async def stream(scope: Scope, begin: int | None, run: str | None) -> AsyncIterator[bytes]:
    """Yields the stream's bytes. begin: number of the last event that the client knows, None from now on."""
    farm = scope.farm
    farm.metrics.streams.inc()
    try:
        with farm.feed.listening() as events:
            yield format_sse_event(comment="qverify", retry=2000)
            known = farm.feed.last if begin is None else min(begin, await asyncio.to_thread(farm.feed.newest))
            while known < farm.feed.last and not farm.feed.closed:
                found = await asyncio.to_thread(_replay, scope, known, run, REPLAYED)
                for one in found:
                    if known < one.number <= farm.feed.last and _may_see(one, scope, run):
                        yield _encoded(one, scope)
                known = found[-1].number if len(found) == REPLAYED else farm.feed.last
            async for piece in _live(scope, events, known, run):
                yield piece
    finally:
        farm.metrics.streams.dec()


async def _live(scope: Scope, events: AsyncIterator[Happened], known: int, run: str | None) -> AsyncIterator[bytes]:
    coming: asyncio.Task[Happened] | None = None
    known_callers, checked, changes = scope.farm.known, time.monotonic(), scope.farm.known.changes
    try:
        while True:
            coming = coming or asyncio.ensure_future(_next(events))
            done, _ = await asyncio.wait({coming}, timeout=scope.farm.settings.heartbeat_s)
            if changes != known_callers.changes or time.monotonic() - checked > KEPT_S:
                checked, changes = time.monotonic(), known_callers.changes
                if not await asyncio.to_thread(known_callers.holds, scope.caller):
                    return
            if not done:
                yield format_sse_event(comment="")
                continue
            try:
                one = coming.result()
            except FeedClosedError:
                return
            coming = None
            if one.number > known and _may_see(one, scope, run):
                yield _encoded(one, scope)
    finally:
        if coming is not None:
            coming.cancel()


async def _next(events: AsyncIterator[Happened]) -> Happened:
    try:
        return await anext(events)
    except StopAsyncIteration:
        raise FeedClosedError from None


class FeedClosedError(Exception):
    """The feed was closed."""


def _replay(scope: Scope, after: int, run: str | None, most: int) -> list[Happened]:
    with scope.farm.database.read() as session:
        rows = events_after(session, after, run=run, project=scope.project, most=most)
        return [happened(row) for row in rows]


def _may_see(one: Happened, scope: Scope, run: str | None) -> bool:
    if run is not None and one.run != run:
        return False
    if one.kind == "board" and is_lane(str(one.content.get("board", ""))):
        return False
    return one.project is None or one.project == scope.project


def _shown(one: Happened, scope: Scope) -> EventShort:
    content = dict(one.content)
    if is_lane(str(content.get("board") or "")):
        content["board"] = None
    if one.kind == "board" and scope.caller.project is not None:  # of another project's job nothing is told
        content.pop("job", None)
        content["reason"] = str(content.get("reason", "")).partition("; the last: ")[0]
    values = asdict(one) | {"content": content}
    del values["project"]
    return EventShort(**values)


def _encoded(one: Happened, scope: Scope) -> bytes:
    data = json.dumps(_shown(one, scope).model_dump(), separators=(",", ":"))
    return format_sse_event(data_str=data, event=one.kind, id=str(one.number))
