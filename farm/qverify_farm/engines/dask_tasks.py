"""What Dask's workers run: tasks of the farm, in a process that has one JobWorker."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from qverify_farm.work.check_board import check_board
from qverify_farm.work.job_task import JobTask
from qverify_farm.work.run_job import run_job
from qverify_farm.work.worker import JobWorker

RESULTS = "qverify-results"  # the topic on which results are told
INFORMATION = "qverify"  # the key of a worker's boards and versions in what the scheduler knows of it

_process: list[tuple[JobWorker, Callable[[str, dict[str, Any]], None]]] = []


def use(worker: JobWorker, tell: Callable[[str, dict[str, Any]], None]) -> None:
    """Makes this the JobWorker of this process. tell: sends a message under a topic to whoever listens, from any thread."""
    _process[:] = [(worker, tell)]


def resource(board: str) -> str:
    """Returns the name of the resource of which a worker has one for each board."""
    return f"board:{board}"


def run_task(key: str, values: dict[str, Any]) -> None:
    """Runs a task and tells its result, which stays in nobody's memory: a worker that dies afterwards takes none with
    it."""
    worker, tell = _process[0]
    tell(RESULTS, {"key": key, "result": run_job(JobTask.from_json(values), worker).to_json()})


def check_task(key: str, name: str, address: str) -> None:
    """Runs a health check and tells why it failed, "" where it did not."""
    worker, tell = _process[0]
    tell(RESULTS, {"key": key, "why": check_board(worker, name, address)[:300]})


def cancel_task(job: str) -> None:
    """Cancels a job of this process."""
    for worker, _ in _process:
        worker.cancel(job)
