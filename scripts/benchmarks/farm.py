"""How much of the wall the boards of a farm are busy, where each job holds its board for one second of board time.

A board is `local` whose program waits a second before it is the agent (`local?runtime=PROGRAM`): the second passes
while the job holds the board, as a slower board's would. The jobs are those of a suite in an SQLite database, which the
dispatcher gives to the engine of this process, or (--processes) to Dask workers. Everything beyond that second counts
as overhead: what the dispatcher does, connecting, the run itself, judging, the report. The wall is from the first
attempt's start to the last one's end."""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import resource
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from qverify.session.other_jobs.demo import SOURCE, write_example
from qverify_agents.binaries import host_architecture, runtime_path
from qverify_farm.dispatcher import Dispatcher
from qverify_farm.engines.engine import JobEngine, ReachedBoard
from qverify_farm.engines.group import engine_beside
from qverify_farm.engines.in_process import InProcessEngine
from qverify_farm.engines.open_engine import open_engine
from qverify_farm.scheduling.simulate import large_lab, simulate
from qverify_farm.store.artifacts import ArtifactStore, open_artifacts
from qverify_farm.store.database import Database, open_database
from qverify_farm.store.runs import NewJob, NewRun, ensure_project, submit_run
from qverify_farm.store.tables import AttemptRecord, JobRecord
from qverify_farm.suites.expand import definition_of, jobs_of, store_files
from qverify_farm.suites.suite import Suite
from qverify_farm.suites.suite_file import read_suite
from qverify_farm.work.worker import JobWorker
from sqlalchemy import func, select

from scripts.benchmarks.farm_kill import kill9
from scripts.benchmarks.farm_kill_service import kill9_postgresql, kill9_sqlite

BOARD_S = 1.0  # board time of a job
TAGS = {"kind": "slow"}
SUITE = """name = "bench"
boards = ["kind=slow"]
[[models]]
files = "digits_quant.onnx"
inputs = ["digits/digit_3.npy"]
options = { dump_all_nodes_results = true }
"""


def main(words: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="scripts/bench farm", description=__doc__)
    parser.add_argument("--boards", type=int, default=32)
    parser.add_argument("--jobs", type=int, default=40, help="jobs for each board, on average")
    parser.add_argument(
        "--processes",
        type=int,
        default=0,
        help="number of Dask workers that share the boards; 0: this process runs them",
    )
    parser.add_argument("--threads", action="store_true", help="run the boards' threads in the dispatcher's process")
    parser.add_argument("--killed", type=int, default=1000, help="jobs of a suite whose processes are killed; 0: none")
    parser.add_argument(
        "--simulate", action="store_true", help="1,000 boards on 50 hosts in virtual time, and nothing else"
    )
    parser.add_argument("--json", type=Path)
    options = parser.parse_args(words)
    if options.simulate:
        return _simulate(options.json)
    with tempfile.TemporaryDirectory(prefix="qverify-farm-") as work:
        bench = Bench(Path(work), options.boards, options.processes, not options.threads)
        found = bench.measure(options.boards * options.jobs)
    if options.killed:
        found["kill9"] = _kill9(options.killed)
    print(
        f"{found['boards']} boards, {found['jobs']} jobs of {BOARD_S:g} s of board time: busy {found['busy_fraction']:.1%} of "
        f"the wall, {found['overhead_ms_per_job']:.1f} ms of overhead a job ({found['cpu_ms_per_job']:.1f} ms of "
        f"processor), {found['jobs_per_s']:.1f} jobs/s"
    )
    if options.killed:
        for name, killed in found["kill9"]["parts"].items():
            print(
                f"{name}: {killed['runs']} jobs, killed {killed['killed']}: {killed['lost']} lost, "
                f"{killed['duplicated']} duplicated"
            )
    if options.json:
        options.json.write_text(json.dumps(found, indent=1))
    return 0


def _kill9(jobs: int) -> dict[str, Any]:
    """Returns the figures of suites with this number of jobs whose processes and connections are killed, and their
    sums."""
    parts = {}
    for name, measure in (("suite", kill9), ("SQLite service", kill9_sqlite), ("PostgreSQL service", kill9_postgresql)):
        with tempfile.TemporaryDirectory(prefix="qverify-kill-") as work:
            if part := measure(Path(work), jobs):
                parts[name] = part
    return {key: sum(part[key] for part in parts.values()) for key in ("runs", "lost", "duplicated")} | {"parts": parts}


def _simulate(path: Path | None) -> int:
    """Prints the figures of a simulated lab."""
    lab = large_lab()
    found = simulate(lab)
    unfair = max(abs(share - 0.5) for shares in found.shares.values() for share in shares.values())
    print(
        f"{sum(lab.boards.values())} boards of {len(lab.boards)} types on {lab.hosts} hosts, {sum(found.done.values())} jobs in "
        f"{found.wall_s / 3600:.2f} h of virtual time: busy {found.busy:.1%}; a submitter's share of a type is 50% +- {unfair:.1%}; "
        f"a free board waited at most {max(found.longest_wait_s.values()):.1f} s while a job fitted it"
    )
    if path is not None:
        path.write_text(json.dumps(asdict(found), indent=1))
    return 0


