"""The processes of a worker that compute host results. There are only a few; they are reused by later jobs."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path

from qverify.errors import QVerifyError
from qverify_agents.deadline import Deadline

from qverify_farm.work.child import Child, ChildDied
from qverify_farm.work.host_results import DEFAULT_LIMIT_BYTES
from qverify_farm.work.job_limit import JobLimit
from qverify_farm.work.job_task import JobTask

MAX_IDLE_S = 120.0  # a process that is idle for longer is ended
POLL_S = 0.2
MODULE = "qverify_farm.work.host_step"


class HostStepFailed(QVerifyError):
    """The results of the reference and the simulator could not be computed. The exit status is 3, since nothing is known
    about the board."""

    exit_status = 3


class HostProcesses:
    """A pool of processes that compute host results."""

    def __init__(self, results: Path, max_processes: int = 0, limit_bytes: int = DEFAULT_LIMIT_BYTES):
        """results: the folder of HostResults. max_processes: the number of processes that work at a time; 0 for half the
        number of processors, between 1 and 4. limit_bytes: the size limit of HostResults."""
        self._results, self._limit_bytes = results, limit_bytes
        self._free = threading.Semaphore(max_processes or max(1, min(4, (os.cpu_count() or 1) // 2)))
        self._idle: list[tuple[float, Child]] = []
        self._lock, self._closed = threading.Lock(), False

    def compute(self, task: JobTask, folder: Path, limit: JobLimit) -> int:
        """Computes and stores the missing results of a task, and returns their number. Raises HostStepFailed if they cannot
        be computed, and LinkTimeout at the limit."""
        while not self._free.acquire(timeout=POLL_S):
            limit.left()
        try:
            child = self._take_child()
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

    def _take_child(self) -> Child:
        """Returns an idle process or a new one. Ends processes that were idle for too long."""
        with self._lock:
            now = time.monotonic()
            for since, child in list(self._idle):
                if now - since > MAX_IDLE_S:
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
        """Ends the idle processes; the others end when their work is done."""
        with self._lock:
            self._closed, idle, self._idle = True, self._idle, []
        for _, child in idle:
            child.close()
