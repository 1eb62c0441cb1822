"""Submits a suite, works on it until it ends, and says how it ended: what suite run, resume and bisect do."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator, Mapping

import click
from qverify.cli.live_progress import progress_bars
from qverify.cli.say_line import say
from qverify.errors import UsageError
from qverify.plural import count
from qverify_agents.this_user import user_name

from qverify_farm.cli.suite_boards import Tls, engine_at, read_here, read_with_workers, used
from qverify_farm.dispatcher import Dispatcher
from qverify_farm.engines.engine import JobEngine
from qverify_farm.engines.group import engine_here
from qverify_farm.engines.reached_boards import reached_boards
from qverify_farm.scheduling.board_filter import BoardFilter
from qverify_farm.store.artifact_rows import keep_artifact
from qverify_farm.store.artifacts import Artifacts, open_artifacts
from qverify_farm.store.database import Database, open_database
from qverify_farm.store.jobs import jobs_of as rows_of
from qverify_farm.store.jobs import queue_dead
from qverify_farm.store.runs import NewRun, counts_of, ensure_project, find_run, reopen_run, submit_run
from qverify_farm.store.states import CANCELLED, DONE, QUEUED, RUNNING
from qverify_farm.store.tables import SuiteRun
from qverify_farm.suites.board_words import is_address
from qverify_farm.suites.expand import definition_of, jobs_of, take_in
from qverify_farm.suites.suite_report import SuiteReport
from qverify_farm.suites.summary import summarize

LOOK_S, PAUSE_S = 0.5, 0.1  # until it looks again though nothing was told; between two looks
CLOSE_S = 15.0


@contextlib.contextmanager
def opened(url: str, owner: str = "") -> Iterator[Database]:
    """Yields the database; closed at the end."""
    database = open_database(url, owner)
    try:
        yield database
    finally:
        database.close()


def run_suite(
    path: str, database_url: str, artifacts_url: str, labels: Mapping[str, str], workers: str | None, tls: Tls
) -> SuiteReport:
    """Runs a suite from its file; returns its report, also where it was interrupted (its state is then running)."""
    engine: JobEngine | None = engine_at(workers, tls) if workers is not None else None
    try:
        suite, _, boards = read_here(path) if engine is None else read_with_workers(path, engine)
        with opened(database_url, "qverify suite run") as database:
            artifacts = open_artifacts(artifacts_url)
            digests = take_in(suite, artifacts)
            jobs = jobs_of(suite, {name: board.tags for name, board in boards.items()}, digests)
            with database.write() as session:
                project = ensure_project(session).id
                for path_seen, (sha256, size) in digests.items():
                    keep_artifact(session, project, sha256, size, time.time(), name=path_seen)
                new = NewRun(
                    project,
                    suite.name,
                    user_name(),
                    definition_of(suite, digests),
                    {**suite.labels, **labels},
                    priority=suite.priority,
                )
                run = submit_run(session, new, jobs).id
            say(f"run {run[:12]}: {count(len(jobs), 'job')} on {count(len(boards), 'board')}", err=True)
            engine = engine or engine_here(boards)
            return work_on(database, artifacts, engine, run, len(jobs))
    finally:
        if engine is not None:
            engine.close()


def resume_run(text: str, database_url: str, artifacts_url: str, workers: str | None, tls: Tls) -> SuiteReport:
    """Runs what of a run is not done; returns its report."""
    engine: JobEngine | None = engine_at(workers, tls) if workers is not None else None
    try:
        with opened(database_url, "qverify suite resume") as database:
            artifacts = open_artifacts(artifacts_url)
            with database.write() as session:
                queue_dead(session, time.time())
                run = find_run(session, text)
                left, run.started = reopen_run(session, run), None
                wanted = [tuple(map(str, job.wanted)) for job in rows_of(session, run.id) if job.state == QUEUED]
                total = sum(counts_of(session, run.id).get(state, 0) for state in (QUEUED, RUNNING, DONE, CANCELLED))
            say(f"run {run.id[:12]}: {left} of {count(total, 'job')} left", err=True)
            if not left:
                return report_of(database, run.id)
            if engine is None:
                words = {word for words in wanted for word in words}
                boards = used(reached_boards(None, sorted(w for w in words if is_address(w))), wanted)
                for missing in (
                    one for one in wanted if not any(BoardFilter.of(one).fits(n, b.tags) for n, b in boards.items())
                ):
                    raise UsageError(
                        f"run {run.id[:12]}: no board fits {', '.join(missing)}; is it still in boards.toml?"
                    )
                engine = engine_here(boards)
            return work_on(database, artifacts, engine, run.id, total)
    finally:
        if engine is not None:
            engine.close()


def work_on(database: Database, artifacts: Artifacts, engine: JobEngine, run: str, total: int) -> SuiteReport:
    """Works on a run until it ends, with a line of progress on a terminal, and returns its report. Ctrl-C ends what runs and
    keeps what is done: the report's state is then running."""
    changed = threading.Event()
    dispatcher = Dispatcher(database, engine, artifacts, runs=[run], on_change=changed.set)
    try:
        with progress_bars() as watch:
            dispatcher.start()
            told = ""
            while not _has_ended(database, run):
                changed.wait(LOOK_S)
                time.sleep(PAUSE_S)
                changed.clear()
                if dispatcher.failure is not None:
                    raise dispatcher.failure
                told = _tell_why_waiting(dispatcher, told)
                if watch is not None:
                    with database.read() as session:
                        counts = counts_of(session, run)
                    watch(_about(counts), counts.get(DONE, 0) + counts.get(CANCELLED, 0), total)
    except KeyboardInterrupt:
        pass
    finally:
        _close(dispatcher)
    return report_of(database, run)


def _tell_why_waiting(dispatcher: Dispatcher, told: str) -> str:
    """Says once why jobs wait for something that is not a board in use; returns what was said last."""
    health = dispatcher.health()
    why = "the artifact store is full; jobs wait for room" if health.full else ""
    why = why or (f"the database cannot be reached: {health.database}" if health.database else "")
    why = why or (f"{count(health.unserved, 'job')} wait: no board that fits is usable" if health.unserved else "")
    if why and why != told:
        say(f"qverify: {why}", err=True)
    return why


def _about(counts: Mapping[str, int]) -> str:
    bad = ", ".join(f"{counts[name]} {name}" for name in ("FAILED", "INCONCLUSIVE") if counts.get(name))
    return f"jobs{f' ({bad})' if bad else ''}"


def _close(dispatcher: Dispatcher) -> None:
    """Closes it, however often Ctrl-C is pressed meanwhile."""
    thread = threading.Thread(target=dispatcher.close, args=(CLOSE_S,), name="farm-close")
    thread.start()
    while thread.is_alive():
        with contextlib.suppress(KeyboardInterrupt):
            thread.join(0.1)


def _has_ended(database: Database, run: str) -> bool:
    with database.read() as session:
        return session.get_one(SuiteRun, run).verdict is not None


def report_of(database: Database, run: str) -> SuiteReport:
    """Returns the report of a run of this id."""
    with database.read() as session:
        return summarize(session, session.get_one(SuiteRun, run))


def tell_interrupted(report: SuiteReport) -> None:
    """Says what is kept of an interrupted run, and how to go on."""
    done = report.counts[DONE]
    click.echo(
        f"qverify: {done} of {count(len(report.jobs), 'job')} are done and kept. "
        f"Next: qverify suite resume {report.id[:12]}",
        err=True,
    )
