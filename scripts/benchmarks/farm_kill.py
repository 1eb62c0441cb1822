"""Kills the processes of a suite one after the other while it runs; every result must be recorded exactly once."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from qverify.errors import UsageError
from qverify.session.other_jobs.demo import SOURCE, write_example
from qverify_farm.store.database import Database, open_database
from qverify_farm.store.jobs import attempts_of, jobs_of
from qverify_farm.store.runs import counts_of, find_run
from qverify_farm.store.states import DONE
from qverify_farm.store.tables import AttemptRecord, JobRecord

DEADLINE_S = 900.0


@dataclass(slots=True)
class Killed:
    """A suite whose processes are killed.

    jobs, boards: their numbers. kills: how often each component was killed.
    """

    work: Path
    jobs: int
    boards: int
    kills: Counter[str] = field(default_factory=Counter)
    _suite: subprocess.Popen[bytes] | None = None
    _worker: subprocess.Popen[bytes] | None = None
    _with_workers: bool = False
    _scheduler: str = ""

    def run(self, plan: list[str]) -> dict[str, Any]:
        """Runs the suite and returns the figures. After equal shares of its jobs, the next component of the plan is
        killed: suite, agent, worker, scheduler."""
        self._write()
        start, run = time.monotonic(), ""
        try:
            for number, component in enumerate(plan, 1):
                run = self._running(run, with_workers=component in ("worker", "scheduler"))
                self._wait_done(run, self.jobs * number // (len(plan) + 1))
                self._kill(component)
            self._running(run, with_workers=False)
            while self._suite is not None and self._suite.wait(DEADLINE_S) < 0:
                self._running(run, with_workers=False)
        finally:
            for process in (self._suite, self._worker):
                if process is not None and process.poll() is None:
                    process.kill()
                    process.wait()
        return self._figures(run, time.monotonic() - start)

    def _running(self, run: str, with_workers: bool) -> str:
        """Starts a process that works on the suite, with or without workers, and returns the run's id."""
        if self._suite is not None and self._with_workers != with_workers and self._suite.poll() is None:
            self._suite.kill()
            self._suite.wait()
            self.kills["suite"] += 1
        if with_workers and self._worker is None:
            self._worker = self._qverify("worker", "--scheduler", self._scheduler)
        if self._suite is None or self._suite.poll() is not None:
            words = ["resume", run] if run else ["run", "suite.toml"]
            more = ["--workers", self._scheduler] if with_workers else []
            self._suite, self._with_workers = self._qverify("suite", *words, *more), with_workers
        return run or self._wait_for_run()

    def _write(self) -> None:
        write_example(str(self.work / "example"))
        lines = [
            f'models = ["example/{SOURCE}"]',
            'inputs = ["example/digits/digit_3.npy"]',
            'boards = ["kind=killed"]',
        ]
        lines += [f"repeats = {self.jobs}", "retries = 20", "quarantine = 0", "timeout = 60"]
        (self.work / "suite.toml").write_text("\n".join(lines) + "\n")
        write_boards(self.work, self.boards)
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self._scheduler = f"tcp://127.0.0.1:{free.getsockname()[1]}"

    @property
    def _environment(self) -> dict[str, str]:
        folders = {"XDG_STATE_HOME": str(self.work / "state"), "XDG_CACHE_HOME": str(self.work / "cache")}
        return {**os.environ, **folders, "QVERIFY_BOARDS": str(self.work / "boards.toml")}

    def _qverify(self, *words: str) -> subprocess.Popen[bytes]:
        with (self.work / "log").open("ab") as log:
            return subprocess.Popen(
                [sys.executable, "-m", "qverify", *words], cwd=self.work, env=self._environment, stdout=log, stderr=log
            )

    def _database(self) -> Database:
        return open_database(str(self.work / "state" / "qverify" / "farm.db"))

    def _wait_for_run(self) -> str:
        end = time.monotonic() + 60
        while time.monotonic() < end and self._lives():
            if (self.work / "state" / "qverify" / "farm.db").exists():
                database = self._database()
                try:
                    with database.read() as session:
                        return find_run(session).id
                except UsageError:  # not submitted yet
                    pass
                finally:
                    database.close()
            time.sleep(0.1)
        raise SystemExit(f"the suite did not begin: {(self.work / 'log').read_text()[-500:]}")

    def _lives(self) -> bool:
        return self._suite is not None and self._suite.poll() is None

    def _wait_done(self, run: str, number: int) -> None:
        end, database = time.monotonic() + DEADLINE_S, self._database()
        try:
            while time.monotonic() < end and self._lives():
                with database.read() as session:
                    if counts_of(session, run).get(DONE, 0) >= number:
                        return
                time.sleep(0.05)
        finally:
            database.close()

    def _kill(self, component: str) -> None:
        assert self._suite is not None
        for pid in self._targets(component):
            try:
                os.kill(pid, signal.SIGKILL)
                self.kills[component] += 1
            except ProcessLookupError:
                pass
        if component == "suite":
            self._suite.wait()

    def _targets(self, component: str) -> list[int]:
        """Returns the processes of a component; all were started by this bench."""
        assert self._suite is not None
        if component == "suite":
            return [self._suite.pid]
        if component == "worker":
            return below(self._worker.pid, "")[:1] if self._worker is not None else []
        word = {"agent": "qvrt", "scheduler": "scheduler"}[component]
        return below(self._suite.pid, word)

    def _figures(self, run: str, wall_s: float) -> dict[str, Any]:
        database = self._database()
        try:
            with database.read() as session:
                return figures_of(jobs_of(session, run), attempts_of(session, run), self.kills, wall_s)
        finally:
            database.close()


