"""The farm's database: an SQLite file, or PostgreSQL at a URL. It is migrated to this version's schema when it is opened."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import sqlalchemy
from sqlalchemy import event
from sqlalchemy.engine import Connection, Engine
from sqlalchemy.exc import ArgumentError, NoSuchModuleError, SQLAlchemyError
from sqlalchemy.orm import Session

from qverify_farm.errors import DatabaseError, NewerSchemaError, OwnedError
from qverify_farm.store.artifacts import state_folder
from qverify_farm.store.owner import Owner, PostgresOwner, SqliteOwner, url_without_password

if TYPE_CHECKING:
    from alembic.config import Config

SCHEMA_REVISION = "0006"  # the newest revision of migrations/versions
MIGRATION_OWNER = "a migration of the schema"
MIGRATION_WAIT_S = 10.0  # longest wait for a migration by another process
BUSY_TIMEOUT_S = 30.0  # longest wait of a connection for another one's transaction


class Database:
    """An open database. A session of read() or write() must be used in one thread only. `url` has no password."""

    def __init__(self, engine: Engine, owner: Owner | None):
        self._read_engine, self._owner = engine, owner
        self._write_engine = engine.execution_options(qverify_writes=True)
        self.url = url_without_password(engine.url)
        self.dialect = engine.dialect.name  # sqlite or postgresql
        self.folder = Path(engine.url.database or "").parent if self.dialect == "sqlite" else None

    @contextlib.contextmanager
    def read(self) -> Iterator[Session]:
        """Yields a session for reading. With SQLite it sees one state of the database; with PostgreSQL each statement sees
        what has been committed before."""
        with Session(self._read_engine, expire_on_commit=False) as session:
            yield session

    @contextlib.contextmanager
    def write(self) -> Iterator[Session]:
        """Yields a session with one transaction, which is committed after the `with` block, or rolled back after an exception.
        With SQLite it waits for other writers at its beginning, so that it does not fail half-way."""
        with Session(self._write_engine, expire_on_commit=False) as session, session.begin():
            yield session

    def check_owned(self) -> None:
        """Takes the owner's lock again if a broken connection lost it. Raises OwnedError if another process has it now; the
        caller must stop. Does nothing for a database that was opened without an owner."""
        if self._owner is not None:
            self._owner.keep()

    def close(self) -> None:
        """Closes the connections and releases the owner's lock."""
        self._read_engine.dispose()
        if self._owner is not None:
            self._owner.close()


def open_database(url: str = "", owner: str = "") -> Database:
    """Opens a database. A missing SQLite file is created, and an older schema is migrated.

    Args:
        url: postgresql://USER@HOST/NAME, sqlite:///FILE or a file's path; "" for farm.db in the state folder.
        owner: The name of this process if it dispatches the database's jobs, which only one process at a time may do; "" to
            open the database beside an owner.

    Raises OwnedError, with the holder's name, if the database has another owner; DatabaseError if it cannot be used; and
    NewerSchemaError if a later version wrote it.
    """
    engine = _engine(url)
    owner_lock: Owner | None = None
    try:
        owner_lock = _take_ownership(engine, owner) if owner else None
        _bring_up_to_date(engine, owner_lock)
        return Database(engine, owner_lock)
    except BaseException as error:
        engine.dispose()
        if owner_lock is not None:
            owner_lock.close()
        if isinstance(error, SQLAlchemyError):
            where = url_without_password(engine.url)
            raise DatabaseError(f"{where}: {_reason(error)}") from error
        raise


def default_url() -> str:
    return f"sqlite:///{state_folder() / 'farm.db'}"


def _engine(url: str) -> Engine:
    text = url or default_url()
    if "://" not in text:
        text = f"sqlite:///{text}"
    try:
        parsed = sqlalchemy.make_url(text)
    except ArgumentError:
        raise DatabaseError("--database: wanted postgresql://USER@HOST/NAME, or the path of an SQLite file") from None
    if parsed.get_backend_name() == "sqlite":
        return _sqlite(parsed)
    if parsed.drivername not in ("postgresql", "postgresql+psycopg", "postgres"):
        raise DatabaseError(f"--database {parsed.drivername}://: wanted postgresql://USER@HOST/NAME, or an SQLite file")
    try:
        return sqlalchemy.create_engine(
            parsed.set(drivername="postgresql+psycopg"),
            pool_pre_ping=True,
            pool_size=10,
            max_overflow=20,
            connect_args={"connect_timeout": 10, "application_name": "qverify"},
        )
    except (ModuleNotFoundError, NoSuchModuleError):
        raise DatabaseError("--database postgresql://: needs psycopg; pip install 'qverify[postgres]'") from None


def _sqlite(url: sqlalchemy.URL) -> Engine:
    if not url.database or url.database == ":memory:":
        raise DatabaseError("--database sqlite://: wanted the path of a file: sqlite:///FILE")
    path = Path(os.path.realpath(url.database))  # the lock is beside the file itself, not beside a link to it
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))  # otherwise SQLite would create it readable for everyone
        if path.stat().st_nlink > 1:
            raise DatabaseError(f"{path}: it has a second name (a hard link), beside which another process may lock it")
    except OSError as error:
        raise DatabaseError(f"{path}: {error.strerror}; wanted a file to write for the database") from error
    engine = sqlalchemy.create_engine(url.set(database=str(path)), connect_args={"timeout": BUSY_TIMEOUT_S})
    event.listen(engine, "connect", _configure)
    event.listen(engine, "begin", _begin)
    return engine


