"""Runs one attempt of one job: files, host results, the board, the verdict, the report."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import tarfile
import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from qverify.errors import QVerifyError
from qverify.inputs.sources import prepared_inputs
from qverify.report.document import Report
from qverify.session.job import Opened, Outcome, verify
from qverify.session.many_frames import verify_frames
from qverify_agents.address import Address
from qverify_agents.deadline import Deadline, limited
from qverify_agents.errors import BoardBusy, LinkError, LinkTimeout
from qverify_agents.host_lock import HostLock

from qverify_farm.errors import StoreFullError
from qverify_farm.store.artifacts import Artifacts
from qverify_farm.work.child import Child, ChildDied
from qverify_farm.work.farm_job import FarmJob
from qverify_farm.work.host_results import HostResult, result_key
from qverify_farm.work.job_limit import JobLimit
from qverify_farm.work.job_request import JobRequest
from qverify_farm.work.job_result import shortened, verdict_fields
from qverify_farm.work.job_task import JobResult, JobTask
from qverify_farm.work.stored_sides import StoredSides
from qverify_farm.work.worker import JobWorker

ISOLATED = "qverify_farm.work.isolated_job"
MORE_S = 30.0  # that the process of an isolated job has to end by itself
TRIES = 3  # to read host results that another process may remove
FULL = (errno.ENOSPC, errno.EDQUOT)


def run_job(task: JobTask, worker: JobWorker, limit: JobLimit | None = None) -> JobResult:
    """Runs an attempt and returns its result; nothing is raised but what ends the process. limit: by which the caller may
    end it."""
    start, limit = time.monotonic(), limit or JobLimit(task.timeout_s)
    attempt = RunningAttempt(task, worker, limit)
    with worker.running(task.job, limit), limited(limit):
        try:
            result = attempt.isolated() if task.isolated else attempt.run()
        except (BoardBusy, StoreFullError) as error:
            result = attempt.result(ending="busy", why=str(error))
        except LinkError as error:
            result = attempt.result(why=str(error), of_board=attempt.asks_board)
        except QVerifyError as error:
            result = attempt.result(why=str(error))
        except OSError as error:
            full = error.errno in FULL
            where = f"{error.filename}: " if error.filename is not None else ""
            result = attempt.result(ending="busy" if full else "finished", why=f"{where}{error.strerror or error}")
        except Exception as error:
            result = attempt.result(why=f"internal error: {type(error).__name__}: {error}")
    result = replace(result, why=result.why.replace(attempt.prefix, "")) if attempt.prefix else result
    if limit.cancelled and result.verdict == "INCONCLUSIVE":
        result = replace(result, ending="cancelled", why="cancelled", of_board=False)
    return shortened(replace(result, seconds=round(time.monotonic() - start, 6)))


class RunningAttempt:
    """One attempt. asks_board: whether an error now is one of the board. prefix: of the paths of the job's files, which
    results and reports leave out."""

    def __init__(self, task: JobTask, worker: JobWorker, limit: JobLimit):
        self.task, self._worker, self._limit = task, worker, limit
        self.asks_board, self.prefix = False, ""

    def result(self, **fields: object) -> JobResult:
        """Returns a result of this attempt: finished and INCONCLUSIVE unless the fields say otherwise."""
        known = {"ending": "finished", "worker": self._worker.name, **fields}
        return JobResult(self.task.job, self.task.attempt, **known)  # type: ignore[arg-type]

    def run(self) -> JobResult:
        """Runs it in this process. Raises LinkError, QVerifyError, OSError."""
        artifacts = self._worker.artifacts(self.task.artifacts)
        if not artifacts.has_room():
            raise StoreFullError("the artifact store is full")
        with self._worker.files.tree(self.task.files, artifacts) as folder:
            return self.run_in(folder, artifacts)

    def run_in(self, folder: Path, artifacts: Artifacts | None) -> JobResult:
        """Runs it on the files of this folder. artifacts: gets the report; None keeps none."""
        self.prefix = os.path.join(folder, "")
        asked = self._worker.job_requests.of(self.task, folder)
        results = self._host_results(asked, folder)
        models, vendor = self._worker.opened(asked)
        with contextlib.ExitStack() as stack:
            capture = ""
            if self.task.keep_capture and artifacts is not None:
                made = tempfile.TemporaryDirectory(prefix="capture-", dir=self._worker.folder)
                capture = os.path.join(stack.enter_context(made), "capture")
            with _board_taken(self._worker, self.task.board_name):
                job = FarmJob(asked.request, Opened(models, vendor, StoredSides(models, results)), capture)
                self.asks_board = True
                outcome = self._verified(asked, job)
                held = time.monotonic() - job.held_since if job.held_since is not None else 0.0
            self.asks_board = False
            if isinstance(job.unreached, BoardBusy):
                raise job.unreached
            fields = verdict_fields(outcome.report)
            broken = bool(job.broke) and outcome.report.verdict == "INCONCLUSIVE"
            if broken and self._limit.over:
                fields["why"] = f"the job took longer than its {self.task.timeout_s:g} s"
            report = kept = ""
            if artifacts is not None:
                report = _put_report(outcome.report, self.prefix, artifacts)
                kept = _put_capture(capture, artifacts) if job.captures else ""
        return self.result(
            **fields, of_board=broken, board_seconds=round(held, 6), report=report, capture=kept, facts=job.facts
        )

    def _verified(self, asked: JobRequest, job: FarmJob) -> Outcome:
        if asked.frames is None:
            return verify(asked.request, job=job)
        return verify_frames(asked.request, asked.frames, lambda row: None, job=job)

    def _host_results(self, asked: JobRequest, folder: Path) -> dict[str, HostResult]:
        """Returns the host's results for each frame by the digest of its inputs, computed where they are missing; a frame
        that cannot be prepared has none."""
        with self._worker.alone(f"host {asked.models_key} {self.task.inputs}"):
            if not self._worker.is_open(asked):  # whatever opening these models may do was done there first
                self._worker.host_processes.compute(self.task, folder, self._limit)
            for _ in range(TRIES):
                results, missing = self._stored(asked)
                if not missing:
                    return results
                self._worker.host_processes.compute(self.task, folder, self._limit)
        results, missing = self._stored(asked)
        if missing:
            raise QVerifyError("the results of the reference and the simulator do not stay in this host's cache")
        return results

    def _stored(self, asked: JobRequest) -> tuple[dict[str, HostResult], bool]:
        """Returns the results that are stored, and whether any is missing."""
        models, _ = self._worker.opened(asked)
        results, missing = dict[str, HostResult](), False
        for inputs in asked.frame_inputs():
            self._limit.left()
            with contextlib.suppress(QVerifyError):
                prepared = prepared_inputs(models.graph, inputs)
                key = result_key(asked.models_key, prepared.sha256, asked.request.run_sim)
                found = self._worker.results.get(key, models.graph)
                missing = missing or found is None
                if found is not None:
                    results[prepared.sha256] = found
        return results, missing

    def isolated(self) -> JobResult:
        """Runs it in a process of its own; the result is "lost" where that ends."""
        child = Child(ISOLATED)
        request = {"task": replace(self.task, isolated=False).to_json(), "folder": str(self._worker.folder)}
        try:
            answer = child.ask(request, Deadline(self._limit.left() + MORE_S, "the job's process", "the job's timeout"))
            return replace(JobResult.from_json(answer), worker=self._worker.name)
        except ChildDied as error:
            return self.result(ending="lost", why=f"the job's process {error}")
        except LinkTimeout:
            self.asks_board = True
            raise
        finally:
            child.close()


@contextlib.contextmanager
def _board_taken(worker: JobWorker, name: str) -> Iterator[None]:
    """Holds a board among the workers of this cache: also one that has no lock of its own, such as `local`, runs one job at
    a time. Raises BoardBusy."""
    lock = board_lock(worker, name)
    try:
        yield
    finally:
        lock.close()


def board_lock(worker: JobWorker, name: str) -> HostLock:
    """Takes the lock of a board's name. Raises BoardBusy."""
    return HostLock(Address("farm", f"{worker.folder.absolute()}\0{name}"), worker.name, 0.0)


def _put_report(report: Report, prefix: str, artifacts: Artifacts) -> str:
    """Stores the report as JSON, without the prefix of its paths. Returns its digest."""
    text = json.dumps(report.to_json(), allow_nan=False)
    return artifacts.put_bytes(text.replace(json.dumps(prefix)[1:-1], "").encode()).sha256


def _put_capture(folder: str, artifacts: Artifacts) -> str:
    """Stores the capture's folder as a .tar. Returns its digest."""
    path = f"{folder}.tar"
    with tarfile.open(path, "w") as archive:
        for name in sorted(os.listdir(folder)):
            archive.add(os.path.join(folder, name), name)
    return artifacts.put_file(path).sha256
