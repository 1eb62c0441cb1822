"""The processes of this worker that compute host results, a few at a time, kept for the next job."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path

from qverify.errors import QVerifyError
from qverify_agents.deadline import Deadline

from qverify_farm.work.child import Child, ChildDied
from qverify_farm.work.host_results import LIMIT_BYTES
from qverify_farm.work.job_limit import JobLimit
from qverify_farm.work.job_task import JobTask

IDLE_S = 120.0  # after it a process without work is ended
LOOK_S = 0.2
MODULE = "qverify_farm.work.host_step"


class HostStepFailed(QVerifyError):
    """The reference and the simulator could not be computed; the text says why. exit_status 3: nothing is known of the
    board."""

    exit_status = 3


class HostProcesses:
    """results: the folder of host_results.HostResults. most: processes at a time."""

    def __init__(self, results: Path, most: int = 0, limit_bytes: int = LIMIT_BYTES):
        self._results, self._limit_bytes = results, limit_bytes
        self._free = threading.Semaphore(most or max(1, min(4, (os.cpu_count() or 1) // 2)))
        self._idle: list[tuple[float, Child]] = []
        self._lock, self._closed = threading.Lock(), False

    def compute(self, task: JobTask, folder: Path, limit: JobLimit) -> int:
        """Computes and stores what is missing for a task. Returns how many results were missing. Raises HostStepFailed,
        LinkTimeout at the limit."""
        while not self._free.acquire(timeout=LOOK_S):
            limit.left()
        try:
            child = self._take()
            request = {
                "task": task.to_json(),
                "folder": str(folder),
                "results": str(self._results),
                "limit": self._limit_bytes,
            }
            try:
                answer = child.ask(
                    request, Deadline(limit.left(), "the reference and the simulator", "the job's timeout")
                )
            except ChildDied as error:
                raise HostStepFailed(f"the process that runs the reference and the simulator {error}") from error
            self._give_back(child)
        finally:
            self._free.release()
        if error_text := str(answer.get("error", "")):
            raise HostStepFailed(error_text)
        return int(answer["computed"])

    def _take(self) -> Child:
        with self._lock:
            now = time.monotonic()
            for since, child in [one for one in self._idle if now - one[0] > IDLE_S]:
                self._idle.remove((since, child))
                child.close()
            return self._idle.pop()[1] if self._idle else Child(MODULE)

    def _give_back(self, child: Child) -> None:
        with self._lock:
            if not self._closed:
                self._idle.append((time.monotonic(), child))
                return
        child.close()

    def close(self) -> None:
        """Ends the processes that have no work; the others end with theirs."""
        with self._lock:
            self._closed, idle, self._idle = True, self._idle, []
        for _, child in idle:
            child.close()
