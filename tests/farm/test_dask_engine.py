"""The engine over Dask workers: real processes on loopback, killed and frozen."""

from __future__ import annotations

import asyncio
import os
import queue
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import pytest
from qverify.errors import UsageError
from qverify_farm.engines import dask_versions, dask_worker
from qverify_farm.engines.dask import DaskEngine
from qverify_farm.engines.dask_address import TlsFiles, import_distributed, security_of
from qverify_farm.engines.open_engine import open_engine
from qverify_farm.engines.scheduler_process import SchedulerProcess
from qverify_farm.work.job_task import JobResult, JobTask

from tests.farm import certificates
from tests.farm.example_jobs import FAULTY, ExampleJobs, program

WAIT_S = 90.0
TTL_S = 4.0


def free_address(scheme: str = "tcp") -> str:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        return f"{scheme}://127.0.0.1:{taken.getsockname()[1]}"


def until(true: Callable[[], Any]) -> Any:
    """Waits until the call returns a true value, and returns that value."""
    end = time.monotonic() + WAIT_S
    while not (found := true()):
        assert time.monotonic() < end, "it does not become true"
        time.sleep(0.1)
    return found


@dataclass(slots=True)
class Farm:
    """A scheduler, an engine and a worker. kills: a board that kills its worker. hangs: a board that does not answer."""

    scheduler: SchedulerProcess
    engine: DaskEngine
    worker: subprocess.Popen[bytes]
    jobs: ExampleJobs
    kills: str
    hangs: str

    def start(self, task: JobTask) -> queue.SimpleQueue[JobResult]:
        ended = queue.SimpleQueue[JobResult]()
        self.engine.start(task, lambda _, result: ended.put(result))
        return ended

    def run(self, task: JobTask) -> JobResult:
        until(lambda: task.board_name in self.engine.boards())
        return self.start(task).get(timeout=WAIT_S)

    def working(self) -> int:
        """Returns the id of the process that runs the jobs."""
        return int(until(lambda: self.engine.boards() and psutil.Process(self.worker.pid).children())[0].pid)

    def processes(self) -> list[int]:
        return [self.scheduler.process_id, self.worker.pid, self.working(), os.getpid()]


def start_worker(address: str, folder: Path, *words: str) -> subprocess.Popen[bytes]:
    command = [
        sys.executable,
        "-m",
        "qverify",
        "worker",
        "--scheduler",
        address,
        "--cache",
        str(folder / "cache"),
        *words,
    ]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    return subprocess.Popen(command, env=environment, stderr=subprocess.PIPE)


@pytest.fixture(scope="module")
def farm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Farm]:
    folder, address = tmp_path_factory.mktemp("farm"), free_address()
    jobs = ExampleJobs.make(folder)
    kills, hangs = program(folder / "kills", "kill -9 $PPID; exec sleep 60"), program(folder / "hangs", "exec sleep 60")
    words = [word for board in ("local", FAULTY, kills, hangs) for word in ("-b", board)]
    worker = start_worker(address, folder, *words)  # waits for the scheduler
    scheduler = SchedulerProcess(address, worker_ttl_s=TTL_S)
    engine = DaskEngine(address, scheduler=scheduler)
    yield Farm(scheduler, engine, worker, jobs, kills, hangs)
    engine.close()
    worker.terminate()
    worker.communicate(timeout=WAIT_S)


def test_results_and_checks(farm: Farm) -> None:
    passed, failed = farm.run(farm.jobs.task(job="a")), farm.run(farm.jobs.task(FAULTY, job="b"))
    assert (passed.verdict, failed.verdict, failed.blame_side) == ("PASSED", "FAILED", "board")
    assert farm.jobs.store.exists(passed.report) and str(farm.working()) in passed.worker
    checked = queue.SimpleQueue[tuple[str, str]]()
    for name in ("local", FAULTY, "elsewhere"):
        farm.engine.check_board(name, lambda *end: checked.put(end))
    said = dict(checked.get(timeout=WAIT_S) for _ in range(3))
    assert said["local"] == "" and "FAILED" in said[FAULTY] and said["elsewhere"] == "no worker reaches elsewhere"
    assert farm.run(farm.jobs.task(job="c", board="local")).ending == "finished"
    assert farm.start(farm.jobs.task("elsewhere")).get(timeout=WAIT_S).ending == "busy"


