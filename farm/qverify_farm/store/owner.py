"""The lock of the process that dispatches the jobs of a database. It is released when that process ends."""

from __future__ import annotations

import json
import os
import socket
import time
import zlib
from pathlib import Path
from typing import Protocol

import sqlalchemy
from qverify_agents.file_lock import LOCK_FLAGS, lock_file
from qverify_agents.this_user import user_name
from sqlalchemy.engine import Connection, Engine
from sqlalchemy.exc import SQLAlchemyError

from qverify_farm.errors import OwnedError

LOCK_CLASS = 0x7176  # "qv": the first of the two numbers of the advisory lock
ADVICE = "one process at a time dispatches its jobs. Next: use that one, stop it, or name another --database"


class Owner(Protocol):
    """The lock, held by this process."""

    def keep(self) -> None:
        """Takes the lock again if it was lost. Raises OwnedError if another process has it."""

    def close(self) -> None:
        """Releases the lock, if it is held."""


class SqliteOwner:
    """The lock file FILE.lock beside an SQLite file, which contains the holder's name. Raises OwnedError if another process has
    the lock."""

    def __init__(self, path: Path, name: str):
        self._file = os.open(path.with_name(path.name + ".lock"), LOCK_FLAGS, 0o600)
        if not lock_file(self._file):
            content = os.read(self._file, 1000)
            self.close()
            holder = _holder_name(content)
            raise OwnedError(f"{path}: in use by {holder}; {ADVICE}", holder)
        os.ftruncate(self._file, 0)
        os.lseek(self._file, 0, os.SEEK_SET)
        os.write(self._file, json.dumps({"holder": describe_process(name), "since": time.time()}).encode())

    def keep(self) -> None:
        pass  # a file lock cannot be lost while the process lives

    def close(self) -> None:
        if self._file >= 0:
            os.close(self._file)
            self._file = -1


class PostgresOwner:
    """An advisory lock of PostgreSQL, held by a separate database session with the holder's name as its application_name. Raises
    OwnedError if another session has the lock."""

    def __init__(self, engine: Engine, name: str):
        self._engine = sqlalchemy.create_engine(engine.url, poolclass=sqlalchemy.NullPool, isolation_level="AUTOCOMMIT")
        self._name = describe_process(name)[:60]
        self._key = zlib.crc32(b"qverify") & 0x7FFFFFFF
        self._connection: Connection | None = None
        self._take()

    def _take(self) -> None:
        connection = self._engine.connect()
        try:
            connection.exec_driver_sql("SELECT set_config('application_name', %s, false)", (self._name,))
            is_taken = connection.exec_driver_sql(
                "SELECT pg_try_advisory_lock(%s, %s)", (LOCK_CLASS, self._key)
            ).scalar()
            if not is_taken:
                holder = self._holder_name(connection)
                raise OwnedError(f"{url_without_password(self._engine.url)}: in use by {holder}; {ADVICE}", holder)
        except BaseException:
            connection.close()
            raise
        self._connection = connection

    def _holder_name(self, connection: Connection) -> str:
        holder_name = connection.execute(
            sqlalchemy.text(
                "SELECT a.application_name FROM pg_locks l JOIN pg_stat_activity a ON a.pid = l.pid "
                "WHERE l.locktype = 'advisory' AND l.granted AND l.classid = :class AND l.objid = :key "
                "AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())"
            ),
            {"class": LOCK_CLASS, "key": self._key},
        ).scalar()
        return str(holder_name or "another process")

    def keep(self) -> None:
        if self._connection is not None:
            try:
                self._connection.exec_driver_sql("SELECT 1")
                return
            except SQLAlchemyError:
                pass
            self.close()
        self._take()

    def close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()


def url_without_password(url: sqlalchemy.URL) -> str:
    """Returns the URL as users write it, without its password."""
    return url.set(drivername=url.get_backend_name()).render_as_string(hide_password=True)


def describe_process(name: str) -> str:
    """Returns a description of this process for messages of other processes: its name, process id, user and host."""
    return f"{name} (process {os.getpid()} of {user_name()} on {socket.gethostname()})"


def _holder_name(content: bytes) -> str:
    try:
        holder = json.loads(content)
        return f"{str(holder['holder'])[:200]} since {max(0.0, time.time() - float(holder['since'])):.0f} s ago"
    except (ValueError, KeyError, TypeError, RecursionError):
        return "another process"
