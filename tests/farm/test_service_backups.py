"""Backups that lack something, which is reported, and backups of an earlier version, which are migrated."""

from __future__ import annotations

import io
import json
import os
import sqlite3
import tarfile
import time
from pathlib import Path

import pytest
from qverify.cli.main import main
from qverify_farm.service import backup
from qverify_farm.service.backup import read_backup, write_backup
from qverify_farm.service.sessions import begin_session
from qverify_farm.service.tokens import create_token
from qverify_farm.store.artifacts import open_artifacts
from qverify_farm.store.database import Database, open_database
from qverify_farm.store.database_artifacts import open_database_artifacts
from qverify_farm.store.tables import BrowserSessionRecord, JobRecord, ProjectRecord, SuiteRunRecord, TokenRecord
from sqlalchemy import select

from tests.farm.service_app import Service
from tests.farm.test_database import FIRST


def test_a_missing_database_is_refused_and_not_created(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    at = ["--database", str(tmp_path / "farm.db"), "--artifacts", str(tmp_path / "a")]
    assert main(["serve", "backup", str(tmp_path / "b.tar"), *at]) == 2
    printed = capsys.readouterr().err
    assert "farm.db: no such file" in printed and "QVERIFY_DATABASE" in printed and printed.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def test_a_backup_replaces_only_regular_files(
    service: Service, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "b.tar").write_bytes(b"")
    (tmp_path / "link.tar").symlink_to("b.tar")
    words = ["--database", str(tmp_path / "farm.db"), "--artifacts", str(tmp_path / "artifacts")]
    for name in ("fifo", "artifacts"):
        assert main(["serve", "backup", str(tmp_path / name), *words]) == 2
        assert "is no regular file; wanted a new file or a regular one" in capsys.readouterr().err
    assert (tmp_path / "fifo").is_fifo()
    assert main(["serve", "backup", str(tmp_path / "link.tar"), *words]) == 0
    assert (tmp_path / "link.tar").is_symlink() and tarfile.is_tarfile(tmp_path / "b.tar")
    assert (tmp_path / "b.tar").stat().st_mode & 0o777 == 0o600


def test_artifacts_with_missing_bytes_are_reported(
    service: Service, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    service.put(b"kept")
    at = ["--database", str(tmp_path / "farm.db")]
    words = ["serve", "backup", str(tmp_path / "b.tar"), *at]
    assert main([*words, "--artifacts", str(tmp_path / "artifacts")]) == 0
    assert main([*words, "--artifacts", str(tmp_path / "elsewhere")]) == 1
    out = capsys.readouterr()
    assert "1 artifact\n" in out.out and "0 artifacts" in out.out
    assert "1 artifact has its row, but its bytes are not in" in out.err and "--artifacts" in out.err
    new = ["--database", str(tmp_path / "new.db"), "--artifacts", str(tmp_path / "new")]
    assert main(["serve", "restore", str(tmp_path / "b.tar"), *new]) == 1
    assert "bytes are not in" in capsys.readouterr().err


def test_a_backup_without_bytes_is_complete_if_the_store_has_them(service: Service, tmp_path: Path) -> None:
    service.put(b"kept")
    words = ["--artifacts", str(tmp_path / "artifacts")]
    old, new = ["--database", str(tmp_path / "farm.db")], ["--database", str(tmp_path / "new.db")]
    assert main(["serve", "backup", "--no-artifacts", str(tmp_path / "b.tar"), *old, *words]) == 0
    assert main(["serve", "restore", str(tmp_path / "b.tar"), *new, *words]) == 0


@pytest.mark.parametrize("words", [[], ["--no-artifacts"]])
def test_the_store_of_another_database_is_refused_before_anything_is_written(
    service: Service, tmp_path: Path, capsys: pytest.CaptureFixture[str], words: list[str]
) -> None:
    service.put(b"new")
    backed_up = ["--database", str(tmp_path / "farm.db"), "--artifacts", str(tmp_path / "artifacts")]
    assert main(["serve", "backup", *words, str(tmp_path / "b.tar"), *backed_up]) == 0
    other = open_database(str(tmp_path / "other" / "farm.db"))
    store = open_database_artifacts(other)
    store.put_bytes(b"of the other")
    before = _contents(Path(store.url))
    restoring = ["serve", "restore", str(tmp_path / "b.tar"), "--database", str(tmp_path / "new.db"), "--artifacts"]
    capsys.readouterr()
    assert main([*restoring, store.url]) == 2
    printed = capsys.readouterr().err
    assert "other/farm.db" in printed and "Next: give --artifacts" in printed and printed.count("\n") == 1
    assert _contents(Path(store.url)) == before
    database = open_database(str(tmp_path / "new.db"))
    with database.read() as session:
        assert session.scalars(select(ProjectRecord)).all() == []
    database.close()
    assert main([*restoring, str(tmp_path / "fits")]) == (1 if words else 0)  # the refusal left the database empty
    other.close()


def _contents(folder: Path) -> dict[str, bytes]:
    return {str(one.relative_to(folder)): one.read_bytes() for one in folder.rglob("*") if one.is_file()}


def test_sessions_of_browsers_are_not_backed_up(tmp_path: Path) -> None:
    first, second = open_database(str(tmp_path / "a.db")), open_database(str(tmp_path / "b.db"))
    with first.write() as session:
        token, _ = create_token(session, "ann", "admin", None, None, time.time())
        begin_session(session, token.id, time.time())
    write_backup(first, None, str(tmp_path / "b.tar"))
    read_backup(second, open_artifacts(str(tmp_path / "a")), str(tmp_path / "b.tar"))
    with second.read() as session:
        assert session.scalars(select(BrowserSessionRecord)).all() == []
        assert session.scalars(select(TokenRecord.name)).all() == ["ann"]
    first.close()
    second.close()


def test_a_backup_of_the_first_schema_is_migrated(database: Database, tmp_path: Path) -> None:
    path = _first_backup(tmp_path)
    counts = read_backup(database, open_artifacts(str(tmp_path / "a")), str(path))
    assert counts.rows > 3
    with database.read() as session:
        assert [one.name for one in session.scalars(select(ProjectRecord))] == ["default"]
        assert [(one.name, one.verdict) for one in session.scalars(select(JobRecord))] == [("digits on desk", "PASSED")]
        assert [one.definition["name"] for one in session.scalars(select(SuiteRunRecord))] == ["nightly"]


def _first_backup(folder: Path) -> Path:
    """A backup of the database that the first released version wrote, in that version's format."""
    old = sqlite3.connect(":memory:")
    old.executescript(FIRST.read_text())
    old.row_factory = sqlite3.Row
    head = {"format": backup.FORMAT, "schema": "0001", "qverify": "0.1.0", "made": 1.0}
    members = {"backup.json": json.dumps(head).encode()}
    for name in (one for one in backup.TABLES if one not in backup.EXCLUDED_TABLES):
        rows = [dict(row) for row in old.execute(f"SELECT * FROM {name}")]
        for row in rows:
            row |= {key: json.loads(row[key]) for key in JSON & row.keys() if isinstance(row[key], str)}
        members[f"tables/{name}/0.json"] = json.dumps(rows).encode()
    old.close()
    with tarfile.open(folder / "first.tar", "w") as archive:
        for member, data in members.items():
            info = tarfile.TarInfo(member)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return folder / "first.tar"


JSON = {"definition", "labels", "wanted", "settings", "nodes", "facts", "tags", "content"}
