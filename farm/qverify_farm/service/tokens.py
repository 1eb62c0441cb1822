"""Makes, finds, lists and revokes bearer tokens. A token's secret is shown once; the database contains only its hash."""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
import uuid
from dataclasses import dataclass
from typing import Literal

from qverify.errors import UsageError
from sqlalchemy import delete, func, select
from sqlalchemy.orm import Session

from qverify_farm.store.tables import BrowserSessionRecord, ProjectRecord, TokenRecord

Role = Literal["viewer", "submitter", "admin"]
NAME = r"^[A-Za-z0-9][A-Za-z0-9._+-]{0,63}$"  # names of tokens and projects
ROLES: tuple[Role, ...] = ("viewer", "submitter", "admin")  # each includes the rights of those before it
SECRET = re.compile(r"qv_[A-Za-z0-9_-]{43}")


@dataclass(frozen=True, slots=True)
class Caller:
    """The caller of a request.

    Attributes:
        token: The token's id, or "" for the administrator of this host.
        project: The id of the project, or None for all projects.
        local: Whether it is the administrator of this host, without a token.
        session: The hash of the browser's session, or "" if the request contained the token itself.
    """

    token: str
    name: str
    role: Role
    project: str | None
    local: bool = False
    session: str = ""

    def may(self, role: Role) -> bool:
        """Returns whether the caller has this role or a higher one."""
        return ROLES.index(self.role) >= ROLES.index(role)


LOCAL_ADMIN = Caller("", "local", "admin", None, local=True)


def hash_of(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()


def create_token(
    session: Session, name: str, role: str, project: str | None, days: float | None, now: float
) -> tuple[TokenRecord, str]:
    """Adds a token and returns it with its secret. project: the name of an existing project, or None for all. days: when it
    expires, or None for never. Raises UsageError for a wrong role or project, or a name that is in use."""
    if role not in ROLES:
        raise UsageError(f"role {role[:40]!r}: wanted viewer, submitter or admin")
    row = session.scalar(select(ProjectRecord).where(ProjectRecord.name == project)) if project is not None else None
    if project is not None and row is None:
        raise UsageError(f"project {project[:64]!r}: there is none of this name")
    if project is None and role != "admin":
        raise UsageError(f"a token of the role {role} belongs to a project; name it")
    if (
        session.scalar(select(TokenRecord.id).where(TokenRecord.name == name, TokenRecord.revoked.is_(None)))
        is not None
    ):
        raise UsageError(f"token {name[:64]!r}: there is one of this name; revoke it, or take another name")
    secret = "qv_" + secrets.token_urlsafe(32)
    token = TokenRecord(
        id=uuid.uuid4().hex,
        name=name,
        hash=hash_of(secret),
        role=role,
        project=row.id if row is not None else None,
        created=now,
        expires=now + days * 86400 if days is not None else None,
    )
    session.add(token)
    session.flush()
    return token, secret


def token_of(session: Session, secret: str) -> TokenRecord | None:
    """Returns the token with this secret, which may be expired or revoked, or None if there is none."""
    token_hash = hash_of(secret)
    token = (
        session.scalar(select(TokenRecord).where(TokenRecord.hash == token_hash)) if SECRET.fullmatch(secret) else None
    )
    return token if token is not None and hmac.compare_digest(token.hash, token_hash) else None


def caller_of(token: TokenRecord | None, now: float, session: str = "") -> Caller | None:
    """Returns the caller with this token, or None if the token is None, expired or revoked. session: Caller.session."""
    if token is None or token.revoked is not None or (token.expires is not None and token.expires <= now):
        return None
    role = next((known_role for known_role in ROLES if known_role == token.role), None)
    return Caller(token.id, token.name, role, token.project, session=session) if role is not None else None


def has_tokens(session: Session) -> bool:
    """Returns whether any token exists, revoked ones included; if so, every request needs a token."""
    return bool(session.scalar(select(func.count()).select_from(TokenRecord)))


def usable_tokens(session: Session, now: float) -> int:
    """Returns the number of tokens that are neither revoked nor expired."""
    usable = (TokenRecord.revoked.is_(None)) & ((TokenRecord.expires.is_(None)) | (TokenRecord.expires > now))
    return int(session.scalar(select(func.count()).select_from(TokenRecord).where(usable)) or 0)


def list_tokens(session: Session, project: str | None = None) -> list[tuple[TokenRecord, str | None]]:
    """Returns the tokens with the names of their projects, newest first. project: a project's id, or None for all."""
    query = (
        select(TokenRecord, ProjectRecord.name)
        .outerjoin(ProjectRecord, ProjectRecord.id == TokenRecord.project)
        .order_by(TokenRecord.created.desc())
    )
    if project is not None:
        query = query.where(TokenRecord.project == project)
    return [(token, name) for token, name in session.execute(query)]


def revoke_token(session: Session, text: str, now: float, project: str | None = None) -> TokenRecord | None:
    """Revokes the token with this id or name, ends its sessions, and returns it; None if there is none. project: the id of the
    project to which it must belong, or None."""
    query = select(TokenRecord).where(
        (TokenRecord.id == text) | ((TokenRecord.name == text) & TokenRecord.revoked.is_(None))
    )
    if project is not None:
        query = query.where(TokenRecord.project == project)
    token = session.scalar(query.order_by(TokenRecord.created.desc()))
    if token is not None and token.revoked is None:
        token.revoked = now
        session.execute(delete(BrowserSessionRecord).where(BrowserSessionRecord.token == token.id))
    return token
