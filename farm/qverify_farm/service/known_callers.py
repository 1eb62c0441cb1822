"""Who has which token or session, and which projects there are, remembered: a request that only reads asks the database once. Only this
process writes the database, so that what is remembered is forgotten when it changes; and after a moment in any case."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from dataclasses import dataclass

from sqlalchemy import select
from sqlalchemy.orm import Session

from qverify_farm.service.sessions import SESSION_ID, end_of, session_of
from qverify_farm.service.tokens import SECRET, Caller, has_tokens, hash_of, holder_of, token_of
from qverify_farm.store.database import Database
from qverify_farm.store.runs import DEFAULT_PROJECT, ensure_project
from qverify_farm.store.tables import BrowserSession, Project, Token

KEPT_S = 10.0
MOST = 10_000
USED_S = 60.0  # the last use of a token or session is not written more often


@dataclass(frozen=True, slots=True)
class _Known:
    """expires: seconds since 1970, None for never. until: monotonic seconds."""

    caller: Caller
    expires: float | None
    until: float


class KnownCallers:
    """Any thread may call it. secret: a token, or the id of a browser's session. recall() and the names of recalled projects need no database; the others do."""

    def __init__(self, database: Database):
        self._database = database
        self._callers: OrderedDict[str, _Known] = OrderedDict()
        self._projects: dict[tuple[str, str], tuple[str, str]] = {}  # id and name, by each: neither ever changes
        self._any_tokens = False
        self._changes = 0  # times that something was forgotten
        self._lock = threading.Lock()

    def recall(self, secret: str) -> Caller | None:
        """Returns who has this secret, if that is remembered and holds."""
        with self._lock:
            known = self._callers.get(hash_of(secret))
        if known is None or known.until < time.monotonic():
            return None
        return known.caller if known.expires is None or known.expires > time.time() else None

    def find(self, secret: str) -> Caller | None:
        """Returns who has this secret; None for one that is unknown, expired or revoked. Notes when it was used."""
        now, changes = time.time(), self._changes
        with self._database.read() as session:
            found = _look_up(session, secret, now)
        if found is None:
            return None
        caller, expires, used = found
        if used is None or now - used > USED_S:
            with self._database.write() as session:
                _note_use(session, caller, now)
        with self._lock:
            if changes == self._changes:  # else what was read may have ended since
                self._callers[hash_of(secret)] = _Known(caller, expires, time.monotonic() + KEPT_S)
            while len(self._callers) > MOST:
                self._callers.popitem(last=False)
        return caller

    def holds(self, caller: Caller) -> bool:
        """Returns whether the caller's token, and session if it has one, have not ended."""
        if caller.local:
            return not self.any_tokens()
        now = time.time()
        with self._database.read() as session:
            row = session.get(BrowserSession, caller.session) if caller.session else None
            is_over = bool(caller.session) and (row is None or end_of(row) <= now)
            return not is_over and holder_of(session.get(Token, caller.token), now) is not None

    @property
    def changes(self) -> int:
        """How often something was forgotten: if the number has grown, a token or session may have ended."""
        return self._changes

    def forget(self) -> None:
        """Forgets all callers: a token was revoked, or a session was ended."""
        with self._lock:
            self._changes += 1
            self._callers.clear()

    def any_tokens(self) -> bool:
        """Returns whether any token was ever made."""
        if not self._any_tokens:
            with self._database.read() as session:
                self._any_tokens = has_tokens(session)
        return self._any_tokens

    def recall_project(self, name: str, project: str | None) -> tuple[str, str] | None:
        """Returns id and name of a project, by its id or else its name, if that is remembered."""
        return self._projects.get(("id", project) if project is not None else ("name", name))

    def find_project(self, name: str, project: str | None) -> tuple[str, str] | None:
        """Returns id and name of a project, by its id or else its name; the default one is made where it is missing."""
        with self._database.read() as session:
            of = Project.id == project if project is not None else Project.name == name
            row = session.scalar(select(Project).where(of))
        if row is None and project is None and name == DEFAULT_PROJECT:
            with self._database.write() as session:
                row = ensure_project(session)
        if row is None:
            return None
        if len(self._projects) > MOST:
            self._projects.clear()
        self._projects["id", row.id] = self._projects["name", row.name] = (row.id, row.name)
        return row.id, row.name


def _look_up(session: Session, secret: str, now: float) -> tuple[Caller, float | None, float | None] | None:
    """Returns who has this secret, when that ends and when it was last used, in seconds since 1970."""
    if SECRET.fullmatch(secret):
        token = token_of(session, secret)
        caller = holder_of(token, now)
        return (caller, token.expires, token.last_used) if token is not None and caller is not None else None
    row = session_of(session, secret, now) if SESSION_ID.fullmatch(secret) else None
    token = session.get(Token, row.token) if row is not None else None
    caller = holder_of(token, now, row.hash) if row is not None else None
    if row is None or token is None or caller is None:
        return None
    ends = [end for end in (end_of(row), token.expires) if end is not None]
    return caller, min(ends), row.used


def _note_use(session: Session, caller: Caller, now: float) -> None:
    if (token := session.get(Token, caller.token)) is not None:
        token.last_used = now
    if caller.session and (row := session.get(BrowserSession, caller.session)) is not None:
        row.used = now