class Bench:
    """A suite of the packaged example on boards of this host.

    processes: number of Dask workers, 0 for threads. beside: whether the threads run in a process of their own.
    """

    def __init__(self, work: Path, boards: int, processes: int = 0, beside: bool = True):
        self._beside = beside
        self._boards, self._work, self._processes = slow_boards(work, boards), work, processes
        self._database: Database = open_database(str(work / "farm.db"), "scripts/bench farm")
        self._artifacts: ArtifactStore = open_artifacts(str(work / "store"))
        write_example(str(work / "example"))
        path = work / "example" / "suite.toml"
        path.write_text(SUITE)
        tags = {name: board.tags for name, board in self._boards.items()}
        self._suite: Suite = read_suite(str(path), tags)
        self._digests = store_files(self._suite, self._artifacts)
        (self._job,) = jobs_of(self._suite, tags, self._digests)
        assert SOURCE in self._job.settings["models"]

    def measure(self, jobs: int) -> dict[str, Any]:
        """Runs this number of jobs and returns the figures."""
        with contextlib.ExitStack() as stack:
            engine = stack.enter_context(self._workers()) if self._processes else self._threads()
            dispatcher = Dispatcher(self._database, engine, self._artifacts)
            stack.callback(dispatcher.close)
            self._run(
                dispatcher, 4 * max(1, self._processes)
            )  # opens the models and computes the host results, which are cached
            before = _cpu_s()
            run = self._run(dispatcher, jobs)
            cpu = _cpu_s() - before
        with self._database.read() as session:
            jobs_of_run = select(JobRecord.id).where(JobRecord.run == run)
            ends = select(func.min(AttemptRecord.started), func.max(AttemptRecord.ended), func.count()).where(
                AttemptRecord.job.in_(jobs_of_run)
            )
            first, last, attempts = session.execute(ends).one()
            passed = session.scalar(select(func.count()).where(JobRecord.run == run, JobRecord.verdict == "PASSED"))
            failures = select(AttemptRecord.why).where(
                AttemptRecord.job.in_(jobs_of_run), AttemptRecord.verdict.is_distinct_from("PASSED")
            )
            why = next(iter(session.scalars(failures)), "")
        self._database.close()
        if (passed, attempts) != (jobs, jobs):
            raise SystemExit(f"scripts/bench farm: {passed} of {jobs} jobs passed, in {attempts} attempts: {why}")
        return figures(len(self._boards), jobs, last - first) | {"cpu_ms_per_job": round(1e3 * cpu / jobs, 2)}

    def _threads(self) -> JobEngine:
        if self._beside:
            return engine_beside(self._boards, str(self._work / "cache"))
        return InProcessEngine(self._boards, JobWorker(self._work / "cache"))

    @contextlib.contextmanager
    def _workers(self) -> Iterator[JobEngine]:
        """Yields the engine of Dask workers that share the boards, once all boards are reached."""
        with socket.create_server(("127.0.0.1", 0)) as taken:
            address = f"tcp://127.0.0.1:{taken.getsockname()[1]}"
        names, workers = list(self._boards), list[subprocess.Popen[bytes]]()
        inventory = self._work / "boards.toml"
        rows = [f'[boards.{n}]\nuri = "{b.address}"\ntags = {{ kind = "slow" }}\n' for n, b in self._boards.items()]
        inventory.write_text("".join(rows))
        path = os.pathsep.join(filter(None, sys.path))
        environment = {**os.environ, "QVERIFY_BOARDS": str(inventory), "PYTHONPATH": path}
        engine = open_engine(address)
        try:
            for at in range(self._processes):
                words = ["--boards", ",".join(names[at :: self._processes]), "--cache", str(self._work / "cache")]
                command = [sys.executable, "-m", "qverify", "worker", "--scheduler", address, *words]
                workers.append(subprocess.Popen(command, env=environment, stderr=subprocess.DEVNULL))
            while len(engine.boards()) < len(names):
                time.sleep(0.1)
            yield engine
        finally:
            for worker in workers:
                worker.terminate()
                worker.wait()

    def _run(self, dispatcher: Dispatcher, jobs: int) -> str:
        """Runs this number of jobs, each on any of the boards, and returns the id of the run."""
        rows: list[NewJob] = [replace(self._job, name=f"{self._job.name} {at}") for at in range(jobs)]
        with self._database.write() as session:
            project = ensure_project(session).id
            new = NewRun(project, "bench", "bench", definition_of(self._suite, self._digests))
            run = submit_run(session, new, rows).id
        dispatcher.wake()
        dispatcher.run(_after_first_look(lambda: not dispatcher.unfinished(run)))
        return run


def _after_first_look(ended: Callable[[], bool]) -> Callable[[], bool]:
    """Returns a function that returns ended(), but only after ended() has been False once: before the dispatcher's
    first look a run seems to have ended."""
    began = False

    def ended_after_beginning() -> bool:
        nonlocal began
        began = began or not ended()
        return began and ended()

    return ended_after_beginning


def figures(boards: int, jobs: int, wall: float) -> dict[str, Any]:
    """Returns the figures of this number of jobs. wall: their wall time in seconds."""
    return {
        "boards": boards,
        "jobs": jobs,
        "busy_fraction": round(jobs * BOARD_S / (boards * wall), 4),
        "overhead_ms_per_job": round(1e3 * (boards * wall / jobs - BOARD_S), 2),
        "jobs_per_s": round(jobs / wall, 2),
        "wall_s": round(wall, 3),
    }


def slow_boards(work: Path, count: int) -> dict[str, ReachedBoard]:
    """Returns boards that wait BOARD_S before they reply, by name."""
    program = work / "slow-qvrt"
    program.write_text(f'#!/bin/sh\nsleep {BOARD_S}\nexec "{runtime_path(host_architecture())}" "$@"\n')
    program.chmod(0o755)
    names = [f"board{at:02d}" for at in range(count)]
    return {name: ReachedBoard(name, f"local?runtime={program}", TAGS) for name in names}


def _cpu_s() -> float:
    """Returns the processor seconds of this process and its finished children."""
    spent = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(usage.ru_utime + usage.ru_stime for usage in spent)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
