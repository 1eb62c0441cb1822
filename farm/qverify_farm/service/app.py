"""The ASGI application with all routes and limits."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
import time
from collections.abc import AsyncIterator
from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from qverify import __version__

from qverify_farm.service.clock_watch import ClockWatch, newest_row_time
from qverify_farm.service.error_replies import handle_errors
from qverify_farm.service.farm import Farm
from qverify_farm.service.guard import Guard
from qverify_farm.service.json_log import log
from qverify_farm.service.retention import Retention
from qverify_farm.service.routes import (
    administration,
    artifacts,
    boards,
    events,
    history,
    jobs,
    operations,
    runs,
    webhooks,
)
from qverify_farm.service.webhook_sender import WebhookSender

ROUTERS = (artifacts, runs, jobs, history, boards, events, webhooks, administration)
API = "/api/v1"
CLOCK_LOOK_S = 5.0  # between looks at the clock
ERROR = {"$ref": "#/components/schemas/ErrorReply"}
DESCRIPTION = (
    "Accepts models, inputs and suites; returns verdicts, reports and captures. The body of every error reply is an "
    "`ErrorReply`. Tokens: `Authorization: Bearer TOKEN`."
)


def create_app(farm: Farm) -> FastAPI:
    """Returns the application of a farm. Its lifespan starts the dispatcher, the event feed, the webhooks and the retention, and
    ends them, except for the dispatcher, which ends when the caller closes the farm."""
    app = FastAPI(
        title="qverify",
        version=__version__,
        description=DESCRIPTION,
        lifespan=_lifespan,
        docs_url=None,
        redoc_url=None,
        openapi_url=f"{API}/openapi.json",
    )
    app.state.farm = farm
    app.state.retention = Retention(
        farm.database,
        farm.artifacts,
        farm.settings,
        threading.Lock(),
        ClockWatch(time.time, time.monotonic, newest_row_time(farm.database)),
    )
    for routes in ROUTERS:
        app.include_router(routes.router, prefix=API)
    app.include_router(operations.router)
    handle_errors(app)
    app.add_middleware(Guard, settings=farm.settings, count=farm.metrics.count_request)
    app.openapi = lambda: _openapi(app)  # type: ignore[method-assign]
    return app


def _openapi(app: FastAPI) -> dict[str, Any]:
    """Returns the OpenAPI document with this service's errors instead of FastAPI's."""
    if app.openapi_schema is None:
        document = get_openapi(title=app.title, version=app.version, description=app.description, routes=app.routes)
        for name in ("HTTPValidationError", "ValidationError"):
            document["components"]["schemas"].pop(name, None)
        for path in document["paths"].values():
            for operation in path.values():
                _declare_json_errors(operation["responses"])
        app.openapi_schema = document
    return app.openapi_schema


def _declare_json_errors(responses: dict[str, Any]) -> None:
    """Declares that errors are JSON, also for routes with other media types."""
    for response in responses.values():
        for schema in [media.get("schema") for media in response.get("content", {}).values()]:
            if schema == ERROR:
                response["content"] = {"application/json": {"schema": schema}}


@contextlib.asynccontextmanager
async def _lifespan(app: FastAPI) -> AsyncIterator[None]:
    farm: Farm = app.state.farm
    webhook_sender = WebhookSender(farm.database, farm.settings.private_webhooks, farm.metrics.count_webhook)
    farm.listeners.append(webhook_sender.take_events)
    await farm.feed.start()
    farm.dispatcher.start()
    webhook_sender.start()
    tasks = [asyncio.create_task(work) for work in (farm.feed.run(), _sweep_regularly(app), _watch_clock(app))]
    try:
        yield
    finally:
        farm.feed.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await asyncio.to_thread(webhook_sender.close)
        farm.listeners.remove(webhook_sender.take_events)


async def _watch_clock(app: FastAPI) -> None:
    last_doubt = ""
    while True:
        doubt = app.state.retention.clock.look().partition(";")[0]
        if doubt and doubt != last_doubt:
            log("clock doubted", logging.WARNING, why=doubt)
        last_doubt = doubt
        await asyncio.sleep(CLOCK_LOOK_S)


async def _sweep_regularly(app: FastAPI) -> None:
    farm: Farm = app.state.farm
    while True:
        await asyncio.sleep(farm.settings.sweep_s)
        try:
            await asyncio.to_thread(app.state.retention.sweep)
        except Exception as error:  # the next sweep tries again
            log("retention failed", why=f"{type(error).__name__}: {error}"[:300])
