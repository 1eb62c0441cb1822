"""Routes of events: as a list, and as a stream of server-sent events."""

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
from qverify_farm.service.error_replies import error_responses
from qverify_farm.service.errors import too_busy
from qverify_farm.service.event_feed import FeedEvent, feed_event
from qverify_farm.service.known_callers import REMEMBER_S
from qverify_farm.service.routes.runs import find_run
from qverify_farm.service.schemas.lab import Events, EventShort
from qverify_farm.service.schemas.texts import ID, Limit
from qverify_farm.service.triage_engine import is_lane
from qverify_farm.store.events import events_after

router = APIRouter(tags=["events"], responses=error_responses())
After = Annotated[int, Query(ge=0, le=1 << 53, description="number of the last event that the client has")]
OfRun = Annotated[str | None, Query(pattern=ID, description="only of this run")]
STREAM = {"text/event-stream": {"schema": {"type": "string"}}}
EVENTS_PER_READ = 500


@router.get("/events", summary="Events, oldest first")
def list_events(scope: Scoped, after: After = 0, run: OfRun = None, limit: Limit = 100) -> Events:
    """The events of the project and of the boards."""
    if run is not None:
        find_run(scope, run)
    events_found = [event for event in _replay(scope, after, run, limit) if _may_see(event, scope, run)]
    return Events(events=[_event_reply(event, scope) for event in events_found])


@router.get(
    "/events/stream",
    response_class=StreamingResponse,
    responses={**error_responses(), 200: {"content": STREAM, "description": "Events; a comment when there are none"}},
    summary="A stream of events as they happen",
)
async def stream_events(
    scope: Scoped,
    after: Annotated[int | None, Query(ge=0, le=1 << 53)] = None,
    run: OfRun = None,
    last_event_id: Annotated[str | None, Header(pattern=r"^[0-9]{1,16}$")] = None,
) -> StreamingResponse:
    """Server-sent events: id is the number, event the kind, data the event as JSON. A client that reconnects sends Last-Event-ID and
    misses nothing. A client that is too slow is disconnected and reconnects. The stream ends with the token or session."""
    if run is not None:
        await asyncio.to_thread(find_run, scope, run)
    farm = scope.farm
    if farm.feed.listeners >= farm.settings.max_streams:
        raise too_busy("the service has too many event streams", 10)
    start = int(last_event_id) if last_event_id is not None else after
    headers = {"Cache-Control": "no-cache", "X-Accel-Buffering": "no"}
    return StreamingResponse(stream(scope, start, run), media_type="text/event-stream", headers=headers)


async def stream(scope: Scope, start: int | None, run: str | None) -> AsyncIterator[bytes]:
    """Yields the stream's bytes. start: the number of the last event that the client has, or None for new events only."""
    farm = scope.farm
    farm.metrics.streams.inc()
    try:
        with farm.feed.listening() as events:
            yield format_sse_event(comment="qverify", retry=2000)
            last_sent = farm.feed.last if start is None else min(start, await asyncio.to_thread(farm.feed.newest))
            while last_sent < farm.feed.last and not farm.feed.closed:
                events_found = await asyncio.to_thread(_replay, scope, last_sent, run, EVENTS_PER_READ)
                for event in events_found:
                    if last_sent < event.number <= farm.feed.last and _may_see(event, scope, run):
                        yield _encoded(event, scope)
                last_sent = events_found[-1].number if len(events_found) == EVENTS_PER_READ else farm.feed.last
            async for piece in _live(scope, events, last_sent, run):
                yield piece
    finally:
        farm.metrics.streams.dec()


async def _live(
    scope: Scope, events: AsyncIterator[FeedEvent], last_sent: int, run: str | None
) -> AsyncIterator[bytes]:
    next_event: asyncio.Task[FeedEvent] | None = None
    known_callers, last_check, changes = scope.farm.known_callers, time.monotonic(), scope.farm.known_callers.changes
    try:
        while True:
            next_event = next_event or asyncio.ensure_future(_next(events))
            done, _ = await asyncio.wait({next_event}, timeout=scope.farm.settings.heartbeat_s)
            if changes != known_callers.changes or time.monotonic() - last_check > REMEMBER_S:
                last_check, changes = time.monotonic(), known_callers.changes
                if not await asyncio.to_thread(known_callers.is_valid, scope.caller):
                    return
            if not done:
                yield format_sse_event(comment="")
                continue
            try:
                event = next_event.result()
            except FeedClosedError:
                return
            next_event = None
            if event.number > last_sent and _may_see(event, scope, run):
                yield _encoded(event, scope)
    finally:
        if next_event is not None:
            next_event.cancel()


async def _next(events: AsyncIterator[FeedEvent]) -> FeedEvent:
    try:
        return await anext(events)
    except StopAsyncIteration:
        raise FeedClosedError from None


class FeedClosedError(Exception):
    """The event feed was closed."""


def _replay(scope: Scope, after: int, run: str | None, limit: int) -> list[FeedEvent]:
    with scope.farm.database.read() as session:
        rows = events_after(session, after, run=run, project=scope.project, limit=limit)
        return [feed_event(row) for row in rows]


def _may_see(event: FeedEvent, scope: Scope, run: str | None) -> bool:
    if run is not None and event.run != run:
        return False
    if event.kind == "board" and is_lane(str(event.content.get("board", ""))):
        return False
    return event.project is None or event.project == scope.project


def _event_reply(event: FeedEvent, scope: Scope) -> EventShort:
    content = dict(event.content)
    if is_lane(str(content.get("board") or "")):
        content["board"] = None
    if event.kind == "board" and scope.caller.project is not None:  # hides jobs of other projects
        content.pop("job", None)
        content["reason"] = str(content.get("reason", "")).partition("; the last: ")[0]
    values = asdict(event) | {"content": content}
    del values["project"]
    return EventShort(**values)


def _encoded(event: FeedEvent, scope: Scope) -> bytes:
    data = json.dumps(_event_reply(event, scope).model_dump(), separators=(",", ":"))
    return format_sse_event(data_str=data, event=event.kind, id=str(event.number))
