"""Fixtures with databases of both kinds, so that tests run over each."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from qverify_farm.dispatcher import dispatcher
from qverify_farm.store.artifacts import ArtifactStore, open_artifacts
from qverify_farm.store.database import Database, open_database

from tests.farm import postgres
from tests.farm.dispatching import Working
from tests.farm.scripted_engine import ScriptedEngine

if TYPE_CHECKING:
    from tests.farm.service_app import Service


@pytest.fixture(scope="session", autouse=True)
def own_state(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("XDG_STATE_HOME", str(tmp_path_factory.mktemp("state")))
        yield


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[postgres.Server]:
    if not postgres.PROGRAMS:
        pytest.skip("PostgreSQL is not on this machine (Debian: postgresql)")
    with postgres.running() as server:
        yield server


@pytest.fixture(scope="session")
def migrated(postgres_server: postgres.Server) -> str:
    """The name of a PostgreSQL database with the newest schema, to be copied."""
    postgres_server.execute("CREATE DATABASE migrated")
    open_database(postgres_server.url("migrated")).close()
    return "migrated"


@pytest.fixture(params=["sqlite", "postgresql"])
def database_url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """The URL of a new database, once for each kind."""
    if request.param == "sqlite":
        yield str(tmp_path / "farm.db")
        return
    server: postgres.Server = request.getfixturevalue("postgres_server")
    with server.database(request.getfixturevalue("migrated")) as url:
        yield url


@pytest.fixture
def database(database_url: str) -> Iterator[Database]:
    opened = open_database(database_url, "a test")
    yield opened
    opened.close()


@pytest.fixture
def artifacts(tmp_path: Path) -> ArtifactStore:
    return open_artifacts(str(tmp_path / "artifacts"))


@pytest.fixture
def quick_polls(monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes dispatchers read the database often."""
    monkeypatch.setattr(dispatcher, "POLL_S", 0.02)


@pytest.fixture
def work(database: Database, artifacts: ArtifactStore, quick_polls: None) -> Iterator[Callable[..., Working]]:
    """A function that starts dispatchers, which are closed after the test."""
    started: list[Working] = []

    def start(engine: ScriptedEngine, **options: Any) -> Working:
        started.append(Working(database, engine, artifacts, **options))
        return started[-1]

    yield start
    for working in started:
        working.dispatcher.close(2.0)


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Service]:
    """A service over an SQLite file."""
    from tests.farm.service_app import serving

    with serving(str(tmp_path / "farm.db"), tmp_path) as service:
        yield service


@pytest.fixture
def any_service(database_url: str, tmp_path: Path) -> Iterator[Service]:
    """A service over a database, once for each kind."""
    from tests.farm.service_app import serving

    with serving(database_url, tmp_path) as service:
        yield service
