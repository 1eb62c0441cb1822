"""The functions that Dask workers run. Each process of a Dask worker has one JobWorker."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from qverify_farm.work.check_board import check_board
from qverify_farm.work.job_task import JobResult, JobTask
from qverify_farm.work.run_job import run_job
from qverify_farm.work.worker import JobWorker

RESULTS = "qverify-results"  # the topic of the messages with results
INFORMATION = "qverify"  # the key of a worker's boards and versions in the scheduler's facts about it
STOPPED = "its worker was stopped"
SEND_S = 0.5  # for messages on their way to the scheduler

_stopping, _tasks = threading.Event(), set[str]()  # _tasks: the keys of the tasks that run
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
    task = JobTask.from_json(values)
    _tasks.add(key)
    try:
        result = JobResult(task.job, task.attempt, "busy") if _stopping.is_set() else run_job(task, worker)
        if _stopping.is_set() and result.ending in ("busy", "cancelled"):
            result = replace(result, ending="busy", why=STOPPED)
        send(RESULTS, {"key": key, "result": result.to_json()})
    finally:
        _tasks.discard(key)


def check_task(key: str, name: str, address: str) -> None:
    """Runs a health check and sends the reason why it failed, or "" if it passed."""
    worker, send = _worker_of_process[0]
    send(RESULTS, {"key": key, "why": check_board(worker, name, address)[:300]})


def cancel_task(job: str) -> None:
    """Cancels a job of this process."""
    for worker, _ in _worker_of_process:
        worker.cancel(job)


def stop_tasks(seconds: float) -> None:
    """Ends the running jobs as "busy", so that they run again without an attempt lost, and waits for them for at most so
    many seconds. Jobs that are sent from now on end in the same way."""
    _stopping.set()
    end, any_ran = time.monotonic() + seconds, bool(_tasks)
    for worker, _ in _worker_of_process:
        while _tasks and time.monotonic() < end:
            worker.cancel_all()  # again, for a job that had just begun
            time.sleep(0.1)
    if any_ran:
        time.sleep(SEND_S)
