"""Routes of boards: their state, the queue, taking them out of service and putting them back."""

from __future__ import annotations

import time
from typing import Annotated

from fastapi import APIRouter, Path
from pydantic import AfterValidator
from sqlalchemy.orm import Session

from qverify_farm.service.access import ADMIN_OF_ALL, Scope, Scoped
from qverify_farm.service.error_replies import error_responses
from qverify_farm.service.errors import not_found
from qverify_farm.service.farm import add_audit
from qverify_farm.service.row_replies import board_reply, drain_reasons_of, visible_job_ids
from qverify_farm.service.schemas.lab import Boards, BoardShort, Drain, QueueState
from qverify_farm.service.schemas.runs import Changed
from qverify_farm.service.schemas.texts import plain
from qverify_farm.service.triage_engine import is_lane
from qverify_farm.store.boards import all_boards, ensure_board
from qverify_farm.store.tables import BoardRecord

router = APIRouter(tags=["boards"], responses=error_responses())
BoardPath = Annotated[str, Path(min_length=1, max_length=200), AfterValidator(plain)]


@router.get("/boards", summary="The boards and their state")
def list_boards(scope: Scoped) -> Boards:
    """Sorted by name. If a board runs a job of another project, the reply contains only that it is busy."""
    with scope.farm.database.read() as session:
        rows = [row for row in all_boards(session) if not is_lane(row.name)]
        jobs = visible_job_ids(session, scope.caller.project, rows)
        drain_reasons = drain_reasons_of(session, rows)
    return Boards(boards=[board_reply(row, jobs, drain_reasons) for row in rows])


@router.get("/boards/{board:path}", summary="A board")
def get_board(scope: Scoped, board: BoardPath) -> BoardShort:
    """Its state, its tags, and the facts that it last reported about itself."""
    with scope.farm.database.read() as session:
        row = _find(session, board)
        jobs = visible_job_ids(session, scope.caller.project, [row])
        return board_reply(row, jobs, drain_reasons_of(session, [row]))


@router.post("/boards/{board:path}/drain", dependencies=[ADMIN_OF_ALL], summary="Take a board out of service")
def post_drain(scope: Scoped, board: BoardPath, body: Drain) -> Changed:
    """The board finishes its present job and gets no other."""
    return _drain(scope, board, True, body.reason)


@router.post("/boards/{board:path}/undrain", dependencies=[ADMIN_OF_ALL], summary="Put a board back into service")
def post_undrain(scope: Scoped, board: BoardPath) -> Changed:
    """The board gets jobs again, if a worker reaches it."""
    return _drain(scope, board, False, "")


@router.post("/boards/{board:path}/check", dependencies=[ADMIN_OF_ALL], summary="Check a board's health soon")
def post_check(scope: Scoped, board: BoardPath) -> Changed:
    """A quarantined board that passes the check gets jobs again."""
    with scope.farm.database.write() as session:
        _find(session, board, scope)
        add_audit(session, scope.caller, scope.request, "board.check", None, board=board)
    scope.farm.dispatcher.check_board(board)
    return Changed(changed=True)


@router.get("/queue", summary="The number of waiting jobs")
def get_queue(scope: Scoped) -> QueueState:
    """The numbers are those of all projects."""
    health = scope.farm.health()
    return QueueState(
        waiting=health.waiting, running=health.running, unserved=health.unserved, boards=dict(health.boards)
    )


def _drain(scope: Scope, board: str, drained: bool, reason: str) -> Changed:
    with scope.farm.database.write() as session:
        row = _find(session, board, scope)
        changed = row.drained != drained
        row.drained = drained
        if changed:
            action = "board.drain" if drained else "board.undrain"
            add_audit(session, scope.caller, scope.request, action, None, board=board, reason=reason)
    scope.farm.wake()
    return Changed(changed=changed)


def _find(session: Session, board: str, scope: Scope | None = None) -> BoardRecord:
    """Returns a board's row. With a scope, a missing row is added if a worker reaches the board. Raises ApiError 404 if there is
    no such board."""
    row = session.get(BoardRecord, board)
    if row is None and scope is not None and board in scope.farm.engine.boards():
        row = ensure_board(session, board, time.time())
    if row is None or is_lane(board):
        raise not_found("board", board)
    return row
