"""qverify serve token: makes, lists and revokes tokens directly in the database."""

from __future__ import annotations

import re
import time

from qverify.cli.say_line import say
from qverify.errors import UsageError
from sqlalchemy.orm import Session

from qverify_farm.service.tokens import NAME, create_token, list_tokens, revoke_token
from qverify_farm.store.database import open_database
from qverify_farm.store.runs import DEFAULT_PROJECT, ensure_project
from qverify_farm.store.tables import AuditRecord

OWNER = "qverify serve token"


def make_token(url: str, name: str, role: str, project: str | None, days: float | None) -> int:
    """Adds a token, and its project if that is missing. Only the token's secret is printed on standard output."""
    for label, text in (("NAME", name), ("--project", project or DEFAULT_PROJECT)):
        if not re.fullmatch(NAME, text):
            raise UsageError(f"{label} {text[:80]!r}: wanted letters, digits and . _ + -, at most 64")
    of_project = project if project is not None or role == "admin" else DEFAULT_PROJECT
    database = open_database(url, OWNER)
    try:
        with database.write() as session:
            if of_project is not None:
                ensure_project(session, of_project)
            row, secret = create_token(session, name, role, of_project, days, time.time())
            content = {"token": row.id, "name": name, "role": role}
            _audit(session, "token.create", row.project, content)
    finally:
        database.close()
    say(f"token {name}: {role} of {of_project or 'all projects'}; it is shown this once:", err=True)
    say(secret)
    return 0


def show_tokens(url: str) -> int:
    """Prints a line for each token."""
    database = open_database(url)
    try:
        with database.read() as session:
            rows = list_tokens(session)
    finally:
        database.close()
    if not rows:
        say("no tokens: whoever is on this host may do everything. Next: qverify serve token create NAME --role admin")
    now = time.time()
    for row, project in rows:
        state = "revoked" if row.revoked else "expired" if row.expires and row.expires <= now else "valid"
        expiry = f", until {time.strftime('%Y-%m-%d', time.gmtime(row.expires))}" if row.expires else ""
        last_use = f"used {time.strftime('%Y-%m-%d', time.gmtime(row.last_used))}" if row.last_used else "never used"
        say(f"{row.name}: {row.role} of {project or 'all projects'}, {state}{expiry}, {last_use}")
    return 0


def end_token(url: str, name: str) -> int:
    """Revokes a token by its name or id."""
    database = open_database(url, OWNER)
    try:
        with database.write() as session:
            row = revoke_token(session, name, time.time())
            if row is None:
                raise UsageError(f"token {name[:64]!r}: there is none. Next: qverify serve token list")
            _audit(session, "token.revoke", row.project, {"token": row.id, "name": row.name})
    finally:
        database.close()
    say(f"token {row.name}: revoked")
    return 0


def _audit(session: Session, action: str, project: str | None, content: dict[str, str]) -> None:
    session.add(
        AuditRecord(time=time.time(), token="this host", project=project, action=action, content=content, request="")
    )