def _configure(connection: Any, _: object) -> None:
    connection.isolation_level = None  # sqlite3 must not begin transactions; _begin does
    for pragma in (
        "journal_mode=WAL",
        "synchronous=NORMAL",
        "foreign_keys=ON",
        f"busy_timeout={int(BUSY_TIMEOUT_S * 1000)}",
    ):
        connection.execute(f"PRAGMA {pragma}")


def _begin(connection: Connection) -> None:
    writes = connection.get_execution_options().get("qverify_writes", False)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")


def _take_ownership(engine: Engine, name: str) -> Owner:
    """Takes the owner's lock. Waits if another process is migrating the database."""
    deadline = time.monotonic() + MIGRATION_WAIT_S
    while True:
        try:
            return _take_lock(engine, name)
        except OwnedError as error:
            if not error.holder.startswith(MIGRATION_OWNER) or time.monotonic() >= deadline:
                raise
        time.sleep(0.1)


def _take_lock(engine: Engine, name: str) -> Owner:
    if engine.dialect.name == "sqlite":
        return SqliteOwner(Path(str(engine.url.database)), name)
    return PostgresOwner(engine, name)


def revision_of(engine: Engine) -> str:
    """Returns the revision of the database's schema, or "" for an empty database."""
    if not sqlalchemy.inspect(engine).has_table("alembic_version"):
        return ""
    with engine.connect() as connection:
        return str(connection.exec_driver_sql("SELECT version_num FROM alembic_version").scalar() or "")


def _bring_up_to_date(engine: Engine, owner_lock: Owner | None) -> None:
    """Runs the missing migrations while holding the owner's lock. If another process holds it, waits for that process to
    migrate, and raises OwnedError if it does not do so in time."""
    deadline = time.monotonic() + MIGRATION_WAIT_S
    while revision_of(engine) != SCHEMA_REVISION:
        try:
            migration_lock = owner_lock or _take_ownership(engine, MIGRATION_OWNER)
        except OwnedError:
            if time.monotonic() >= deadline:
                raise
            time.sleep(0.1)
            continue
        try:
            migrate(engine)
        finally:
            if owner_lock is None:
                migration_lock.close()


def migrate(engine: Engine, revision: str = "head") -> None:
    """Migrates the schema to a revision in one transaction. Raises NewerSchemaError if this version does not know the present
    revision."""
    from alembic import command

    config, revision_found = _migrations(), revision_of(engine)
    if revision_found and revision_found not in known_revisions():
        raise NewerSchemaError(
            f"{url_without_password(engine.url)}: its schema is {revision_found}, and this version of qverify knows "
            f"{SCHEMA_REVISION} at most. Next: use the later version that wrote it, or restore a backup"
        )
    with _migration_connection(engine) as connection, connection.begin():
        config.attributes["connection"] = connection
        command.upgrade(config, revision)
        if engine.dialect.name == "sqlite" and (broken := connection.exec_driver_sql("PRAGMA foreign_key_check").all()):
            raise DatabaseError(f"{engine.url.database}: rows that refer to nothing: {broken[0][0]}, {broken[0][2]}")


def known_revisions() -> set[str]:
    """Returns the schema revisions that this version knows."""
    from alembic.script import ScriptDirectory

    return {script.revision for script in ScriptDirectory.from_config(_migrations()).walk_revisions()}


def _migrations() -> Config:
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent / "migrations").replace("%", "%%"))
    config.set_main_option("path_separator", "os")
    return config


@contextlib.contextmanager
def scratch_database(folder: Path, revision: str) -> Iterator[Engine]:
    """Yields an empty SQLite database with the schema of a revision, in this folder."""
    engine = _sqlite(sqlalchemy.make_url(f"sqlite:///{folder / 'scratch.db'}"))
    try:
        migrate(engine, revision)
        yield engine
    finally:
        engine.dispose()


def missing_file(url: str = "") -> str:
    """Returns the path of the SQLite file if it does not exist, otherwise "". For other databases it returns ""."""
    engine_url = url or default_url()
    path = engine_url.removeprefix("sqlite:///")
    return path if ("://" not in path) and not Path(path).exists() else ""


@contextlib.contextmanager
def _migration_connection(engine: Engine) -> Iterator[Connection]:
    """Yields a connection for a migration. With SQLite, which copies a table to change it, foreign keys are off during the
    migration."""
    with engine.execution_options(qverify_writes=True).connect() as connection:
        if engine.dialect.name == "sqlite":
            _pragma(connection, "foreign_keys=OFF")
        try:
            yield connection
        finally:
            if engine.dialect.name == "sqlite":
                _pragma(connection, "foreign_keys=ON")


def _pragma(connection: Connection, setting: str) -> None:
    dbapi_connection: Any = connection.connection.dbapi_connection  # SQLAlchemy would begin a transaction first
    dbapi_connection.execute(f"PRAGMA {setting}")


def _reason(error: SQLAlchemyError) -> str:
    """Returns the database driver's message as one line, without the SQL statement."""
    cause = getattr(error, "orig", None) or error
    return " ".join(str(cause).split())[:300]
