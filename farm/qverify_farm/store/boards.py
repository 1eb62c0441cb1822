"""Rows of boards: what is known of each, and its state."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from sqlalchemy import select
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from qverify_farm.store.events import add_event
from qverify_farm.store.states import OFFLINE
from qverify_farm.store.tables import Board


def all_boards(session: Session) -> list[Board]:
    """Returns the boards by name."""
    return list(session.scalars(select(Board).order_by(Board.name)))


def ensure_board(session: Session, name: str, now: float) -> Board:
    """Returns the row of a board, made (offline) where it is missing."""
    found = session.get(Board, name)
    if found is None:
        found = Board(name=name, state=OFFLINE, since=now, reason="")
        try:
            with session.begin_nested():
                session.add(found)
        except IntegrityError:  # another connection made it meanwhile
            found = session.get_one(Board, name, populate_existing=True)
    return found


def change_board(session: Session, name: str, now: float, values: Mapping[str, Any]) -> Board:
    """Changes a board's row, and tells so by an event where its state is another one."""
    board = ensure_board(session, name, now)
    before = board.state
    for key, value in values.items():
        setattr(board, key, value)
    if board.state != before:
        board.since = now
        add_event(session, "board", {"board": name, "state": board.state, "reason": board.reason, "job": board.job})
    return board


def known_tags(boards: Iterable[Board]) -> list[str]:
    """Returns the tags of these boards, as key=value."""
    return sorted({f"{key}={value}" for board in boards for key, value in (board.tags or {}).items()})