def write_boards(work: Path, boards: int) -> None:
    """Writes an inventory of this number of boards of this host."""
    rows = [f'[boards.b{n:02d}]\nuri = "local"\ntags = {{ kind = "killed" }}\n' for n in range(boards)]
    (work / "boards.toml").write_text("".join(rows))


def figures_of(
    jobs: Sequence[JobRecord], attempts: Sequence[AttemptRecord], kills: Counter[str], wall_s: float
) -> dict[str, Any]:
    """Returns the figures of a run, in which every job should have passed exactly once."""
    passed = Counter(a.job for a in attempts if a.ending == "finished" and a.verdict == "PASSED")
    return {
        "runs": len(jobs),
        "lost": sum(job.state != DONE or job.verdict != "PASSED" for job in jobs),
        "duplicated": sum(count - 1 for count in passed.values() if count > 1),
        "attempts": len(attempts),
        "killed": dict(kills),
        "wall_s": round(wall_s, 1),
    }


def below(pid: int, word: str) -> list[int]:
    """Returns the descendants of a process whose command line contains this word, the nearest first."""
    matches, parents = [], [pid]
    while parents:
        children = [child for parent in parents for child in _children(parent)]
        matches += [child for child in children if word in _command(child)]
        parents = children
    return matches


def _children(pid: int) -> Iterator[int]:
    with contextlib.suppress(OSError):  # the process, or a thread of it, has just ended
        for path in Path(f"/proc/{pid}/task").glob("*/children"):
            yield from map(int, path.read_text().split())


def _command(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except OSError:
        return ""


def kill9(work: Path, jobs: int = 1000, boards: int = 8) -> dict[str, Any]:
    """Returns the figures of a suite with this number of jobs whose processes are killed in turn."""
    return Killed(work, jobs, boards).run(["suite", "agent", "agent", "suite", "worker", "scheduler", "suite"])


if __name__ == "__main__":
    import tempfile

    with tempfile.TemporaryDirectory(prefix="qverify-kill-") as folder:
        print(json.dumps(kill9(Path(folder), *map(int, sys.argv[1:])), indent=1))
