"""The database: opening, the owner's lock, migrations, and refusal if a later version wrote it."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest
import sqlalchemy
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from qverify_farm.errors import DatabaseError, NewerSchemaError, OwnedError
from qverify_farm.store.database import SCHEMA_REVISION, Database, default_url, open_database, revision_of
from qverify_farm.store.tables import AttemptRecord, Base, ProjectRecord

from tests.farm import postgres

FIRST = Path(__file__).parent / "schema_0001.sql"


def project(name: str) -> ProjectRecord:
    return ProjectRecord(id=name, name=name, created=time.time())


def test_committed_rows_are_read_and_failed_ones_are_not(database: Database) -> None:
    with database.write() as session:
        session.add(project("kept"))
    with pytest.raises(RuntimeError, match="half-way"), database.write() as session:
        session.add(project("dropped"))
        session.flush()
        raise RuntimeError("half-way")
    with database.read() as session:
        assert [one.name for one in session.scalars(sqlalchemy.select(ProjectRecord))] == ["kept"]


def test_migrations_create_the_tables_of_the_code(database: Database) -> None:
    engine = database._read_engine
    assert revision_of(engine) == SCHEMA_REVISION
    with engine.connect() as connection:
        assert compare_metadata(MigrationContext.configure(connection), Base.metadata) == []


def test_a_second_owner_is_refused_with_the_first_ones_name(database_url: str) -> None:
    first = open_database(database_url, "qverify serve")
    try:
        with pytest.raises(
            OwnedError, match=r"in use by qverify serve \(process \d+ of .*one process at a time"
        ) as error:
            open_database(database_url, "qverify suite run")
        assert "\n" not in str(error.value)
        open_database(database_url).close()  # to look at
        first.check_owned()
    finally:
        first.close()
    open_database(database_url, "qverify suite run").close()


@pytest.mark.parametrize("database_url", ["postgresql"], indirect=True)
def test_a_lost_lock_is_taken_again_or_the_owner_is_informed(
    database_url: str, postgres_server: postgres.Server
) -> None:
    end = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name ~ '^first'"
    first = open_database(database_url, "first")
    postgres_server.execute(end)
    first.check_owned()
    with pytest.raises(OwnedError):
        open_database(database_url, "second")
    postgres_server.execute(end)
    second = open_database(database_url, "second")
    with pytest.raises(OwnedError, match="in use by second"):
        first.check_owned()
    first.close()
    second.close()


def test_a_database_of_a_newer_schema_is_refused_with_both_revisions(database_url: str) -> None:
    opened = open_database(database_url)
    with opened.write() as session:
        session.execute(sqlalchemy.text("UPDATE alembic_version SET version_num = '9999'"))
    opened.close()
    with pytest.raises(NewerSchemaError, match=f"its schema is 9999, .* knows {SCHEMA_REVISION} at most"):
        open_database(database_url)


def test_the_first_released_schema_is_migrated_with_its_rows(tmp_path: Path) -> None:
    import sqlite3

    path = tmp_path / "old.db"
    with sqlite3.connect(path) as old:
        old.executescript(FIRST.read_text())
    old.close()
    opened = open_database(str(path))
    with opened.read() as session:
        assert [one.name for one in session.scalars(sqlalchemy.select(ProjectRecord))] == ["default"]
        assert session.execute(sqlalchemy.text("SELECT name, verdict FROM jobs")).all() == [
            ("digits on desk", "PASSED")
        ]
        assert all(attempt.of_board for attempt in session.scalars(sqlalchemy.select(AttemptRecord)))
    assert revision_of(opened._read_engine) == SCHEMA_REVISION
    opened.close()


def test_a_link_to_a_database_is_the_same_database(tmp_path: Path) -> None:
    first = open_database(str(tmp_path / "farm.db"), "first")
    (tmp_path / "link.db").symlink_to("farm.db")
    with pytest.raises(OwnedError, match="in use by first"):
        open_database(str(tmp_path / "link.db"), "second")
    first.close()
    (tmp_path / "hard.db").hardlink_to(tmp_path / "farm.db")
    for name in ("farm.db", "hard.db"):
        with pytest.raises(DatabaseError, match="a hard link"):
            open_database(str(tmp_path / name), "second")


def test_writers_wait_for_each_other(database: Database) -> None:
    """Each writer reads before it writes. Without BEGIN IMMEDIATE, SQLite would refuse the second at once."""

    def add(number: int) -> None:
        for _ in range(5):
            with database.write() as session:
                row = session.get(ProjectRecord, "p", with_for_update=True)
                assert row is not None
                row.quota_jobs += number

    with database.write() as session:
        session.add(ProjectRecord(id="p", name="p", created=0.0, quota_jobs=0))
    threads = [threading.Thread(target=add, args=(1,)) for _ in range(4)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    with database.read() as session:
        assert session.get_one(ProjectRecord, "p").quota_jobs == 20


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("sqlite://", "wanted the path of a file"),
        ("mysql://localhost/x", "wanted postgresql://"),
        ("postgresql+asyncpg://h/x", "wanted postgresql://"),
        ("://", "wanted postgresql://"),
        ("/dev/null/farm.db", "wanted a file to write"),
        ("postgresql://nobody:secret@/x?host=/nowhere", "/nowhere"),
    ],
)
def test_a_database_that_cannot_be_opened_is_one_line(url: str, words: str) -> None:
    with pytest.raises(DatabaseError, match=words) as error:
        open_database(url)
    assert "\n" not in str(error.value) and "secret" not in str(error.value)


def test_a_file_that_is_not_a_database_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "farm.db").write_bytes(b"nothing of the kind" * 1000)
    with pytest.raises(DatabaseError, match=r"farm.db: file is not a database"):
        open_database(str(tmp_path / "farm.db"))


def test_by_default_it_is_in_the_state_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    assert default_url() == f"sqlite:///{tmp_path}/qverify/farm.db"
    open_database().close()
    assert (tmp_path / "qverify" / "farm.db").stat().st_mode & 0o077 == 0
