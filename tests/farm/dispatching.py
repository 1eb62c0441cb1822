"""Helpers that submit runs to a dispatcher over a scripted engine, and read their rows from the database."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

from qverify_farm.dispatcher import Dispatcher
from qverify_farm.store.artifacts import ArtifactStore
from qverify_farm.store.database import Database
from qverify_farm.store.jobs import attempts_of, jobs_of
from qverify_farm.store.runs import NewJob, NewRun, ensure_project, submit_run
from qverify_farm.store.tables import AttemptRecord, BoardRecord, JobRecord, SuiteRunRecord

from tests.farm.scripted_engine import ScriptedEngine

J5 = {f"j5-{n}": {"soc": "j5"} for n in range(3)}


def submit(
    database: Database,
    wanted: Sequence[str] = ("soc=j5",) * 6,
    retries: int = 0,
    submitter: str = "ann",
    **definition: Any,
) -> str:
    """Submits a run with a job for each entry of `wanted`, and returns the run's id."""
    files = {"m.onnx": ["0" * 64, 1], "in/a.npy": ["1" * 64, 2], "in/b.npy": ["2" * 64, 3], "x.npy": ["3" * 64, 3]}
    settings = {
        "models": ["m.onnx"],
        "inputs": "in",
        "files": ["m.onnx", "in/"],
        "options": {"seed": 1},
        "timeout_s": 5,
    }
    with database.write() as session:
        project = ensure_project(session)
        new_run = NewRun(project.id, "nightly", submitter, {"name": "nightly", "files": files, **definition})
        jobs = [NewJob(f"m in {words} {n}", "m", (words,), settings, retries) for n, words in enumerate(wanted)]
        return submit_run(session, new_run, jobs).id


def jobs(database: Database, run: str) -> list[JobRecord]:
    with database.read() as session:
        return jobs_of(session, run)


def attempts(database: Database, run: str) -> list[AttemptRecord]:
    with database.read() as session:
        return attempts_of(session, run)


def the_run(database: Database, run: str) -> SuiteRunRecord:
    with database.read() as session:
        return session.get_one(SuiteRunRecord, run)


def board(database: Database, name: str) -> BoardRecord:
    with database.read() as session:
        return session.get_one(BoardRecord, name)


class Working:
    """A dispatcher that works on all runs until a condition is true."""

    def __init__(self, database: Database, engine: ScriptedEngine, artifacts: ArtifactStore, **options: Any):
        self.dispatcher, self._database = Dispatcher(database, engine, artifacts, **options), database

    def until(self, condition: Callable[[], bool]) -> Dispatcher:
        end = time.monotonic() + 20

        def done() -> bool:
            assert time.monotonic() < end, "it takes too long"
            return condition()

        self.dispatcher.run(done)
        return self.dispatcher

    def until_ended(self, *runs: str) -> Dispatcher:
        return self.until(lambda: not any(self.dispatcher.unfinished(run) for run in runs))
