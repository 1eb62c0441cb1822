"""Shows the jobs of a suite and the runs of a database, cancels a run, and makes a run the baseline."""

from __future__ import annotations

import json
import os
import time
from collections import Counter

import click
from qverify.cli.say_line import say
from qverify.plural import count
from qverify.printable import printable

from qverify_farm.cli.suite_boards import read_here
from qverify_farm.cli.suite_work import opened_database
from qverify_farm.errors import OwnedError
from qverify_farm.scheduling.board_filter import BoardFilter
from qverify_farm.store.jobs import requeue_abandoned
from qverify_farm.store.runs import cancel_run, counts_of, end_run, find_run, list_runs
from qverify_farm.store.states import DONE, RUNNING
from qverify_farm.store.tables import SuiteRunRecord
from qverify_farm.store.verdicts import take_baseline
from qverify_farm.suites.expand import files_of
from qverify_farm.suites.formats.report_lines import format_time
from qverify_farm.suites.formats.text import columns


def show_plan(path: str, as_json: bool) -> None:
    """Prints the jobs of a suite, with the boards that fit each."""
    suite, jobs, boards = read_here(path)
    filters = {words: BoardFilter.of(words) for words in {job.wanted for job in jobs}}
    boards_of = {
        words: sorted(n for n, b in boards.items() if board_filter.fits(n, b.tags))
        for words, board_filter in filters.items()
    }
    rows = [{"name": j.name, "model": j.model, "boards": boards_of[j.wanted], "retries": j.retries} for j in jobs]
    if as_json:
        click.echo(json.dumps({"suite": suite.name, "jobs": rows}, indent=2))
        return
    lines = [(printable(job.name), ", ".join(boards_of[job.wanted])[:60]) for job in jobs]
    for line in columns(("job", "on"), lines):
        click.echo(line)
    files = files_of(suite)
    size = sum(os.path.getsize(file.path) for file in files.values())
    on_one_board = Counter(len(boards_of[job.wanted]) == 1 for job in jobs)
    say(
        f"{suite.name}: {count(len(jobs), 'job')} ({on_one_board[True]} on one board, {on_one_board[False]} on any of several), "
        f"{count(len(boards), 'board')}, {count(len(files), 'file')} of {megabytes(size)}"
    )


def megabytes(size: int) -> str:
    """Returns a number of bytes as text, such as "12 kB" or "3.4 MB"."""
    return f"{size / 1e6:.1f} MB" if size >= 1e6 else f"{-(-size // 1000)} kB"


def show_runs(url: str, limit: int) -> None:
    """Prints a line for each of the newest runs."""
    with opened_database(url) as database, database.read() as session:
        rows = [_row(run, counts_of(session, run.id)) for run in list_runs(session, limit)]
    if not rows:
        say("there are no runs yet")
        return
    for line in columns(("run", "suite", "state", "verdict", "done", "submitted", "by"), rows):
        click.echo(line)


def _row(run: SuiteRunRecord, counts: dict[str, int]) -> tuple[str, ...]:
    total = sum(counts.get(state, 0) for state in ("queued", "running", "done", "cancelled"))
    done = f"{counts.get(DONE, 0)} of {total}"
    return (
        run.id[:12],
        printable(run.name),
        run.state,
        run.verdict or "",
        done,
        format_time(run.created),
        printable(run.submitter),
    )


def cancel_by_id(text: str, url: str) -> None:
    """Cancels a run. If no process works on it, its jobs are ended here; otherwise that process finds the cancellation in the
    database."""
    try:
        with opened_database(url, "qverify suite cancel") as database, database.write() as session:
            run = find_run(session, text)
            had_ended = not cancel_run(session, run.id, "by suite cancel", time.time())
            if not had_ended:
                requeue_abandoned(session, time.time())
                session.refresh(run)
                end_run(session, run, time.time())
    except OwnedError:
        with opened_database(url) as database, database.write() as session:
            run = find_run(session, text)
            had_ended = not cancel_run(session, run.id, "by suite cancel", time.time())
    say(f"run {run.id[:12]}: {'had ended before' if had_ended else 'cancelled'}")


def keep_baseline(text: str, url: str) -> None:
    """Makes the verdicts of a run the baseline of its suite."""
    with opened_database(url) as database, database.write() as session:
        run = find_run(session, text)
        if run.state == RUNNING:
            raise click.UsageError(f"run {run.id[:12]} has not ended")
        number = take_baseline(session, run, time.time())
    say(f"run {run.id[:12]}: the verdicts of {count(number, 'job')} are the baseline of {run.name}")
