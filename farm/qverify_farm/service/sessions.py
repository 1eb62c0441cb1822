"""Sessions of browsers: the cookie holds a random id, the database its hash and the token that began it."""

from __future__ import annotations

import re
import secrets

from sqlalchemy import delete, or_, select
from sqlalchemy.orm import Session

from qverify_farm.service.tokens import hash_of
from qverify_farm.store.tables import BrowserSession

IDLE_S = 12 * 3600.0  # without a request
LONGEST_S = 7 * 86400.0
MOST = 50  # of one token; the one that was not used for longest ends
SESSION_ID = re.compile(r"qs_[A-Za-z0-9_-]{43}")


def begin_session(session: Session, token: str, now: float) -> str:
    """Adds a session of the token of this id and returns the session's id, which is kept nowhere else."""
    forget_sessions(session, now)
    own = select(BrowserSession).where(BrowserSession.token == token).order_by(BrowserSession.used.desc())
    for row in session.scalars(own.offset(MOST - 1)).all():
        session.delete(row)
    secret = "qs_" + secrets.token_urlsafe(32)
    session.add(BrowserSession(hash=hash_of(secret), token=token, created=now, used=now))
    session.flush()
    return secret


def session_of(session: Session, secret: str, now: float) -> BrowserSession | None:
    """Returns the session of this id; None for one that is unknown or has ended."""
    if not SESSION_ID.fullmatch(secret):
        return None
    row = session.get(BrowserSession, hash_of(secret))
    return row if row is not None and now < end_of(row) else None


def end_of(row: BrowserSession) -> float:
    """Returns when a session ends if it is not used any more, in seconds since 1970."""
    return min(row.used + IDLE_S, row.created + LONGEST_S)


def end_session(session: Session, secret: str) -> None:
    """Ends the session of this id, if there is one."""
    session.execute(delete(BrowserSession).where(BrowserSession.hash == hash_of(secret)))


def forget_sessions(session: Session, now: float) -> None:
    """Removes the sessions that have ended. now: seconds since 1970."""
    ended = or_(BrowserSession.used <= now - IDLE_S, BrowserSession.created <= now - LONGEST_S)
    session.execute(delete(BrowserSession).where(ended))
