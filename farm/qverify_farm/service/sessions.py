"""Sessions of browsers. The cookie contains a random id; the database contains its hash and the token used to log in."""

from __future__ import annotations

import re
import secrets

from sqlalchemy import delete, or_, select
from sqlalchemy.orm import Session

from qverify_farm.service.tokens import hash_of
from qverify_farm.store.tables import BrowserSessionRecord

MAX_IDLE_S = 12 * 3600.0  # a session ends when there was no request for so long
MAX_AGE_S = 7 * 86400.0
MAX_SESSIONS_PER_TOKEN = 50  # a new session beyond this ends the least recently used one
SESSION_ID = re.compile(r"qs_[A-Za-z0-9_-]{43}")


def begin_session(session: Session, token: str, now: float) -> str:
    """Adds a session for the token with this id and returns the session's secret id, which is stored nowhere else."""
    forget_sessions(session, now)
    sessions_of_token = (
        select(BrowserSessionRecord)
        .where(BrowserSessionRecord.token == token)
        .order_by(BrowserSessionRecord.used.desc())
    )
    for row in session.scalars(sessions_of_token.offset(MAX_SESSIONS_PER_TOKEN - 1)).all():
        session.delete(row)
    secret = "qs_" + secrets.token_urlsafe(32)
    session.add(BrowserSessionRecord(hash=hash_of(secret), token=token, created=now, used=now))
    session.flush()
    return secret


def session_of(session: Session, secret: str, now: float) -> BrowserSessionRecord | None:
    """Returns the session with this secret id, or None if it is unknown or has ended."""
    if not SESSION_ID.fullmatch(secret):
        return None
    row = session.get(BrowserSessionRecord, hash_of(secret))
    return row if row is not None and now < end_of(row) else None


def end_of(row: BrowserSessionRecord) -> float:
    """Returns when a session ends if it is not used again, in seconds since 1970."""
    return min(row.used + MAX_IDLE_S, row.created + MAX_AGE_S)


def end_session(session: Session, secret: str) -> None:
    """Ends the session with this secret id, if there is one."""
    session.execute(delete(BrowserSessionRecord).where(BrowserSessionRecord.hash == hash_of(secret)))


def forget_sessions(session: Session, now: float) -> None:
    """Removes the sessions that have ended. now: seconds since 1970."""
    ended = or_(BrowserSessionRecord.used <= now - MAX_IDLE_S, BrowserSessionRecord.created <= now - MAX_AGE_S)
    session.execute(delete(BrowserSessionRecord).where(ended))
