"""Remembers the callers with a token or session, and the projects, to save database queries. Since only this process writes the
database, an entry is forgotten when it changes; in any case it is forgotten after a short time."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from dataclasses import dataclass

from sqlalchemy import select
from sqlalchemy.orm import Session

from qverify_farm.service.sessions import SESSION_ID, end_of, end_session, session_of
from qverify_farm.service.tokens import SECRET, Caller, caller_of, has_tokens, hash_of, token_of
from qverify_farm.store.database import Database
from qverify_farm.store.runs import DEFAULT_PROJECT, ensure_project
from qverify_farm.store.tables import BrowserSessionRecord, ProjectRecord, TokenRecord

REMEMBER_S = 10.0
MAX_ENTRIES = 10_000
USE_NOTE_INTERVAL_S = 60.0  # shortest time between writes of the last use of a token or session


@dataclass(frozen=True, slots=True)
class _RememberedCaller:
    """A remembered caller. expires: when the token or session ends, in seconds since 1970; None for never. until: when the entry
    is forgotten, in monotonic seconds."""

    caller: Caller
    expires: float | None
    until: float


class KnownCallers:
    """The remembered callers and projects. A `secret` is a token, or the id of a browser's session. recall() and
    recall_project() do not use the database; the other methods do. Any thread may call them."""

    def __init__(self, database: Database):
        self._database = database
        self._callers: OrderedDict[str, _RememberedCaller] = OrderedDict()
        self._projects: dict[tuple[str, str], tuple[str, str]] = {}  # id and name, by id and by name; neither changes
        self._any_tokens = False
        self._changes = 0  # how often callers were forgotten
        self._lock = threading.Lock()

    def recall(self, secret: str) -> Caller | None:
        """Returns the caller with this secret, if it is remembered and valid."""
        with self._lock:
            remembered = self._callers.get(hash_of(secret))
        if remembered is None or remembered.until < time.monotonic():
            return None
        return remembered.caller if remembered.expires is None or remembered.expires > time.time() else None

    def find(self, secret: str) -> Caller | None:
        """Returns the caller with this secret, or None if it is unknown, expired or revoked. Notes the time of its use."""
        now, changes = time.time(), self._changes
        with self._database.read() as session:
            match = _look_up(session, secret, now)
            has_ended = match is None and session.get(BrowserSessionRecord, hash_of(secret)) is not None
        if match is None:
            if has_ended:
                with self._database.write() as session:
                    end_session(session, secret)  # for good, even if the clock is set back
            return None
        caller, expires, used = match
        if used is None or now - used > USE_NOTE_INTERVAL_S:
            with self._database.write() as session:
                _note_use(session, caller, now)
        with self._lock:
            if changes == self._changes:  # otherwise the caller may have been revoked since
                self._callers[hash_of(secret)] = _RememberedCaller(caller, expires, time.monotonic() + REMEMBER_S)
            while len(self._callers) > MAX_ENTRIES:
                self._callers.popitem(last=False)
        return caller

    def is_valid(self, caller: Caller) -> bool:
        """Returns whether the caller's token, and the session if there is one, are still valid."""
        if caller.local:
            return not self.any_tokens()
        now = time.time()
        with self._database.read() as session:
            row = session.get(BrowserSessionRecord, caller.session) if caller.session else None
            is_over = bool(caller.session) and (row is None or end_of(row) <= now)
            return not is_over and caller_of(session.get(TokenRecord, caller.token), now) is not None

    @property
    def changes(self) -> int:
        """The number of times callers were forgotten. If the number has grown, a token or session may have ended."""
        return self._changes

    def forget(self) -> None:
        """Forgets all callers, since a token was revoked or a session ended."""
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
        """Returns the id and the name of a project, found by its id (`project`) or otherwise by its name, if it is remembered."""
        return self._projects.get(("id", project) if project is not None else ("name", name))

    def find_project(self, name: str, project: str | None) -> tuple[str, str] | None:
        """Returns the id and the name of a project, found by its id (`project`) or otherwise by its name, or None. A missing
        default project is added."""
        with self._database.read() as session:
            condition = ProjectRecord.id == project if project is not None else ProjectRecord.name == name
            row = session.scalar(select(ProjectRecord).where(condition))
        if row is None and project is None and name == DEFAULT_PROJECT:
            with self._database.write() as session:
                row = ensure_project(session)
        if row is None:
            return None
        if len(self._projects) > MAX_ENTRIES:
            self._projects.clear()
        self._projects["id", row.id] = self._projects["name", row.name] = (row.id, row.name)
        return row.id, row.name


def _look_up(session: Session, secret: str, now: float) -> tuple[Caller, float | None, float | None] | None:
    """Returns the caller with this secret, when the secret expires, and when it was last used, in seconds since 1970."""
    if SECRET.fullmatch(secret):
        token = token_of(session, secret)
        caller = caller_of(token, now)
        return (caller, token.expires, token.last_used) if token is not None and caller is not None else None
    row = session_of(session, secret, now) if SESSION_ID.fullmatch(secret) else None
    token = session.get(TokenRecord, row.token) if row is not None else None
    caller = caller_of(token, now, row.hash) if row is not None else None
    if row is None or token is None or caller is None:
        return None
    ends = [end for end in (end_of(row), token.expires) if end is not None]
    return caller, min(ends), row.used


def _note_use(session: Session, caller: Caller, now: float) -> None:
    if (token := session.get(TokenRecord, caller.token)) is not None:
        token.last_used = now
    if caller.session and (row := session.get(BrowserSessionRecord, caller.session)) is not None:
        row.used = now
