"""python -m qverify_farm.work.isolated_job: runs jobs that may crash their process."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from qverify_farm.work.child import serve
from qverify_farm.work.job_task import JobTask
from qverify_farm.work.run_job import run_job
from qverify_farm.work.worker import JobWorker


def answer(request: dict[str, Any]) -> dict[str, Any]:
    """Runs a job and returns its JobResult as JSON values. The request has the fields "task" and "folder", the worker's cache
    folder."""
    worker = JobWorker(Path(request["folder"]))
    try:
        return run_job(JobTask.from_json(request["task"]), worker, may_isolate=False).to_json()
    finally:
        worker.close()


if __name__ == "__main__":
    serve(answer)