def test_the_scheduler_listens_on_loopback_only(farm: Farm) -> None:
    farm.run(farm.jobs.task())
    listening = [
        connection.laddr.ip
        for pid in farm.processes()
        for connection in psutil.Process(pid).net_connections("inet")
        if connection.status == psutil.CONN_LISTEN or connection.type == socket.SOCK_DGRAM
    ]
    assert len(listening) >= 3 and set(listening) <= {"127.0.0.1", "::1"}


def test_cancel(farm: Farm) -> None:
    until(lambda: farm.hangs in farm.engine.boards())
    ended = farm.start(farm.jobs.task(farm.hangs, job="hangs"))
    time.sleep(1)
    farm.engine.cancel("unknown")
    farm.engine.cancel("hangs")
    result = ended.get(timeout=WAIT_S)
    assert (result.ending, result.verdict) == ("cancelled", "INCONCLUSIVE")


def test_a_worker_that_dies_loses_its_jobs_and_is_restarted(farm: Farm) -> None:
    farm.run(farm.jobs.task())
    before = farm.working()
    lost = farm.run(farm.jobs.task(farm.kills, job="kills"))
    assert (lost.ending, lost.verdict, lost.why) == ("lost", "INCONCLUSIVE", "its worker died")
    until(lambda: farm.engine.boards() and farm.working() != before)
    assert farm.run(farm.jobs.task(farm.kills, job="kills", attempt=2, isolated=True)).why.endswith(
        "was killed by SIGKILL"
    )
    assert farm.run(farm.jobs.task()).verdict == "PASSED"


def test_a_frozen_worker_counts_as_lost(farm: Farm) -> None:
    """When it is continued, it ends, and another is started in its place."""
    farm.run(farm.jobs.task())
    before = farm.working()
    ended = farm.start(farm.jobs.task(farm.hangs, job="frozen"))
    time.sleep(1)
    os.kill(before, signal.SIGSTOP)
    try:
        result = ended.get(timeout=WAIT_S)
    finally:
        os.kill(before, signal.SIGCONT)
    assert (result.ending, result.why) == ("lost", "its worker died")
    until(lambda: not psutil.pid_exists(before))
    until(lambda: farm.run(farm.jobs.task()).verdict == "PASSED")  # one that is slow to begin may be lost, too


def test_a_scheduler_that_dies_is_restarted(farm: Farm) -> None:
    """Running tasks are lost; scheduler and worker are restarted, and the engine reconnects."""
    farm.run(farm.jobs.task())
    before = farm.scheduler.process_id
    ended = farm.start(farm.jobs.task(farm.hangs, job="lost"))
    time.sleep(0.5)
    os.kill(before, signal.SIGKILL)
    result = ended.get(timeout=WAIT_S)
    assert (result.ending, result.why) == ("lost", "the connection to the scheduler was lost")
    assert farm.scheduler.process_id != before or until(lambda: farm.scheduler.process_id != before)
    assert farm.run(farm.jobs.task()).verdict == "PASSED"


def test_other_versions_are_refused(farm: Farm, monkeypatch: pytest.MonkeyPatch) -> None:
    until(farm.engine.boards)
    address = farm.engine._address
    asyncio.run(dask_worker._check_versions(address, None))
    monkeypatch.setattr(dask_versions, "own_versions", lambda: {"qverify": "9.9", "Python": "3.99", "distributed": "1"})
    with pytest.raises(
        UsageError, match=r"has other versions: qverify \S+ there, 9\.9 here; Python \S+ there, 3\.99 here"
    ):
        asyncio.run(dask_worker._check_versions(address, None))


