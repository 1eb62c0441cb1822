"""Database rows of boards and their states."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from sqlalchemy import select
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from qverify_farm.store.events import add_event
from qverify_farm.store.states import OFFLINE
from qverify_farm.store.tables import BoardRecord


def all_boards(session: Session) -> list[BoardRecord]:
    """Returns all boards, sorted by name."""
    return list(session.scalars(select(BoardRecord).order_by(BoardRecord.name)))


def ensure_board(session: Session, name: str, now: float) -> BoardRecord:
    """Returns the row of a board. A missing row is added, with the state offline."""
    board = session.get(BoardRecord, name)
    if board is None:
        board = BoardRecord(name=name, state=OFFLINE, since=now, reason="")
        try:
            with session.begin_nested():
                session.add(board)
        except IntegrityError:  # another connection has just added it
            board = session.get_one(BoardRecord, name, populate_existing=True)
    return board


def change_board(session: Session, name: str, now: float, values: Mapping[str, Any]) -> BoardRecord:
    """Changes a board's row. If its state changes, an event is added."""
    board = ensure_board(session, name, now)
    old_state = board.state
    for key, value in values.items():
        setattr(board, key, value)
    if board.state != old_state:
        board.since = now
        add_event(session, "board", {"board": name, "state": board.state, "reason": board.reason, "job": board.job})
    return board


def known_tags(boards: Iterable[BoardRecord]) -> list[str]:
    """Returns the sorted tags of these boards as key=value, each once."""
    return sorted({f"{key}={value}" for board in boards for key, value in (board.tags or {}).items()})
