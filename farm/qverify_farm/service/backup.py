"""Backup and restore: a .tar file with every row and, if wanted, the bytes of every artifact. A backup may be made while the
service runs; it contains what is committed. Restoring needs an empty database."""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import tarfile
import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from qverify import __version__
from qverify.errors import BadFileError, UsageError
from qverify.files import replacing
from qverify.printable import printable
from sqlalchemy import MetaData, Table, insert, select, text
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.orm import Session

from qverify_farm.errors import ArtifactError
from qverify_farm.store.artifacts import PIECE_BYTES, ArtifactStore, key_of
from qverify_farm.store.database import SCHEMA_REVISION, Database, known_revisions, migrate, scratch_database
from qverify_farm.store.database_artifacts import check_store_fits
from qverify_farm.store.tables import ArtifactRecord, Base, BrowserSessionRecord

FORMAT = "qverify.backup/1"
ROWS_PER_MEMBER = 500
MAX_MEMBER_BYTES = 1 << 30  # largest member with rows
HEADER_NAME = "backup.json"
ROWS_PATTERN = re.compile(r"tables/([a-z_]{1,40})/\d+\.json")
ARTIFACT_PATTERN = re.compile(r"sha/[0-9a-f]{2}/[0-9a-f]{2}/([0-9a-f]{64})")
TABLES = {table.name: table for table in Base.metadata.sorted_tables}  # each after the tables to which it refers
EXCLUDED_TABLES = (BrowserSessionRecord.__tablename__,)  # users log in again after a restore


@dataclass(slots=True)
class Counts:
    """The number of rows and of artifacts in a backup, and of artifacts that have a row but no bytes in it."""

    rows: int = 0
    artifacts: int = 0
    missing: int = 0


def write_backup(database: Database, artifacts: ArtifactStore | None, path: str) -> Counts:
    """Writes a backup completely or not at all, and returns its counts. Only the owner may read the file. artifacts: None to
    omit their bytes. Raises UsageError if the file cannot be written."""
    try:
        with replacing(path, 0o600) as partial, open(partial, "wb") as file:
            counts = _write(database, artifacts, file)
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror or error}; wanted a file to write the backup into") from error
    return counts


def _write(database: Database, artifacts: ArtifactStore | None, file: IO[bytes]) -> Counts:
    counts = Counts()
    with tarfile.open(fileobj=file, mode="w|") as archive, database.read() as session:
        if database.dialect == "postgresql":  # one state for all tables, as in SQLite
            session.connection(execution_options={"isolation_level": "REPEATABLE READ"})
        header = {"format": FORMAT, "schema": SCHEMA_REVISION, "qverify": __version__, "made": time.time()}
        _add_json(archive, HEADER_NAME, header)
        for table in (table for table in TABLES.values() if table.name not in EXCLUDED_TABLES):
            for number, batch in enumerate(_row_batches(session, table)):
                _add_json(archive, f"tables/{table.name}/{number}.json", batch)
                counts.rows += len(batch)
        if artifacts is not None:
            query = select(ArtifactRecord.sha256, ArtifactRecord.size).order_by(ArtifactRecord.sha256)
            for sha256, size in session.execute(query.execution_options(yield_per=ROWS_PER_MEMBER)):
                is_added = _add_artifact(archive, artifacts, sha256, size)
                counts.artifacts += is_added
                counts.missing += not is_added
    return counts


def _row_batches(session: Session, table: Table) -> Iterator[list[dict[str, Any]]]:
    query = select(table).order_by(*table.primary_key.columns).execution_options(yield_per=ROWS_PER_MEMBER)
    for batch in session.execute(query).mappings().partitions(ROWS_PER_MEMBER):
        yield [dict(row) for row in batch]


def _add_json(archive: tarfile.TarFile, name: str, value: object) -> None:
    _forget_members(archive)
    data = json.dumps(value, separators=(",", ":")).encode()
    info = tarfile.TarInfo(name)
    info.size = len(data)
    archive.addfile(info, io.BytesIO(data))


def _add_artifact(archive: tarfile.TarFile, artifacts: ArtifactStore, sha256: str, size: int) -> bool:
    """Adds an artifact. Returns False if its bytes are missing or damaged, since the rest is worth keeping."""
    with contextlib.suppress(ArtifactError, FileNotFoundError), artifacts.open(sha256) as content:
        if os.fstat(content.fileno()).st_size == size:
            info = tarfile.TarInfo(key_of(sha256))
            info.size = size
            _forget_members(archive)
            archive.addfile(info, content)
            return True
    return False


def _forget_members(archive: tarfile.TarFile) -> None:
    """Clears the archive's list of members, which would otherwise grow in memory."""
    archive.members = []  # type: ignore[attr-defined]