def test_a_foreign_scheduler_is_refused() -> None:
    async def ask() -> None:
        scheduler = import_distributed().Scheduler(host="127.0.0.1", dashboard=False, dashboard_address="127.0.0.1:0")
        async with scheduler:
            await dask_worker._check_versions(scheduler.address, None)

    with pytest.raises(UsageError, match="no scheduler of qverify"):
        asyncio.run(ask())


def test_tls(tmp_path: Path) -> None:
    """Ends with certificates of the same authority work together; others are refused."""
    files, strange = certificates.make(tmp_path / "ours", "ours"), certificates.make(tmp_path / "theirs", "theirs")
    jobs, address = ExampleJobs.make(tmp_path), free_address("tls")
    engine = open_engine(address, (files.ca, files.cert, files.key))
    worker = start_worker(address, tmp_path, "-b", "local", *_words(files))
    others = [DaskEngine(address, strange), DaskEngine(address.replace("tls", "tcp"))]
    try:
        until(engine.boards)
        ended = queue.SimpleQueue[JobResult]()
        engine.start(jobs.task(), lambda _, result: ended.put(result))
        assert ended.get(timeout=WAIT_S).verdict == "PASSED"
        assert not any(other.wait_connected(3) for other in others)
    finally:
        for one in (*others, engine):
            one.close(1)
        engine.start(jobs.task(), lambda _, result: ended.put(result))
        assert ended.get(timeout=WAIT_S).ending == "busy"
        worker.terminate()
        worker.communicate(timeout=WAIT_S)


def test_a_stopped_worker_gives_its_jobs_back(tmp_path: Path) -> None:
    """A stop is no crash: the job is queued again and no attempt of it is lost."""
    jobs, address = ExampleJobs.make(tmp_path), free_address()
    started = tmp_path / "started"
    hangs = program(tmp_path / "hangs", f"echo >{started}; exec sleep 60")
    engine = open_engine(address)
    worker = start_worker(address, tmp_path, "-b", hangs)
    try:
        until(lambda: hangs in engine.boards())
        ended = queue.SimpleQueue[JobResult]()
        engine.start(jobs.task(hangs, job="hangs"), lambda _, result: ended.put(result))
        until(started.exists)
        worker.terminate()
        result = ended.get(timeout=WAIT_S)
        assert (result.ending, result.why) == ("busy", "its worker was stopped")
        worker.communicate(timeout=WAIT_S)
        assert not psutil.pid_exists(worker.pid)
    finally:
        engine.close(1)
        worker.kill()
        worker.communicate(timeout=WAIT_S)


def test_a_refused_certificate_is_named(tmp_path: Path) -> None:
    ours, theirs = certificates.make(tmp_path / "ours", "ours"), certificates.make(tmp_path / "theirs", "theirs")

    async def ask(tls: TlsFiles) -> None:
        security = security_of(ours)
        scheduler = import_distributed().Scheduler(host="tls://127.0.0.1:0", security=security, dashboard=False)
        async with scheduler:
            await dask_worker._check_versions(scheduler.address, tls)

    with pytest.raises(UsageError, match="its certificate is not signed by the authority of --tls-ca"):
        asyncio.run(ask(theirs))
    with pytest.raises(UsageError, match=r"it refuses this host.s certificate, --tls-cert \(unknown ca\)"):
        asyncio.run(ask(TlsFiles(ours.ca, theirs.cert, theirs.key)))


def _words(files: TlsFiles) -> list[str]:
    return ["--tls-ca", files.ca, "--tls-cert", files.cert, "--tls-key", files.key]


def test_an_address_in_use_is_refused() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"tcp://127.0.0.1:{taken.getsockname()[1]}"
        with pytest.raises(UsageError, match="the farm's scheduler could not be started"):
            SchedulerProcess(address)
