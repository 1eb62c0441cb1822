"""Submits a suite, runs it until it ends, and returns its report: the work of `suite run`, `resume` and `bisect`."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator, Mapping

import click
from qverify.cli.interrupts import stop_repeating
from qverify.cli.live_progress import progress_bars
from qverify.cli.say_line import say
from qverify.errors import UsageError
from qverify.plural import count
from qverify.printable import printable
from qverify_agents.this_user import user_name

from qverify_farm.cli.suite_boards import Tls, engine_at, fitting_boards, read_here, read_with_workers
from qverify_farm.dispatcher import Dispatcher
from qverify_farm.engines.engine import JobEngine
from qverify_farm.engines.group import engine_here
from qverify_farm.engines.reached_boards import reached_boards
from qverify_farm.scheduling.board_filter import BoardFilter
from qverify_farm.store.artifact_rows import keep_artifact
from qverify_farm.store.artifacts import ArtifactStore
from qverify_farm.store.boards import all_boards
from qverify_farm.store.database import Database, open_database
from qverify_farm.store.database_artifacts import open_database_artifacts
from qverify_farm.store.jobs import jobs_of as rows_of
from qverify_farm.store.jobs import requeue_abandoned
from qverify_farm.store.runs import (
    NewRun,
    counts_of,
    ensure_project,
    find_run,
    find_unfinished_run,
    reopen_run,
    submit_run,
)
from qverify_farm.store.states import CANCELLED, DONE, QUEUED, RUNNING, TIMED_OUT
from qverify_farm.store.tables import SuiteRunRecord
from qverify_farm.suites.board_waits import lines_of_run
from qverify_farm.suites.board_words import is_address
from qverify_farm.suites.expand import definition_of, jobs_of, store_files
from qverify_farm.suites.suite_report import SuiteReport
from qverify_farm.suites.summary import summarize

POLL_S = 0.5  # longest time between looks at a run
MIN_PAUSE_S = 0.1  # shortest time between looks at a run
CLOSE_S = 15.0


@contextlib.contextmanager
def opened_database(url: str, owner: str = "") -> Iterator[Database]:
    """Yields the opened database, and closes it at the end."""
    database = open_database(url, owner)
    try:
        yield database
    finally:
        database.close()


def run_suite(
    path: str,
    database_url: str,
    artifacts_url: str,
    labels: Mapping[str, str],
    workers: str | None,
    tls: Tls,
    quiet: bool = False,
) -> SuiteReport:
    """Runs a suite from its file and returns its report. If it was interrupted, the report's state is "running". quiet:
    whether nothing is printed."""
    engine: JobEngine | None = engine_at(workers, tls) if workers is not None else None
    try:
        suite, _, boards = read_here(path) if engine is None else read_with_workers(path, engine)
        with opened_database(database_url, "qverify suite run") as database:
            artifacts = open_database_artifacts(database, artifacts_url)
            digests = store_files(suite, artifacts)
            jobs = jobs_of(suite, {name: board.tags for name, board in boards.items()}, digests)
            with database.write() as session:
                project = ensure_project(session).id
                for job_path, (sha256, size) in digests.items():
                    keep_artifact(session, project, sha256, size, time.time(), name=job_path)
                new_run = NewRun(
                    project,
                    suite.name,
                    user_name(),
                    definition_of(suite, digests),
                    {**suite.labels, **labels},
                    priority=suite.priority,
                )
                run = submit_run(session, new_run, jobs).id
            if not quiet:
                say(f"run {run[:12]}: {count(len(jobs), 'job')} on {count(len(boards), 'board')}", err=True)
            engine = engine or engine_here(boards)
            return work_on(database, artifacts, engine, run, len(jobs), quiet)
    finally:
        if engine is not None:
            engine.close()


def resume_run(text: str, database_url: str, artifacts_url: str, workers: str | None, tls: Tls) -> SuiteReport:
    """Runs the unfinished jobs of a run and returns its report."""
    engine: JobEngine | None = engine_at(workers, tls) if workers is not None else None
    try:
        with opened_database(database_url, "qverify suite resume") as database:
            artifacts = open_database_artifacts(database, artifacts_url)
            with database.write() as session:
                requeue_abandoned(session, time.time())
                run = find_run(session, text) if text else find_unfinished_run(session)
                cancelled_why = (run.why or "no reason given") if run.state == CANCELLED else ""
                reopened, run.started = reopen_run(session, run), None
                wanted = [tuple(map(str, job.wanted)) for job in rows_of(session, run.id) if job.state == QUEUED]
                total = sum(counts_of(session, run.id).get(state, 0) for state in (QUEUED, RUNNING, DONE, CANCELLED))
            note = f"; it was cancelled ({cancelled_why}), they run again" if cancelled_why and reopened else ""
            name = "" if text else f" ({printable(run.name)})"
            say(f"run {run.id[:12]}{name}: {reopened} of {count(total, 'job')} left{note}", err=True)
            if not reopened:
                return report_of(database, run.id)
            if engine is None:
                words = {word for words in wanted for word in words}
                boards = fitting_boards(reached_boards(None, sorted(w for w in words if is_address(w))), wanted)
                for missing in (
                    job_words
                    for job_words in wanted
                    if not any(BoardFilter.of(job_words).fits(n, b.tags) for n, b in boards.items())
                ):
                    raise UsageError(
                        f"run {run.id[:12]}: no board fits {', '.join(missing)}; is it still in boards.toml?"
                    )
                engine = engine_here(boards)
            return work_on(database, artifacts, engine, run.id, total)
    finally:
        if engine is not None:
            engine.close()


def work_on(
    database: Database, artifacts: ArtifactStore, engine: JobEngine, run: str, total: int, quiet: bool = False
) -> SuiteReport:
    """Works on a run until it ends, with a progress line on a terminal, and returns its report. After Ctrl-C the running jobs are
    ended, finished jobs keep their results, and the report's state is "running". quiet: whether nothing is printed."""
    changed = threading.Event()
    dispatcher = Dispatcher(database, engine, artifacts, runs=[run], on_change=changed.set)
    try:
        with contextlib.nullcontext() if quiet else progress_bars() as watch:
            dispatcher.start()
            last_reason = ""
            while not _has_ended(database, run):
                changed.wait(POLL_S)
                time.sleep(MIN_PAUSE_S)
                changed.clear()
                if dispatcher.failure is not None:
                    raise dispatcher.failure
                last_reason = "" if quiet else _say_why_waiting(dispatcher, last_reason, database, run)
                if watch is not None:
                    with database.read() as session:
                        counts = counts_of(session, run)
                    watch(_describe_counts(counts), counts.get(DONE, 0) + counts.get(CANCELLED, 0), total)
    except KeyboardInterrupt:
        stop_repeating()
    finally:
        _close_uninterrupted(dispatcher)
    return report_of(database, run)