def read_backup(database: Database, artifacts: ArtifactStore, path: str) -> Counts:
    """Restores a backup into an empty database and a store, and returns its counts. Either all rows are restored or none; rows
    of an earlier schema are migrated. Raises UsageError if the database is not empty or the store belongs to another one, before
    anything is written; and BadFileError if the file is not a backup or comes from a later version."""
    target = _Target(artifacts, database.url)
    with database.write() as session:
        for table in TABLES.values():
            if session.execute(select(table).limit(1)).first() is not None:
                raise UsageError(
                    f"{database.url}: it has rows ({table.name}); a backup is restored into a new database. "
                    "Next: name another --database"
                )
        try:
            with open(path, "rb") as file, tarfile.open(fileobj=file, mode="r|") as archive:
                schema = _schema_of(archive, path)
                if schema == SCHEMA_REVISION:
                    counts = _read_members(session, TABLES, target, archive, path)
                else:
                    counts = _read_older_schema(session, schema, target, archive, path)
        except (tarfile.TarError, ValueError, RecursionError, KeyError, TypeError) as error:
            raise BadFileError(f"{path}: not a backup of qverify: {printable(str(error))[:200]}") from error
        except SQLAlchemyError as error:
            raise BadFileError(
                f"{path}: its rows do not fit: {printable(str(getattr(error, 'orig', error)))[:200]}"
            ) from error
        if database.dialect == "postgresql":
            _set_sequences(session)
    return counts


@dataclass(slots=True)
class _Target:
    """The store that takes a backup's bytes, and the URL of its database."""

    artifacts: ArtifactStore
    database_url: str
    is_checked: bool = False

    def check_once(self, session: Session) -> None:
        """Raises UsageError if the store belongs to another database. session: sees the restored projects."""
        if not self.is_checked:
            check_store_fits(self.artifacts, self.database_url, session)
            self.is_checked = True


def _read_older_schema(session: Session, schema: str, target: _Target, archive: tarfile.TarFile, path: str) -> Counts:
    """Restores rows of an earlier schema: into a temporary database of that schema, which is migrated and then copied."""
    with tempfile.TemporaryDirectory() as folder, scratch_database(Path(folder), schema) as scratch:
        earlier = MetaData()
        earlier.reflect(scratch)
        with Session(scratch.execution_options(qverify_writes=True)) as rows, rows.begin():
            tables = {name: table for name, table in earlier.tables.items() if name in TABLES}
            counts = _read_members(rows, tables, target, archive, path)
        migrate(scratch)
        with Session(scratch) as rows:
            for table in TABLES.values():
                for batch in _row_batches(rows, table):
                    session.execute(insert(table), batch)
    return counts


def _read_members(
    session: Session, tables: Mapping[str, Table], target: _Target, archive: tarfile.TarFile, path: str
) -> Counts:
    artifacts = target.artifacts
    counts, digests_in_rows, restored_digests = Counts(), set[str](), set[str]()
    while (member := archive.next()) is not None:
        _forget_members(archive)
        if match := ROWS_PATTERN.fullmatch(member.name):
            table, rows = tables[match.group(1)], json.loads(_member_bytes(archive, member))
            if rows:
                session.execute(insert(table), [dict(row) for row in rows])
            counts.rows += len(rows)
            if match.group(1) == ArtifactRecord.__tablename__:
                digests_in_rows |= {str(row["sha256"]) for row in rows}
        elif (match := ARTIFACT_PATTERN.fullmatch(member.name)) and (
            content := archive.extractfile(member)
        ) is not None:
            target.check_once(session)  # the projects, which name the store's owner, come before the artifacts
            artifacts.put_stream(iter(lambda c=content: c.read(PIECE_BYTES), b""), expected=match.group(1))  # type: ignore[misc]
            restored_digests.add(match.group(1))
        else:
            raise BadFileError(f"{path}: it holds {printable(member.name)[:100]!r}, which is no part of a backup")
    target.check_once(session)
    counts.artifacts = len(restored_digests)
    counts.missing = sum(artifacts.size_of(sha256) is None for sha256 in digests_in_rows - restored_digests)
    return counts


def _member_bytes(archive: tarfile.TarFile, member: tarfile.TarInfo) -> bytes:
    content = archive.extractfile(member)
    if content is None or member.size > MAX_MEMBER_BYTES:
        raise ValueError(f"{member.name}: no file, or larger than {MAX_MEMBER_BYTES} bytes")
    return content.read()


def _schema_of(archive: tarfile.TarFile, path: str) -> str:
    """Returns the schema revision of a backup's rows. Raises BadFileError if this version does not know it."""
    member = archive.next()
    if member is None or member.name != HEADER_NAME:
        raise BadFileError(f"{path}: not a backup of qverify: it does not begin with {HEADER_NAME}")
    header = json.loads(_member_bytes(archive, member))
    if header["format"] != FORMAT:
        raise BadFileError(f"{path}: its format is {str(header['format'])[:40]}, wanted {FORMAT}")
    if header["schema"] not in known_revisions():
        raise BadFileError(
            f"{path}: its schema is {str(header['schema'])[:40]}, and this version of qverify knows {SCHEMA_REVISION} at most. "
            f"Next: restore it with qverify {str(header['qverify'])[:40]}, which wrote it, or a later version"
        )
    return str(header["schema"])


def _set_sequences(session: Session) -> None:
    for table in ("events", "audit"):
        session.execute(
            text(
                f"SELECT setval(pg_get_serial_sequence('{table}', 'number'), "
                f"GREATEST((SELECT COALESCE(MAX(number), 0) FROM {table}), 1))"
            )
        )
