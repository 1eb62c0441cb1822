"""Backup and restore: one .tar with every row and, unless they are left out, the bytes of every artifact. A backup reads
what is committed, also while the service runs; restoring asks for an empty database."""

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
from qverify.printable import printable
from sqlalchemy import MetaData, Table, insert, select, text
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.orm import Session

from qverify_farm.errors import ArtifactError
from qverify_farm.store.artifacts import PIECE, Artifacts, key_of
from qverify_farm.store.database import SCHEMA, Database, known_revisions, migrate, scratch_database
from qverify_farm.store.tables import Artifact, Base, BrowserSession

FORMAT = "qverify.backup/1"
AT_ONCE = 500  # rows of one member
MOST_MEMBER = 1 << 30  # bytes of rows
HEAD = "backup.json"
ROWS = re.compile(r"tables/([a-z_]{1,40})/\d+\.json")
BYTES = re.compile(r"sha/[0-9a-f]{2}/[0-9a-f]{2}/([0-9a-f]{64})")
TABLES = {table.name: table for table in Base.metadata.sorted_tables}  # what others refer to comes first
LEFT_OUT = (BrowserSession.__tablename__,)  # who was logged in logs in again


@dataclass(slots=True)
class Counts:
    """rows, artifacts: that a backup holds. missing: artifacts that its rows name and whose bytes it has not."""

    rows: int = 0
    artifacts: int = 0
    missing: int = 0


def write_backup(database: Database, artifacts: Artifacts | None, path: str) -> Counts:
    """Writes a backup, whole or not at all, readable by its owner alone; returns what it holds.
    artifacts: None leaves their bytes out. UsageError where the file cannot be written."""
    target = Path(path)
    part = target.with_name(f".{target.name}.part-{os.getpid()}")
    try:
        descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with open(descriptor, "wb") as file:
            counts = _write(database, artifacts, file)
            file.flush()
            os.fsync(file.fileno())
        os.replace(part, target)
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror or error}; wanted a file to write the backup into") from error
    finally:
        part.unlink(missing_ok=True)
    return counts


def _write(database: Database, artifacts: Artifacts | None, file: IO[bytes]) -> Counts:
    counts = Counts()
    with tarfile.open(fileobj=file, mode="w|") as archive, database.read() as session:
        if database.dialect == "postgresql":  # one moment for all tables; SQLite's transactions are so anyway
            session.connection(execution_options={"isolation_level": "REPEATABLE READ"})
        head = {"format": FORMAT, "schema": SCHEMA, "qverify": __version__, "made": time.time()}
        _add(archive, HEAD, head)
        for table in (one for one in TABLES.values() if one.name not in LEFT_OUT):
            for number, part in enumerate(_parts(session, table)):
                _add(archive, f"tables/{table.name}/{number}.json", part)
                counts.rows += len(part)
        if artifacts is not None:
            query = select(Artifact.sha256, Artifact.size).order_by(Artifact.sha256)
            for sha256, size in session.execute(query.execution_options(yield_per=AT_ONCE)):
                is_there = _add_bytes(archive, artifacts, sha256, size)
                counts.artifacts += is_there
                counts.missing += not is_there
    return counts


def _parts(session: Session, table: Table) -> Iterator[list[dict[str, Any]]]:
    query = select(table).order_by(*table.primary_key.columns).execution_options(yield_per=AT_ONCE)
    for part in session.execute(query).mappings().partitions(AT_ONCE):
        yield [dict(row) for row in part]


def _add(archive: tarfile.TarFile, name: str, value: object) -> None:
    _forget(archive)
    data = json.dumps(value, separators=(",", ":")).encode()
    info = tarfile.TarInfo(name)
    info.size = len(data)
    archive.addfile(info, io.BytesIO(data))


def _add_bytes(archive: tarfile.TarFile, artifacts: Artifacts, sha256: str, size: int) -> bool:
    """Adds an artifact; returns False for one whose bytes are gone or damaged: the rest is worth keeping."""
    with contextlib.suppress(ArtifactError, FileNotFoundError), artifacts.open(sha256) as content:
        if os.fstat(content.fileno()).st_size == size:
            info = tarfile.TarInfo(key_of(sha256))
            info.size = size
            _forget(archive)
            archive.addfile(info, content)
            return True
    return False


