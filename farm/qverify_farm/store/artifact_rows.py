"""Rows of artifacts: which bytes there are, and which projects may read them."""

from __future__ import annotations

from sqlalchemy.orm import Session

from qverify_farm.store.tables import Artifact, ProjectArtifact


def keep_artifact(
    session: Session, project: str, sha256: str, size: int, now: float, *, name: str = "", kind: str = "file"
) -> None:
    """Writes that these bytes are stored and that a project has them; again only changes when they were used last.
    kind: file, report, capture, bundle or page."""
    if session.get(Artifact, sha256) is None:
        session.add(Artifact(sha256=sha256, size=size, created=now))
        session.flush()
    found = session.get(ProjectArtifact, {"project": project, "sha256": sha256})
    if found is None:
        session.add(ProjectArtifact(project=project, sha256=sha256, name=name[:500], kind=kind, used=now))
        session.flush()
    else:
        found.used = now


def may_read(session: Session, project: str, sha256: str) -> bool:
    """Returns whether a project has these bytes."""
    return session.get(ProjectArtifact, {"project": project, "sha256": sha256}) is not None
