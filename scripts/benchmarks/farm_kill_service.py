"""Submits a suite to `qverify serve` and kills the service's processes and database connections one after the other
while it runs; every result must be recorded exactly once."""

from __future__ import annotations

import contextlib
import hashlib
import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from qverify.session.other_jobs.demo import SOURCE, write_example
from qverify_farm.store.database import open_database
from qverify_farm.store.jobs import attempts_of, jobs_of

from scripts.benchmarks.farm_kill import DEADLINE_S, below, figures_of, write_boards
from tests.farm import postgres

ENGINE = "qverify_farm.engines"  # part of the command line of the process that reaches the boards
AGENT_S = 30.0
CONNECTIONS = (
    "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity "
    "WHERE datname = current_database() AND pid <> pg_backend_pid()"
)


@dataclass(slots=True)
class KilledService:
    """Runs a suite on a service whose parts are killed. database: its URL. jobs, boards: numbers. kills: how often each
    was killed."""

    work: Path
    database: str
    jobs: int
    boards: int
    kills: Counter[str] = field(default_factory=Counter)
    _port: int = 0
    _service: subprocess.Popen[bytes] | None = None

    def run(self, plan: list[str]) -> dict[str, Any]:
        """Submits the suite and returns the figures. After equal shares of its jobs, the next component of the plan is
        killed: service, agent, engine, database (every connection to PostgreSQL). A service that has ended is started
        again."""
        write_example(str(self.work / "example"))
        write_boards(self.work, self.boards)
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self._port = int(free.getsockname()[1])
        start = time.monotonic()
        try:
            self._start()
            run = self._submit()
            for number, component in enumerate(plan, 1):
                self._wait_done(run, self.jobs * number // (len(plan) + 1))
                self._kill(component)
            self._wait_done(run, self.jobs)
        finally:
            if self._service is not None:
                self._service.kill()
                self._service.wait()
        return self._figures(run, time.monotonic() - start)

    def _start(self) -> None:
        settings = {"XDG_STATE_HOME": str(self.work / "state"), "XDG_CACHE_HOME": str(self.work / "cache")}
        settings |= {
            "QVERIFY_BOARDS": str(self.work / "boards.toml"),
            "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
        }
        words = ["serve", "--port", str(self._port), "--database", self.database, "--quiet", "--triages", "0"]
        with (self.work / "log").open("ab") as log:
            self._service = subprocess.Popen(
                [sys.executable, "-m", "qverify", *words, "--artifacts", str(self.work / "store")],
                cwd=self.work,
                env={**os.environ, **settings},
                stdout=log,
                stderr=log,
            )

    def _ask(self, method: str, path: str, body: bytes | None = None) -> Any:
        """Returns the JSON of the service's reply. Repeats the request while there is no reply or the status is 503."""
        end = time.monotonic() + DEADLINE_S
        while time.monotonic() < end:
            if self._service is None or self._service.poll() is not None:
                self._start()
            connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=60)
            with contextlib.suppress(OSError, http.client.HTTPException), contextlib.closing(connection):
                connection.request(method, f"/api/v1{path}", body, {"Content-Type": "application/json"})
                reply = connection.getresponse()
                text = reply.read()
                if reply.status < 300:
                    return json.loads(text)
                if reply.status not in (429, 503):
                    raise SystemExit(f"{method} {path}: {reply.status} {text[:300]!r}")
            time.sleep(0.1)
        raise SystemExit(f"{method} {path}: no answer; the service said {(self.work / 'log').read_text()[-1000:]}")

    def _submit(self) -> str:
        """Returns the id of the suite's run."""
        files = {}
        for path in (SOURCE, "digits/digit_3.npy"):
            data = (self.work / "example" / path).read_bytes()
            files[path] = hashlib.sha256(data).hexdigest()
            self._ask("PUT", f"/artifacts/{files[path]}", data)
        job = {"model": SOURCE, "models": [SOURCE], "inputs": "digits/digit_3.npy", "files": list(files)}
        job |= {"wanted": ["kind=killed"], "retries": 10, "timeout_s": 60}
        jobs = [{**job, "name": f"digits {number}"} for number in range(self.jobs)]
        suite = {"name": "bench", "files": files, "jobs": jobs, "quarantine": 1000}
        return str(self._ask("POST", "/suites", json.dumps(suite).encode())["id"])

    def _wait_done(self, run: str, number: int) -> None:
        end = time.monotonic() + DEADLINE_S
        while (done := self._ask("GET", f"/runs/{run}")["counts"].get("done", 0)) < number:
            if time.monotonic() > end:
                raise SystemExit(
                    f"{done} of {number} jobs in {DEADLINE_S:g} s: {(self.work / 'log').read_text()[-1000:]}"
                )
            time.sleep(0.05)

    def _kill(self, component: str) -> None:
        assert self._service is not None
        if component == "database":
            self.kills[component] += self._end_connections()
            return
        for pid in self._targets(component):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
                self.kills[component] += 1
        if component == "service":
            self._service.wait()
            self._start()

    def _targets(self, component: str) -> list[int]:
        """Returns the processes of a component; all were started by this bench. Waits for an agent, which runs only
        briefly."""
        assert self._service is not None
        if component == "service":
            return [self._service.pid]
        word, end = {"agent": "qvrt", "engine": ENGINE}[component], time.monotonic() + AGENT_S
        while not (processes := below(self._service.pid, word)) and time.monotonic() < end:
            time.sleep(0.01)
        return processes

    def _end_connections(self) -> int:
        """Ends every connection to the database except its own, and returns their number."""
        import psycopg

        with psycopg.connect(self.database) as connection:
            row = connection.execute(CONNECTIONS).fetchone()
        return int(row[0]) if row is not None else 0

    def _figures(self, run: str, wall_s: float) -> dict[str, Any]:
        database = open_database(self.database)
        try:
            with database.read() as session:
                return figures_of(jobs_of(session, run), attempts_of(session, run), self.kills, wall_s)
        finally:
            database.close()


def kill9_sqlite(work: Path, jobs: int, boards: int = 8) -> dict[str, Any]:
    """Returns the figures of a service with an SQLite file, which only its own process writes."""
    return KilledService(work, str(work / "farm.db"), jobs, boards).run(["service", "engine", "agent", "service"])


def kill9_postgresql(work: Path, jobs: int, boards: int = 8) -> dict[str, Any]:
    """Returns the figures of a service with a PostgreSQL server started for it, or {} if PostgreSQL is not
    installed."""
    if not postgres.PROGRAMS:
        return {}
    with postgres.running() as server, server.database() as url:
        plan = ["database", "service", "database", "engine", "database", "agent", "database"]
        return KilledService(work, url, jobs, boards).run(plan)


@contextlib.contextmanager
def _folder() -> Iterator[Path]:
    import tempfile

    with tempfile.TemporaryDirectory(prefix="qverify-kill-") as folder:
        yield Path(folder)


if __name__ == "__main__":
    for measure in (kill9_sqlite, kill9_postgresql):
        with _folder() as work:
            print(measure.__name__, json.dumps(measure(work, *map(int, sys.argv[1:])), indent=1))
