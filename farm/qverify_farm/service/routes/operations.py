"""Routes for operators: whether the service is alive, whether it works, and its metrics."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response
from qverify import __version__
from sqlalchemy import text
from sqlalchemy.exc import SQLAlchemyError

from qverify_farm.service.access import CurrentCaller, farm_of
from qverify_farm.service.error_replies import error_responses
from qverify_farm.service.farm import Farm, why_unwell
from qverify_farm.service.schemas.lab import Alive, Check, Ready

router = APIRouter(tags=["operations"])
MAX_TURN_S = 60.0  # a dispatcher without a turn for so long hangs


@router.get("/health", summary="Whether the service lives")
def get_health() -> Alive:
    """Does not check what the service needs to work."""
    return Alive(qverify=__version__)


@router.get(
    "/ready",
    responses={503: {"model": Ready, "description": "Something it needs is missing"}},
    summary="Whether the service works",
)
def get_ready(request: Request, response: Response) -> Ready:
    """Checks the database, the room for artifacts, the dispatcher and the engine."""
    checks = _checks(farm_of(request))
    ready = all(check.ok for check in checks.values())
    response.status_code = 200 if ready else 503
    return Ready(ready=ready, checks=checks)


def _checks(farm: Farm) -> dict[str, Check]:
    health = farm.dispatcher.health()
    stuck = health.looked_s > MAX_TURN_S
    why = why_unwell(health) or ("it has not looked for its jobs for a minute" if stuck else "")
    store = farm.artifacts.why_unavailable()
    return {
        "database": _database(farm),
        "artifacts": Check(ok=not store, why=f"{store}; jobs wait" if store else ""),
        "dispatcher": Check(ok=not why and not farm.stopping, why="stopping" if farm.stopping else why and "not well"),
        "engine": _engine(farm),
    }


def _database(farm: Farm) -> Check:
    try:
        with farm.database.read() as session:
            session.execute(text("SELECT 1"))
        return Check(ok=True)
    except SQLAlchemyError:
        return Check(ok=False, why="the database is not reached")


def _engine(farm: Farm) -> Check:
    """Checks the engine. It is not an error if it reaches no board, since boards may come later."""
    farm.engine.boards()
    return Check(ok=True)


@router.get(
    "/metrics",
    response_class=Response,
    responses={
        **error_responses(),
        200: {"content": {"text/plain": {"schema": {"type": "string"}}}, "description": "Text"},
    },
    summary="Numbers for Prometheus",
)
def get_metrics(request: Request, caller: CurrentCaller) -> Response:
    """Needs a token of any role."""
    body = farm_of(request).metrics.text()
    return Response(body, media_type="text/plain; version=0.0.4; charset=utf-8")
