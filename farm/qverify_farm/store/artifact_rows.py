"""Rows of artifacts: which bytes there are, and which projects may read them."""

from __future__ import annotations

from functools import cache
from typing import Any

from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.orm import Session

from qverify_farm.store.tables import Artifact, ProjectArtifact


def keep_artifact(
    session: Session, project: str, sha256: str, size: int, now: float, *, name: str = "", kind: str = "file"
) -> None:
    """Writes that these bytes are stored and that a project has them; again only changes when they were used last.
    kind: file, report, capture, bundle or page."""
    artifact, of_project = _statements(session.get_bind().dialect.name)
    session.execute(artifact, {"sha256": sha256, "size": size, "created": now})
    session.execute(of_project, {"project": project, "sha256": sha256, "name": name[:500], "kind": kind, "used": now})


@cache
def _statements(dialect: str) -> tuple[Any, Any]:
    """Returns the statements that add a row of each table, which every job writes: one of the database instead of several
    of the mapper."""
    insert: Any = (postgresql if dialect == "postgresql" else sqlite).insert
    of_project = insert(ProjectArtifact)
    return (
        insert(Artifact).on_conflict_do_nothing(index_elements=["sha256"]),
        of_project.on_conflict_do_update(index_elements=["project", "sha256"], set_={"used": of_project.excluded.used}),
    )


def may_read(session: Session, project: str, sha256: str) -> bool:
    """Returns whether a project has these bytes."""
    return session.get(ProjectArtifact, {"project": project, "sha256": sha256}) is not None
