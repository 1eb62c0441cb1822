"""Boards: their state, who waits for them, taken out and put back."""

from __future__ import annotations

import time
from typing import Annotated

from fastapi import APIRouter, Path
from pydantic import AfterValidator
from sqlalchemy import select
from sqlalchemy.orm import Session

from qverify_farm.service.access import ADMIN_OF_ALL, Scope, Scoped
from qverify_farm.service.errors import not_found
from qverify_farm.service.farm import add_audit
from qverify_farm.service.replies import documented
from qverify_farm.service.schemas.lab import Boards, BoardShort, Drain, QueueState
from qverify_farm.service.schemas.runs import Changed
from qverify_farm.service.schemas.texts import plain
from qverify_farm.service.shown_rows import shown_board
from qverify_farm.service.triage_engine import is_lane
from qverify_farm.store.boards import all_boards, ensure_board
from qverify_farm.store.tables import Board, Job, SuiteRun

router = APIRouter(tags=["boards"], responses=documented())
BoardPath = Annotated[str, Path(min_length=1, max_length=200), AfterValidator(plain)]


@router.get("/boards", summary="The boards and their state")
def list_boards(scope: Scoped) -> Boards:
    """By name. Of another project's job nothing is told but that the board is busy."""
    with scope.farm.database.read() as session:
        rows = [row for row in all_boards(session) if not is_lane(row.name)]
        own = _own_jobs(session, scope, rows)
    return Boards(boards=[shown_board(row, own) for row in rows])


@router.get("/boards/{board:path}", summary="A board")
def get_board(scope: Scoped, board: BoardPath) -> BoardShort:
    """Its state, its tags, what it said of itself last."""
    with scope.farm.database.read() as session:
        row = _find(session, board)
        return shown_board(row, _own_jobs(session, scope, [row]))


@router.post("/boards/{board:path}/drain", dependencies=[ADMIN_OF_ALL], summary="Take a board out")
def post_drain(scope: Scoped, board: BoardPath, asked: Drain) -> Changed:
    """It ends the job it has, and gets no other."""
    return _drain(scope, board, True, asked.reason)


@router.post("/boards/{board:path}/undrain", dependencies=[ADMIN_OF_ALL], summary="Put a board back")
def post_undrain(scope: Scoped, board: BoardPath) -> Changed:
    """It gets jobs again, if it is reached."""
    return _drain(scope, board, False, "")


@router.post("/boards/{board:path}/check", dependencies=[ADMIN_OF_ALL], summary="Check a board's health soon")
def post_check(scope: Scoped, board: BoardPath) -> Changed:
    """A quarantined board that passes gets jobs again."""
    with scope.farm.database.write() as session:
        _find(session, board, scope)
        add_audit(session, scope.caller, scope.request, "board.check", None, board=board)
    scope.farm.dispatcher.check_board(board)
    return Changed(changed=True)


@router.get("/queue", summary="How much waits")
def get_queue(scope: Scoped) -> QueueState:
    """Of all projects, in numbers."""
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


def _find(session: Session, board: str, scope: Scope | None = None) -> Board:
    """Returns a board's row. scope: makes it for a board that a worker reaches since a moment."""
    row = session.get(Board, board)
    if row is None and scope is not None and board in scope.farm.engine.boards():
        row = ensure_board(session, board, time.time())
    if row is None or is_lane(board):
        raise not_found("board", board)
    return row


def _own_jobs(session: Session, scope: Scope, boards: list[Board]) -> set[str] | None:
    """Returns which of the boards' jobs are the caller's project's; None for who sees all projects."""
    if scope.caller.project is None:
        return None
    jobs = {job for row in boards for job in (row.job, row.last_job) if job}
    query = select(Job.id).join(SuiteRun, SuiteRun.id == Job.run)
    return set(session.scalars(query.where(Job.id.in_(jobs), SuiteRun.project == scope.project)))
