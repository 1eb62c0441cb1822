"""Who has which token, and which projects there are, remembered: a request that only reads asks the database once. Only this
process writes the database, so that what is remembered is forgotten when it changes; and after a moment in any case."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from dataclasses import dataclass

from sqlalchemy import select

from qverify_farm.service.tokens import SECRET, Caller, caller_of, has_tokens, hash_of
from qverify_farm.store.database import Database
from qverify_farm.store.runs import DEFAULT_PROJECT, ensure_project
from qverify_farm.store.tables import Project, Token

KEPT_S = 10.0
MOST = 10_000
USED_S = 60.0  # a token's last use is not written more often


@dataclass(frozen=True, slots=True)
class _Known:
    """expires: seconds since 1970, None for never. until: monotonic seconds."""

    caller: Caller
    expires: float | None
    until: float


class KnownCallers:
    """Any thread may call it. recall() and the names of recalled projects need no database; the others do."""

    def __init__(self, database: Database):
        self._database = database
        self._callers: OrderedDict[str, _Known] = OrderedDict()
        self._projects: dict[tuple[str, str], tuple[str, str]] = {}  # id and name, by each: neither ever changes
        self._any_tokens = False
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
        if not SECRET.fullmatch(secret):
            return None
        now = time.time()
        with self._database.read() as session:
            caller = caller_of(session, secret, now)
            row = session.get(Token, caller.token) if caller is not None else None
        if caller is None or row is None:
            return None
        if row.last_used is None or now - row.last_used > USED_S:
            with self._database.write() as session:
                if (again := session.get(Token, caller.token)) is not None:
                    again.last_used = now
        with self._lock:
            self._callers[hash_of(secret)] = _Known(caller, row.expires, time.monotonic() + KEPT_S)
            while len(self._callers) > MOST:
                self._callers.popitem(last=False)
        return caller

    def forget(self) -> None:
        """Forgets all callers: a token was revoked."""
        with self._lock:
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
