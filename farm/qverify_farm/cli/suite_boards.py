"""The boards that a suite may name: of this host's inventory and by address, or of the workers behind a scheduler."""

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
from qverify_farm.suites.board_words import Known, is_address
from qverify_farm.suites.expand import jobs_of
from qverify_farm.suites.suite import Suite
from qverify_farm.suites.suite_file import read_suite

WORKERS_S, AGAIN_S = 30.0, 0.5  # how long workers are waited for, and how often they are asked
Tls = tuple[str | None, str | None, str | None]


def tags_of_boards(boards: Mapping[str, ReachedBoard]) -> Known:
    return {name: board.tags for name, board in boards.items()}


def here(path: str) -> dict[str, ReachedBoard]:
    """Returns the boards of this host's inventory, and those that suite.toml names by address."""
    return reached_boards(None, sorted(_addresses(path)))


def _addresses(path: str) -> set[str]:
    """Returns the addresses among the words of `boards`; of a file that cannot be read, none: read_suite says why."""
    try:
        written = tomllib.loads(Path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return set()
    models = written.get("models")
    tables = [written, *(one for one in (models if isinstance(models, list) else []) if isinstance(one, dict))]
    return {word for table in tables for word in _texts(table.get("boards")) if is_address(word)}


def _texts(value: Any) -> list[str]:
    words = value if isinstance(value, list) else [value]
    return [word for word in words if isinstance(word, str)]


def read_here(path: str) -> tuple[Suite, list[NewJob], dict[str, ReachedBoard]]:
    """Returns the suite, its jobs (without digests), and the boards that it may use of this host."""
    boards = here(path)
    suite = read_suite(path, tags_of_boards(boards))
    jobs = jobs_of(suite, tags_of_boards(boards))
    return suite, jobs, used(boards, (job.wanted for job in jobs))


def used(boards: Mapping[str, ReachedBoard], wanted: Iterable[tuple[str, ...]]) -> dict[str, ReachedBoard]:
    """Returns the boards that one of these jobs fits."""
    kinds = [BoardFilter.of(words) for words in set(wanted)]
    return {name: board for name, board in boards.items() if any(one.fits(name, board.tags) for one in kinds)}


def read_with_workers(path: str, engine: JobEngine) -> tuple[Suite, list[NewJob], dict[str, ReachedBoard]]:
    """Returns the same, with the boards of the engine's workers, which are waited for while some are missing."""
    end = time.monotonic() + WORKERS_S
    while True:
        boards = dict(engine.boards())
        try:
            suite = read_suite(path, tags_of_boards(boards))
            return suite, jobs_of(suite, tags_of_boards(boards)), boards
        except SuiteError as error:
            if time.monotonic() >= end or not all("boards:" in line for line in error.lines):
                raise
        time.sleep(AGAIN_S)


def engine_at(workers: str, tls: Tls) -> JobEngine:
    """Returns the engine of the workers behind this scheduler."""
    if not workers:
        raise UsageError("an empty --workers (an unset shell variable?)")
    return open_engine(workers, tls)
