"""The farm's database: SQLite in a file, or PostgreSQL by its URL; brought to this version's schema when it is opened."""

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
from qverify_farm.store.owner import Owner, PostgresOwner, SqliteOwner, shown

if TYPE_CHECKING:
    from alembic.config import Config

SCHEMA = "0002"  # the newest revision of migrations/versions
MIGRATION = "a migration of the schema"
MIGRATION_S = 10.0  # how long who only looks waits for the owner's migration
BUSY_S = 30.0  # how long a connection waits for another one's transaction


class Database:
    """An open database. read() and write() give sessions; use each in one thread only. url: without a password."""

    def __init__(self, engine: Engine, owner: Owner | None):
        self._reads, self._owner = engine, owner
        self._writes = engine.execution_options(qverify_writes=True)
        self.url = shown(engine.url)
        self.dialect = engine.dialect.name  # sqlite or postgresql

    @contextlib.contextmanager
    def read(self) -> Iterator[Session]:
        """Yields a session that sees one state of SQLite, or of PostgreSQL what is committed at each statement; it changes nothing."""
        with Session(self._reads, expire_on_commit=False) as session:
            yield session

    @contextlib.contextmanager
    def write(self) -> Iterator[Session]:
        """Yields a session of one transaction: all of it is kept after the block, nothing after an exception. In SQLite
        it waits for other writers at its beginning, so that it never fails half-way."""
        with Session(self._writes, expire_on_commit=False) as session, session.begin():
            yield session

    def check_owned(self) -> None:
        """Takes the owner's lock again where a broken connection lost it. OwnedError where another process has it by now:
        the caller must stop. Nothing for a database that was opened without an owner."""
        if self._owner is not None:
            self._owner.keep()

    def close(self) -> None:
        """Closes the connections and gives up the owner's lock."""
        self._reads.dispose()
        if self._owner is not None:
            self._owner.close()


def open_database(url: str = "", owner: str = "") -> Database:
    """Returns the database at a URL (postgresql://USER@HOST/NAME; a file's path or sqlite:///FILE), by default farm.db in
    the state folder, made where it is missing and migrated where it is older. owner: name of the process that dispatches
    its jobs; one at a time, so that OwnedError tells a second one who has it. "" opens it beside an owner.
    DatabaseError where it cannot be used, NewerSchemaError where a later version has written it."""
    engine = _engine(url)
    held: Owner | None = None
    try:
        held = _owner(engine, owner) if owner else None
        _bring_up_to_date(engine, held)
        return Database(engine, held)
    except BaseException as error:
        engine.dispose()
        if held is not None:
            held.close()
        if isinstance(error, SQLAlchemyError):
            where = shown(engine.url)
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
    path = Path(url.database).absolute()
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))  # else its files would be for all to read
    except OSError as error:
        raise DatabaseError(f"{path}: {error.strerror}; wanted a file to write for the database") from error
    engine = sqlalchemy.create_engine(url.set(database=str(path)), connect_args={"timeout": BUSY_S})
    event.listen(engine, "connect", _configure)
    event.listen(engine, "begin", _begin)
    return engine


def _configure(connection: Any, _: object) -> None:
    connection.isolation_level = None  # sqlite3 begins no transaction of its own; _begin does
    for pragma in ("journal_mode=WAL", "synchronous=NORMAL", "foreign_keys=ON", f"busy_timeout={int(BUSY_S * 1000)}"):
        connection.execute(f"PRAGMA {pragma}")


def _begin(connection: Connection) -> None:
    writes = connection.get_execution_options().get("qverify_writes", False)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")


def _owner(engine: Engine, name: str) -> Owner:
    """Takes the owner's lock; a migration of another process is waited for."""
    end = time.monotonic() + MIGRATION_S
    while True:
        try:
            return _take_lock(engine, name)
        except OwnedError as error:
            if not error.holder.startswith(MIGRATION) or time.monotonic() >= end:
                raise
        time.sleep(0.1)


def _take_lock(engine: Engine, name: str) -> Owner:
    if engine.dialect.name == "sqlite":
        return SqliteOwner(Path(str(engine.url.database)), name)
    return PostgresOwner(engine, name)


def revision_of(engine: Engine) -> str:
    """Returns the revision of the database's schema, "" for an empty database."""
    if not sqlalchemy.inspect(engine).has_table("alembic_version"):
        return ""
    with engine.connect() as connection:
        return str(connection.exec_driver_sql("SELECT version_num FROM alembic_version").scalar() or "")


def _bring_up_to_date(engine: Engine, held: Owner | None) -> None:
    """Runs the migrations that are missing, as the owner. Of two that open an old database at once, one waits for the
    other; a database that its owner leaves as it is, is refused."""
    end = time.monotonic() + MIGRATION_S
    while revision_of(engine) != SCHEMA:
        try:
            mine = held or _owner(engine, MIGRATION)
        except OwnedError:
            if time.monotonic() >= end:
                raise
            time.sleep(0.1)
            continue
        try:
            migrate(engine)
        finally:
            if held is None:
                mine.close()


def migrate(engine: Engine, revision: str = "head") -> None:
    """Brings the schema to a revision, in one transaction. NewerSchemaError for one that this version does not know."""
    from alembic import command

    config, found = _migrations(), revision_of(engine)
    if found and found not in known_revisions():
        raise NewerSchemaError(
            f"{shown(engine.url)}: its schema is {found}, and this version of qverify knows "
            f"{SCHEMA} at most. Next: use the later version that wrote it, or restore a backup"
        )
    with _unreferenced(engine) as connection, connection.begin():
        config.attributes["connection"] = connection
        command.upgrade(config, revision)
        if engine.dialect.name == "sqlite" and (broken := connection.exec_driver_sql("PRAGMA foreign_key_check").all()):
            raise DatabaseError(f"{engine.url.database}: rows that refer to nothing: {broken[0][0]}, {broken[0][2]}")


def known_revisions() -> set[str]:
    """Returns the revisions of the schema that this version can migrate from, its own included."""
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
    """Yields an empty SQLite database of an earlier schema, in a folder of its own."""
    engine = _sqlite(sqlalchemy.make_url(f"sqlite:///{folder / 'scratch.db'}"))
    try:
        migrate(engine, revision)
        yield engine
    finally:
        engine.dispose()


def is_missing(url: str = "") -> str:
    """Returns the path of an SQLite file that is not there; "" for one that is, and for any other database."""
    engine_url = url or default_url()
    path = engine_url.removeprefix("sqlite:///")
    return path if ("://" not in path) and not Path(path).exists() else ""


@contextlib.contextmanager
def _unreferenced(engine: Engine) -> Iterator[Connection]:
    """Yields a connection to migrate with: SQLite, which copies a table to change it, checks references at the end."""
    with engine.execution_options(qverify_writes=True).connect() as connection:
        if engine.dialect.name == "sqlite":
            _pragma(connection, "foreign_keys=OFF")
        try:
            yield connection
        finally:
            if engine.dialect.name == "sqlite":
                _pragma(connection, "foreign_keys=ON")


def _pragma(connection: Connection, setting: str) -> None:
    raw: Any = connection.connection.dbapi_connection  # SQLAlchemy would begin a transaction first
    raw.execute(f"PRAGMA {setting}")


def _reason(error: SQLAlchemyError) -> str:
    """Returns the driver's own words, one line, without statements."""
    cause = getattr(error, "orig", None) or error
    return " ".join(str(cause).split())[:300]
