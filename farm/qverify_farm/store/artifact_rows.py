"""Database rows of artifacts: which artifacts are stored, and which projects may read them."""

from __future__ import annotations

from functools import cache
from typing import Any

from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.orm import Session

from qverify_farm.store.tables import ArtifactRecord, ProjectArtifactRecord


def keep_artifact(
    session: Session, project: str, sha256: str, size: int, now: float, *, name: str = "", kind: str = "file"
) -> None:
    """Adds an artifact, and adds it to a project. If the project has it already, only the time of its last use changes.
    kind: file, report, capture, bundle or page."""
    artifact, project_artifact = _statements(session.get_bind().dialect.name)
    session.execute(artifact, {"sha256": sha256, "size": size, "created": now})
    session.execute(
        project_artifact, {"project": project, "sha256": sha256, "name": name[:500], "kind": kind, "used": now}
    )


@cache
def _statements(dialect: str) -> tuple[Any, Any]:
    """Returns the two statements of keep_artifact(). Every job runs them; the ORM would need several statements for each."""
    insert: Any = (postgresql if dialect == "postgresql" else sqlite).insert
    project_artifact = insert(ProjectArtifactRecord)
    return (
        insert(ArtifactRecord).on_conflict_do_nothing(index_elements=["sha256"]),
        project_artifact.on_conflict_do_update(
            index_elements=["project", "sha256"], set_={"used": project_artifact.excluded.used}
        ),
    )
