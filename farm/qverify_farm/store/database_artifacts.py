"""Opens the artifact store of a database. A store belongs to one database, since retention deletes every artifact that the
database does not know."""

from __future__ import annotations

import json
from typing import Any

from qverify.errors import UsageError
from sqlalchemy import select
from sqlalchemy.orm import Session

from qverify_farm.store.artifacts import ArtifactStore, open_artifacts
from qverify_farm.store.database import Database
from qverify_farm.store.runs import DEFAULT_PROJECT, ensure_project
from qverify_farm.store.tables import ProjectRecord

OWNER_NAME = "database.json"  # a file of the store that names its database


def default_artifacts(database: Database) -> str:
    """Returns the place of a database's artifacts if none is given: the folder `artifacts` beside an SQLite file; otherwise "",
    which open_artifacts() takes for that of the state folder."""
    return str(database.folder / "artifacts") if database.folder is not None else ""


def open_database_artifacts(database: Database, url: str = "") -> ArtifactStore:
    """Returns the store at a URL ("": at its default place), and writes into it that it belongs to this database. Raises
    UsageError if it belongs to another database."""
    artifacts = open_artifacts(url or default_artifacts(database))
    with database.write() as session:
        own = {
            "project": ensure_project(session).id,
            "database": database.url,
        }  # a restored database keeps its projects
    if _owner(artifacts) != own:
        _check_owner(artifacts, own)
        artifacts.write_note(OWNER_NAME, json.dumps(own).encode())
        _check_owner(artifacts, own)  # against a process that did the same at the same time
    return artifacts


def check_store_fits(artifacts: ArtifactStore, database_url: str, session: Session) -> None:
    """Raises UsageError if a store belongs to another database than the one with this URL and the projects that the session
    sees. Nothing is written."""
    project = session.scalar(select(ProjectRecord.id).where(ProjectRecord.name == DEFAULT_PROJECT))
    _check_owner(artifacts, {"database": database_url} | ({"project": project} if project else {}))


def _check_owner(artifacts: ArtifactStore, own: dict[str, str]) -> None:
    owner = _owner(artifacts)
    if owner is None or any(owner.get(key) == value for key, value in own.items()):
        return
    name = str(owner.get("database", "another database"))[:300]
    raise UsageError(
        f"{artifacts.url}: it has the artifacts of {name}, and retention would delete those that {own['database']} does not know. "
        f"Next: give --artifacts another place; or delete {OWNER_NAME} there if that database is gone"
    )


def _owner(artifacts: ArtifactStore) -> dict[str, Any] | None:
    """Returns the database to which a store belongs, or None if it belongs to none yet."""
    note = artifacts.read_note(OWNER_NAME)
    if note is None:
        return None
    try:
        owner = json.loads(note)
    except (ValueError, RecursionError):
        return {}
    return owner if isinstance(owner, dict) else {}