def _forget(archive: tarfile.TarFile) -> None:
    """Forgets the members so far: an archive remembers every one, in memory."""
    archive.members = []  # type: ignore[attr-defined]


def read_backup(database: Database, artifacts: Artifacts, path: str) -> Counts:
    """Restores a backup into an empty database and a store, and returns what it held. All rows or none; those of an earlier
    schema are migrated. UsageError for a database that is not empty, BadFileError for a file that is no backup, or one
    of a later version."""
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
                if schema == SCHEMA:
                    counts = _read(session, TABLES, artifacts, archive, path)
                else:
                    counts = _read_older(session, schema, artifacts, archive, path)
        except (tarfile.TarError, ValueError, RecursionError, KeyError, TypeError) as error:
            raise BadFileError(f"{path}: not a backup of qverify: {printable(str(error))[:200]}") from error
        except SQLAlchemyError as error:
            raise BadFileError(
                f"{path}: its rows do not fit: {printable(str(getattr(error, 'orig', error)))[:200]}"
            ) from error
        if database.dialect == "postgresql":
            _set_sequences(session)
    return counts


def _read_older(session: Session, schema: str, artifacts: Artifacts, archive: tarfile.TarFile, path: str) -> Counts:
    """Restores rows of an earlier schema, by way of a database of that schema which is migrated."""
    with tempfile.TemporaryDirectory() as folder, scratch_database(Path(folder), schema) as scratch:
        earlier = MetaData()
        earlier.reflect(scratch)
        with Session(scratch.execution_options(qverify_writes=True)) as rows, rows.begin():
            tables = {name: table for name, table in earlier.tables.items() if name in TABLES}
            counts = _read(rows, tables, artifacts, archive, path)
        migrate(scratch)
        with Session(scratch) as rows:
            for table in TABLES.values():
                for part in _parts(rows, table):
                    session.execute(insert(table), part)
    return counts


def _read(
    session: Session, tables: Mapping[str, Table], artifacts: Artifacts, archive: tarfile.TarFile, path: str
) -> Counts:
    counts, named, came = Counts(), set[str](), set[str]()
    while (member := archive.next()) is not None:
        _forget(archive)
        if match := ROWS.fullmatch(member.name):
            table, found = tables[match.group(1)], json.loads(_content(archive, member))
            if found:
                session.execute(insert(table), [dict(row) for row in found])
            counts.rows += len(found)
            if match.group(1) == Artifact.__tablename__:
                named |= {str(row["sha256"]) for row in found}
        elif (match := BYTES.fullmatch(member.name)) and (content := archive.extractfile(member)) is not None:
            artifacts.put_stream(iter(lambda c=content: c.read(PIECE), b""), expected=match.group(1))  # type: ignore[misc]
            came.add(match.group(1))
        else:
            raise BadFileError(f"{path}: it holds {printable(member.name)[:100]!r}, which is no part of a backup")
    counts.artifacts, counts.missing = len(came), sum(artifacts.size_of(one) is None for one in named - came)
    return counts


def _content(archive: tarfile.TarFile, member: tarfile.TarInfo) -> bytes:
    content = archive.extractfile(member)
    if content is None or member.size > MOST_MEMBER:
        raise ValueError(f"{member.name}: no file, or larger than {MOST_MEMBER} bytes")
    return content.read()


def _schema_of(archive: tarfile.TarFile, path: str) -> str:
    """Returns the revision of the schema of a backup's rows, one that this version knows."""
    first = archive.next()
    if first is None or first.name != HEAD:
        raise BadFileError(f"{path}: not a backup of qverify: it does not begin with {HEAD}")
    head = json.loads(_content(archive, first))
    if head["format"] != FORMAT:
        raise BadFileError(f"{path}: its format is {str(head['format'])[:40]}, wanted {FORMAT}")
    if head["schema"] not in known_revisions():
        raise BadFileError(
            f"{path}: its schema is {str(head['schema'])[:40]}, and this version of qverify knows {SCHEMA} at most. "
            f"Next: restore it with qverify {str(head['qverify'])[:40]}, which wrote it, or a later version"
        )
    return str(head["schema"])


def _set_sequences(session: Session) -> None:
    for table in ("events", "audit"):
        session.execute(
            text(
                f"SELECT setval(pg_get_serial_sequence('{table}', 'number'), "
                f"GREATEST((SELECT COALESCE(MAX(number), 0) FROM {table}), 1))"
            )
        )