def _say_why_waiting(dispatcher: Dispatcher, last_reason: str, database: Database, run: str) -> str:
    """Prints why jobs wait, unless they only wait for busy boards or the reason was printed last time. Returns the reason, or
    ""."""
    health = dispatcher.health()
    why = f"jobs wait: {health.store}" if health.store else ""
    why = why or (f"the database cannot be reached: {health.database}" if health.database else "")
    if not why and health.unserved:
        with database.read() as session:
            record = session.get_one(SuiteRunRecord, run)
            lines = lines_of_run(record, rows_of(session, run), all_boards(session))
        why = "; ".join(map(printable, lines)) or f"{count(health.unserved, 'job')} wait: no board that fits is usable"
    if why and why != last_reason:
        say(f"qverify: {why}", err=True)
    return why


def _describe_counts(counts: Mapping[str, int]) -> str:
    bad = ", ".join(f"{counts[name]} {name}" for name in ("FAILED", "INCONCLUSIVE") if counts.get(name))
    return f"jobs{f' ({bad})' if bad else ''}"


def _close_uninterrupted(dispatcher: Dispatcher) -> None:
    """Closes the dispatcher, even if Ctrl-C is pressed in the meantime."""
    thread = threading.Thread(target=dispatcher.close, args=(CLOSE_S,), name="farm-close")
    thread.start()
    while thread.is_alive():
        try:
            thread.join(0.1)
        except KeyboardInterrupt:
            stop_repeating()


def _has_ended(database: Database, run: str) -> bool:
    with database.read() as session:
        return session.get_one(SuiteRunRecord, run).verdict is not None


def report_of(database: Database, run: str) -> SuiteReport:
    """Returns the report of the run with this id."""
    with database.read() as session:
        return summarize(session, session.get_one(SuiteRunRecord, run))


def say_unfinished(report: SuiteReport) -> None:
    """Prints how to continue a run that has not ended."""
    click.echo(f"qverify: if nothing works on it any more: qverify suite resume {report.id[:12]}", err=True)


def say_timed_out(report: SuiteReport) -> None:
    """Prints how to run the rest of a run, if the time of its suite ran out."""
    if report.state == CANCELLED and report.why.startswith(TIMED_OUT):
        say(f"qverify: {report.why}. Next: qverify suite resume {report.id[:12]}", err=True)


def say_interrupted(report: SuiteReport) -> None:
    """Prints what is kept of an interrupted run, and how to continue it."""
    done = report.counts[DONE]
    click.echo(
        f"qverify: {done} of {count(len(report.jobs), 'job')} are done and kept. "
        f"Next: qverify suite resume {report.id[:12]}",
        err=True,
    )
