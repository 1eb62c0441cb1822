"""The state that a process keeps between jobs: cached files, opened models, results of the host's sides, and the running
jobs."""

from __future__ import annotations

import contextlib
import os
import secrets
import socket
import threading
from collections import OrderedDict
from collections.abc import Iterator
from pathlib import Path

from qverify.session.models import Models
from qverify.session.runner import BoardModel, open_with_board_model
from qverify_agents.this_user import cache_folder

from qverify_farm.store.artifacts import ArtifactStore, open_artifacts
from qverify_farm.work import file_cache, host_results
from qverify_farm.work.engine_results import StoredEngines
from qverify_farm.work.file_cache import FileCache
from qverify_farm.work.host_processes import HostProcesses
from qverify_farm.work.host_results import HostResults
from qverify_farm.work.job_limit import JobLimit
from qverify_farm.work.job_request import JobRequest, JobRequests
from qverify_farm.work.keyed_lock import KeyedLock

MAX_OPEN_MODELS, MAX_OPEN_BYTES = 16, 1 << 30


class JobWorker:
    """The part of a process that runs jobs. Its methods may be called from any thread."""

    def __init__(
        self,
        folder: Path | None = None,
        files_bytes: int = file_cache.DEFAULT_LIMIT_BYTES,
        results_bytes: int = host_results.DEFAULT_LIMIT_BYTES,
    ):
        """folder: the cache folder; None for `farm` in qverify's cache folder. files_bytes, results_bytes: the size limits of
        cached files and cached results."""
        self.folder = folder if folder is not None else cache_folder() / "farm"
        self.name = f"{socket.gethostname()} pid {os.getpid()}"
        self._scope = secrets.token_hex(8)
        self.files = FileCache(self.folder, files_bytes)
        self.results = HostResults(self.folder / "results", results_bytes)
        self.host_processes = HostProcesses(self.results.folder, limit_bytes=results_bytes)
        self.job_requests = JobRequests()
        self._open: OrderedDict[str, tuple[Models, BoardModel | None]] = OrderedDict()
        self._stores: dict[str, ArtifactStore] = {}
        self._running: dict[str, JobLimit] = {}
        self._lock, self._key_locks = threading.Lock(), KeyedLock()
        self.hold_key = self._key_locks.hold  # a lock for work that one thread does for all that need the same

    def artifacts(self, url: str) -> ArtifactStore:
        """Returns the artifact store of this URL."""
        with self._lock:
            if url not in self._stores:
                self._stores[url] = open_artifacts(url)
            return self._stores[url]

    def open_models(self, job_request: JobRequest) -> tuple[Models, BoardModel | None]:
        """Returns the opened models of a job; they stay open for later jobs with the same models. Raises QVerifyError as
        open_with_board_model does, and ArtifactError if their files changed."""
        key = job_request.models_key
        with self.hold_key(key):
            with self._lock:
                if key in self._open:
                    self._open.move_to_end(key)
                    return self._open[key]
            open_models = open_with_board_model(job_request.request, job_request.sides)
            job_request.check_model_files()
            with self._lock:
                self._open[key] = open_models
                while len(self._open) > 1 and (
                    len(self._open) > MAX_OPEN_MODELS or self._open_bytes() > MAX_OPEN_BYTES
                ):
                    self._open.popitem(last=False)
            return open_models

    def engines(self, job_request: JobRequest, models: Models) -> StoredEngines:
        """Returns the engines of a job that are further sides."""
        timeout_s = job_request.request.deadline_s
        return StoredEngines(job_request.sides, models, timeout_s, self.results, self.hold_key, self._scope)

    def is_open(self, job_request: JobRequest) -> bool:
        """Returns whether the models of a job are open."""
        with self._lock:
            return job_request.models_key in self._open

    def _open_bytes(self) -> int:
        return sum(len(models.binary) + len(models.original or b"") for models, _ in self._open.values())

    @contextlib.contextmanager
    def running(self, job: str, limit: JobLimit) -> Iterator[None]:
        """Registers a job for cancel() during the `with` block."""
        with self._lock:
            self._running[job] = limit
        try:
            yield
        finally:
            with self._lock:
                if self._running.get(job) is limit:
                    del self._running[job]

    def cancel(self, job: str) -> None:
        """Ends a job's attempt at its next wait. An unknown job is ignored."""
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
        """Cancels the running jobs, ends the processes of this worker, and removes its folders."""
        self.cancel_all()
        self.host_processes.close()
        self.files.close()
