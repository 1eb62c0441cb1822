"""The boards that a suite may use: those of this host's inventory and by address, or those of workers behind a scheduler."""

from __future__ import annotations

import time
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from qverify.errors import UsageError

from qverify_farm.engines.engine import JobEngine, ReachedBoard
from qverify_farm.engines.open_engine import open_engine
from qverify_farm.engines.reached_boards import reached_boards
from qverify_farm.errors import SuiteError
from qverify_farm.scheduling.board_filter import BoardFilter
from qverify_farm.store.runs import NewJob
from qverify_farm.suites.board_words import BoardTags, is_address, why_wrong
from qverify_farm.suites.expand import jobs_of
from qverify_farm.suites.suite import Suite
from qverify_farm.suites.suite_file import read_suite

WORKERS_WAIT_S = 30.0  # longest wait for the workers that reach a suite's boards
WORKERS_POLL_S = 0.5
Tls = tuple[str | None, str | None, str | None]


def tags_of_boards(boards: Mapping[str, ReachedBoard]) -> BoardTags:
    return {name: board.tags for name, board in boards.items()}


def boards_here(path: str) -> dict[str, ReachedBoard]:
    """Returns the boards of this host's inventory, and those to which suite.toml refers by a correct address; read_suite reports
    the others."""
    return reached_boards(None, sorted(address for address in _addresses(path) if not why_wrong(address)))


def _addresses(path: str) -> set[str]:
    """Returns the addresses among the words of `boards`. Returns none if the file cannot be read; read_suite reports why."""
    try:
        written = tomllib.loads(Path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return set()
    models = written.get("models")
    tables = [written, *(entry for entry in (models if isinstance(models, list) else []) if isinstance(entry, dict))]
    return {word for table in tables for word in _texts(table.get("boards")) if is_address(word)}


def _texts(value: Any) -> list[str]:
    words = value if isinstance(value, list) else [value]
    return [word for word in words if isinstance(word, str)]


def read_here(path: str) -> tuple[Suite, list[NewJob], dict[str, ReachedBoard]]:
    """Returns the suite, its jobs (without digests), and the boards of this host that fit them."""
    boards = boards_here(path)
    suite = read_suite(path, tags_of_boards(boards))
    jobs = jobs_of(suite, tags_of_boards(boards))
    return suite, jobs, fitting_boards(boards, (job.wanted for job in jobs))


def fitting_boards(boards: Mapping[str, ReachedBoard], wanted: Iterable[tuple[str, ...]]) -> dict[str, ReachedBoard]:
    """Returns the boards that fit at least one job. wanted: the words for boards of each job."""
    filters = [BoardFilter.of(words) for words in set(wanted)]
    return {
        name: board
        for name, board in boards.items()
        if any(board_filter.fits(name, board.tags) for board_filter in filters)
    }


def read_with_workers(path: str, engine: JobEngine) -> tuple[Suite, list[NewJob], dict[str, ReachedBoard]]:
    """Returns the suite, its jobs (without digests), and the boards of the engine's workers. Waits for workers while boards are
    missing."""
    deadline = time.monotonic() + WORKERS_WAIT_S
    while True:
        boards = dict(engine.boards())
        try:
            suite = read_suite(path, tags_of_boards(boards))
            return suite, jobs_of(suite, tags_of_boards(boards)), boards
        except SuiteError as error:
            if time.monotonic() >= deadline or not all("boards:" in line for line in error.lines):
                raise
        time.sleep(WORKERS_POLL_S)


def engine_at(workers: str, tls: Tls) -> JobEngine:
    """Returns the engine for the workers behind this scheduler."""
    if not workers:
        raise UsageError("an empty --workers (an unset shell variable?)")
    return open_engine(workers, tls)
