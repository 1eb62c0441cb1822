"""A PostgreSQL server for the tests: Debian's, in a folder of its own, on a Unix socket alone."""

from __future__ import annotations

import contextlib
import os
import pwd
import shutil
import subprocess
import tempfile
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import sqlalchemy

PROGRAMS = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
SETTINGS = ("listen_addresses=", "fsync=off", "shared_buffers=16MB", "max_connections=60")


@dataclass(frozen=True)
class Server:
    folder: Path

    def url(self, name: str) -> str:
        return f"postgresql://tester@/{name}?host={self.folder}"

    def execute(self, statement: str) -> None:
        url = sqlalchemy.make_url(self.url("postgres")).set(drivername="postgresql+psycopg")
        engine = sqlalchemy.create_engine(url, isolation_level="AUTOCOMMIT", poolclass=sqlalchemy.NullPool)
        with engine.connect() as connection:
            connection.exec_driver_sql(statement)

    @contextlib.contextmanager
    def database(self, template: str = "template1") -> Iterator[str]:
        """Yields the URL of a new database, a copy of the template."""
        name = f"farm_{uuid.uuid4().hex[:12]}"
        self.execute(f"CREATE DATABASE {name} TEMPLATE {template}")
        yield self.url(name)
        self.execute(f"DROP DATABASE {name} WITH (FORCE)")


@contextlib.contextmanager
def running() -> Iterator[Server]:
    programs = PROGRAMS[-1].parent
    folder = Path(tempfile.mkdtemp(prefix="qv-pg-", dir="/tmp"))
    other: dict[str, Any] = {}
    if os.getuid() == 0:  # which PostgreSQL refuses
        user = pwd.getpwnam("postgres")
        os.chown(folder, user.pw_uid, user.pw_gid)
        other = {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}
    data = str(folder / "data")

    def run(*words: str) -> None:
        done = subprocess.run(words, cwd=folder, capture_output=True, text=True, timeout=60, check=False, **other)
        assert done.returncode == 0, done.stderr + (folder / "log").read_text()

    try:
        (folder / "log").touch()
        (folder / "log").chmod(0o666)
        run(str(programs / "initdb"), "-D", data, "-U", "tester", "-A", "trust", "--no-sync", "-E", "UTF8")
        settings = " ".join(f"-c {one}" for one in (*SETTINGS, f"unix_socket_directories={folder}"))
        control = (str(programs / "pg_ctl"), "-D", data, "-l", str(folder / "log"), "-w")
        run(*control, "-o", settings, "start")
        try:
            yield Server(folder)
        finally:
            run(*control, "-m", "immediate", "stop")
    finally:
        shutil.rmtree(folder, ignore_errors=True)
