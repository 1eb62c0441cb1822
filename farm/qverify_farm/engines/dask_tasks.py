"""The functions that Dask workers run. Each process of a Dask worker has one JobWorker."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from qverify_farm.work.check_board import check_board
from qverify_farm.work.job_task import JobTask
from qverify_farm.work.run_job import run_job
from qverify_farm.work.worker import JobWorker

RESULTS = "qverify-results"  # the topic of the messages with results
INFORMATION = "qverify"  # the key of a worker's boards and versions in the scheduler's facts about it

_worker_of_process: list[tuple[JobWorker, Callable[[str, dict[str, Any]], None]]] = []


def set_worker(worker: JobWorker, send: Callable[[str, dict[str, Any]], None]) -> None:
    """Sets the JobWorker of this process. send: sends a message under a topic to all listeners, from any thread."""
    _worker_of_process[:] = [(worker, send)]


def resource_of(board: str) -> str:
    """Returns the name of the Dask resource that stands for a board; the worker that reaches the board has one of it."""
    return f"board:{board}"


def run_task(key: str, values: dict[str, Any]) -> None:
    """Runs a task and sends its result as a message. Dask does not store the result, so it is not lost if the worker dies
    afterwards."""
    worker, send = _worker_of_process[0]
    send(RESULTS, {"key": key, "result": run_job(JobTask.from_json(values), worker).to_json()})


def check_task(key: str, name: str, address: str) -> None:
    """Runs a health check and sends the reason why it failed, or "" if it passed."""
    worker, send = _worker_of_process[0]
    send(RESULTS, {"key": key, "why": check_board(worker, name, address)[:300]})


def cancel_task(job: str) -> None:
    """Cancels a job of this process."""
    for worker, _ in _worker_of_process:
        worker.cancel(job)
