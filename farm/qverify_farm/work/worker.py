"""What one process keeps between jobs: files, opened models, results of the host's sides, and the jobs that run."""

from __future__ import annotations

import contextlib
import os
import socket
import threading
from collections import OrderedDict
from collections.abc import Iterator
from pathlib import Path

from qverify.session.models import Models
from qverify.session.runner import BoardModel, open_with_board_model, runner_for
from qverify_agents.this_user import cache_folder

from qverify_farm.store.artifacts import Artifacts, open_artifacts
from qverify_farm.work import file_cache, host_results
from qverify_farm.work.file_cache import FileCache
from qverify_farm.work.host_processes import HostProcesses
from qverify_farm.work.host_results import HostResults
from qverify_farm.work.job_limit import JobLimit
from qverify_farm.work.job_request import JobRequest, JobRequests
from qverify_farm.work.keyed_lock import KeyedLock

MOST_OPEN, MOST_OPEN_BYTES = 16, 1 << 30


class JobWorker:
    """One process's share of a farm. folder: of the cache [default: qverify's cache folder]. Its methods may be called
    from any thread."""

    def __init__(
        self,
        folder: Path | None = None,
        files_bytes: int = file_cache.LIMIT_BYTES,
        results_bytes: int = host_results.LIMIT_BYTES,
    ):
        self.folder = folder if folder is not None else cache_folder() / "farm"
        self.name = f"{socket.gethostname()} pid {os.getpid()}"
        self.files = FileCache(self.folder, files_bytes)
        self.results = HostResults(self.folder / "results", results_bytes)
        self.host_processes = HostProcesses(self.results.folder, limit_bytes=results_bytes)
        self.job_requests = JobRequests()
        self._open: OrderedDict[str, tuple[Models, BoardModel | None]] = OrderedDict()
        self._stores: dict[str, Artifacts] = {}
        self._running: dict[str, JobLimit] = {}
        self._lock, self._by_key = threading.Lock(), KeyedLock()
        self.alone = self._by_key.alone  # what one thread at a time does for all

    def artifacts(self, url: str) -> Artifacts:
        """Returns the artifact store of this URL."""
        with self._lock:
            if url not in self._stores:
                self._stores[url] = open_artifacts(url)
            return self._stores[url]

    def opened(self, asked: JobRequest) -> tuple[Models, BoardModel | None]:
        """Returns the opened models of a job, which stay open for the next ones of the same. QVerifyError as for
        open_models."""
        key = asked.models_key
        with self.alone(key):
            with self._lock:
                if key in self._open:
                    self._open.move_to_end(key)
                    return self._open[key]
            opened = open_with_board_model(asked.request, runner_for(asked.request.board, asked.request.runner))
            with self._lock:
                self._open[key] = opened
                while len(self._open) > 1 and (len(self._open) > MOST_OPEN or self._open_bytes() > MOST_OPEN_BYTES):
                    self._open.popitem(last=False)
            return opened

    def is_open(self, asked: JobRequest) -> bool:
        """Returns whether opened() has the models already."""
        with self._lock:
            return asked.models_key in self._open

    def _open_bytes(self) -> int:
        return sum(len(models.binary) + len(models.original or b"") for models, _ in self._open.values())

    @contextlib.contextmanager
    def running(self, job: str, limit: JobLimit) -> Iterator[None]:
        """Makes a job known to cancel() while the block runs."""
        with self._lock:
            self._running[job] = limit
        try:
            yield
        finally:
            with self._lock:
                if self._running.get(job) is limit:
                    del self._running[job]

    def cancel(self, job: str) -> None:
        """Ends a job's attempt at its next wait; unknown ones are ignored."""
        with self._lock:
            limit = self._running.get(job)
        if limit is not None:
            limit.cancel()

    def cancel_all(self) -> None:
        """Ends every attempt at its next wait."""
        with self._lock:
            limits = list(self._running.values())
        for limit in limits:
            limit.cancel()

    def close(self) -> None:
        """Cancels what runs, and ends the processes and the folder of this worker."""
        self.cancel_all()
        self.host_processes.close()
        self.files.close()
