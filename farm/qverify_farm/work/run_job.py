"""Runs one attempt of one job: files, host results, the board, the verdict, the report."""

from __future__ import annotations

import contextlib
import json
import os
import tarfile
import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from qverify.errors import BadFileError, MissingExtraError, QVerifyError, UnsupportedError, UsageError
from qverify.inputs.sources import prepared_inputs
from qverify.report.document import ReportDocument
from qverify.report.report_json import to_json
from qverify.session.host_sides import HostSides
from qverify.session.job import JobOutcome, OpenedModels, verify
from qverify.session.many_frames import verify_frames
from qverify.session.models import Models
from qverify.session.sequence.verify_sequence import verify_sequence
from qverify_agents.address import Address
from qverify_agents.deadline import Deadline, apply_time_limit
from qverify_agents.errors import BoardBusy, LinkError, LinkTimeout
from qverify_agents.host_lock import HostLock

from qverify_farm.errors import StoreUnavailableError
from qverify_farm.store.artifact_backends import FULL_DISK
from qverify_farm.store.artifacts import ArtifactStore
from qverify_farm.work.child import Child, ChildDied
from qverify_farm.work.engine_results import StoredEngines
from qverify_farm.work.farm_job import FarmJob
from qverify_farm.work.host_results import HostResult, HostResultDamaged
from qverify_farm.work.job_limit import JobLimit
from qverify_farm.work.job_request import JobRequest
from qverify_farm.work.job_result import shortened, verdict_fields
from qverify_farm.work.job_task import JobResult, JobTask
from qverify_farm.work.stored_sides import StoredSides
from qverify_farm.work.worker import JobWorker

ISOLATED = "qverify_farm.work.isolated_job"
EXTRA_S = 30.0  # beyond the job's timeout, for the process of an isolated job to end by itself
MISTAKES = (BadFileError, UnsupportedError, UsageError)  # of whoever submitted the job
READ_TRIES = 3  # attempts to read host results, which another process may remove in between


def run_job(task: JobTask, worker: JobWorker, limit: JobLimit | None = None, may_isolate: bool = True) -> JobResult:
    """Runs an attempt and returns its result. Only exceptions that end the process, such as KeyboardInterrupt, are raised.
    limit: lets the caller end the attempt. may_isolate: whether this process may start another one for it."""
    start, limit = time.monotonic(), limit or JobLimit(task.timeout_s)
    attempt = RunningAttempt(task, worker, limit)
    with worker.running(task.job, limit), apply_time_limit(limit):
        try:
            isolates = may_isolate and (task.isolated or attempt.is_sequence)
            result = attempt.run_isolated() if isolates else attempt.run()
        except (BoardBusy, StoreUnavailableError) as error:
            result = attempt.result(ending="busy", why=str(error))
        except LinkError as error:
            result = attempt.result(why=str(error), of_board=attempt.uses_board)
        except QVerifyError as error:
            refused = attempt.reads_job and isinstance(error, MISTAKES) and not isinstance(error, MissingExtraError)
            result = attempt.result(ending="refused" if refused else "finished", why=str(error))
        except OSError as error:
            full = error.errno in FULL_DISK
            where = f"{error.filename}: " if error.filename is not None else ""
            result = attempt.result(ending="busy" if full else "finished", why=f"{where}{error.strerror or error}")
        except Exception as error:
            result = attempt.result(why=f"internal error: {type(error).__name__}: {error}")
    result = replace(result, why=result.why.replace(attempt.prefix, "")) if attempt.prefix else result
    if limit.cancelled and result.verdict == "INCONCLUSIVE":
        result = replace(result, ending="cancelled", why="cancelled", of_board=False)
    return shortened(replace(result, seconds=round(time.monotonic() - start, 6)))


class RunningAttempt:
    """An attempt that is being run.

    Attributes:
        uses_board: Whether the board is in use, so that a link error is the board's fault.
        reads_job: Whether the job's own files and options are in use, so that they are the reason of a MISTAKES error.
        prefix: The folder of the job's files with a final slash; it is removed from the texts of results and reports.
    """

    def __init__(self, task: JobTask, worker: JobWorker, limit: JobLimit):
        self.task, self._worker, self._limit = task, worker, limit
        self.uses_board, self.reads_job, self.prefix = False, False, ""

    @property
    def is_sequence(self) -> bool:
        """Whether the job verifies the steps of a sequence. Their host results cannot be computed ahead, since the inputs of a
        step are results of the one before, so that the models run in this process."""
        return self.task.options.get("steps") is not None

    def result(self, **fields: object) -> JobResult:
        """Returns a result of this attempt with these fields. The defaults are "finished" and INCONCLUSIVE."""
        values = {"ending": "finished", "worker": self._worker.name, **fields}
        return JobResult(self.task.job, self.task.attempt, **values)  # type: ignore[arg-type]

    def run(self) -> JobResult:
        """Runs the attempt in this process. Raises LinkError, QVerifyError or OSError."""
        artifacts = self._worker.artifacts(self.task.artifacts)
        artifacts.check()
        with self._worker.files.tree(self.task.files, artifacts) as folder:
            return self.run_in(folder, artifacts)

    def run_in(self, folder: Path, artifacts: ArtifactStore | None) -> JobResult:
        """Runs the attempt with the files in this folder. artifacts: the store for the report, or None to store nothing. If
        stored host results turn out to be damaged, they are computed again, once."""
        try:
            return self._run_once(folder, artifacts)
        except HostResultDamaged:
            self.uses_board = False
            return self._run_once(folder, artifacts)

    def _run_once(self, folder: Path, artifacts: ArtifactStore | None) -> JobResult:
        self.prefix, self.reads_job = os.path.join(folder, ""), True
        job_request = self._worker.job_requests.of(self.task, folder)
        results = {} if self.is_sequence else self._host_results(job_request, folder)
        models, vendor = self._worker.open_models(job_request)
        engines = self._worker.engines(job_request, models)
        with contextlib.closing(engines), contextlib.ExitStack() as stack:
            if not self.is_sequence:
                self._run_engines(job_request, models, engines)  # before the board is held
            capture = ""
            if self.task.keep_capture and artifacts is not None:
                temporary = tempfile.TemporaryDirectory(prefix="capture-", dir=self._worker.folder)
                capture = os.path.join(stack.enter_context(temporary), "capture")
            with _hold_board(self._worker, self.task.board_name):
                host = HostSides(models, engines=engines) if self.is_sequence else StoredSides(models, results, engines)
                job = FarmJob(job_request.request, OpenedModels(models, vendor, host), job_request.sides, capture)
                self.uses_board = True
                with self._discard_damaged(job_request, results, engines):
                    outcome = self._verify(job_request, job)
                board_seconds = time.monotonic() - job.held_since if job.held_since is not None else 0.0
            self.uses_board = self.reads_job = False
            if isinstance(job.unreached, BoardBusy):
                raise job.unreached
            fields = verdict_fields(outcome.report)
            of_board = bool(job.broke) and outcome.report.verdict == "INCONCLUSIVE"
            if of_board and self._limit.over:
                fields["why"] = f"the job took longer than its {self.task.timeout_s:g} s"
            report_digest = capture_digest = ""
            if artifacts is not None:
                report_digest = _put_report(outcome.report, self.prefix, artifacts)
                capture_digest = _put_capture(capture, artifacts) if job.captures else ""
        return self.result(
            **fields,
            of_board=of_board,
            board_seconds=round(board_seconds, 6),
            report=report_digest,
            capture=capture_digest,
            facts=job.facts,
        )

    def _verify(self, job_request: JobRequest, job: FarmJob) -> JobOutcome:
        if self.is_sequence:
            return verify_sequence(job_request.request, job_request.frames, lambda row: None, job=job)
        if job_request.frames is None:
            return verify(job_request.request, job=job)
        return verify_frames(job_request.request, job_request.frames, lambda row: None, job=job)

    def _run_engines(self, job_request: JobRequest, models: Models, engines: StoredEngines) -> None:
        """Runs the engines that are further sides on every frame that can be prepared."""
        for inputs in job_request.frame_inputs() if job_request.sides.engines else ():
            self._limit.left()
            with contextlib.suppress(QVerifyError):
                prepared = prepared_inputs(models.graph, inputs)
                engines.run(prepared)

    def _host_results(self, job_request: JobRequest, folder: Path) -> dict[str, HostResult]:
        """Returns the host's results for each frame, by the digest of its prepared inputs. Missing results are computed first.
        A frame that cannot be prepared has no result."""
        with self._worker.hold_key(f"host {job_request.models_key} {self.task.inputs}"):
            if not self._worker.is_open(
                job_request
            ):  # models that crash the process must do it in the host process first
                self._worker.host_processes.compute(self.task, folder, self._limit)
            for _ in range(READ_TRIES):
                results, missing = self._read_stored(job_request)
                if not missing:
                    return results
                self._worker.host_processes.compute(self.task, folder, self._limit)
        results, missing = self._read_stored(job_request)
        if missing:
            raise QVerifyError("the results of the reference and the simulator do not stay in this host's cache")
        return results

    @contextlib.contextmanager
    def _discard_damaged(
        self, job_request: JobRequest, results: dict[str, HostResult], engines: StoredEngines
    ) -> Iterator[None]:
        """Removes those of the results whose values turned out to be damaged in the `with` block, and raises HostResultDamaged
        if there are any, whatever the block made of it."""

        def check() -> None:
            self._check_undamaged({**{job_request.result_key(s): r for s, r in results.items()}, **engines.used})

        try:
            yield
        except Exception:
            check()
            raise
        check()

    def _check_undamaged(self, results: dict[str, HostResult]) -> None:
        """Discards damaged results, which are given by key, and raises HostResultDamaged if there are any."""
        damaged = {key: result for key, result in results.items() if result.values.damaged}
        for key, result in damaged.items():
            self._worker.results.discard(key, result)
        if damaged:
            raise HostResultDamaged("the results of the reference and the simulator changed in this host's cache")

    def _read_stored(self, job_request: JobRequest) -> tuple[dict[str, HostResult], bool]:
        """Returns the stored results, and whether any is missing."""
        models, _ = self._worker.open_models(job_request)
        results, missing = dict[str, HostResult](), False
        for inputs in job_request.frame_inputs():
            self._limit.left()
            with contextlib.suppress(QVerifyError):
                prepared = prepared_inputs(models.graph, inputs)
                result = self._worker.results.get(job_request.result_key(prepared.sha256), models.graph)
                missing = missing or result is None
                if result is not None:
                    results[prepared.sha256] = result
        return results, missing

    def run_isolated(self) -> JobResult:
        """Runs the attempt in a separate process. The result is "lost" if that process dies."""
        child = Child(ISOLATED)
        request = {"task": self.task.to_json(), "folder": str(self._worker.folder)}
        try:
            answer = child.ask(
                request, Deadline(self._limit.left() + EXTRA_S, "the job's process", "the job's timeout")
            )
            return replace(JobResult.from_json(answer), worker=self._worker.name)
        except ChildDied as error:
            return self.result(ending="lost", why=f"the job's process {error}")
        except LinkTimeout:
            self.uses_board = True
            raise
        finally:
            child.close()


@contextlib.contextmanager
def _hold_board(worker: JobWorker, name: str) -> Iterator[None]:
    """Reserves a board among the workers that share this cache folder, so that a board without a lock of its own, such as
    `local`, runs only one job at a time. Raises BoardBusy if another job has it."""
    lock = board_lock(worker, name)
    try:
        yield
    finally:
        lock.close()


def board_lock(worker: JobWorker, name: str) -> HostLock:
    """Takes and returns the lock of a board. Raises BoardBusy if another job has it."""
    return HostLock(Address("farm", f"{worker.folder.absolute()}\0{name}"), worker.name, 0.0)


def _put_report(report: ReportDocument, prefix: str, artifacts: ArtifactStore) -> str:
    """Stores the report as JSON, with the prefix removed from its paths, and returns its digest."""
    text = json.dumps(to_json(report), allow_nan=False)
    return artifacts.put_bytes(text.replace(json.dumps(prefix)[1:-1], "").encode()).sha256


def _put_capture(folder: str, artifacts: ArtifactStore) -> str:
    """Stores the capture's folder as a .tar file and returns its digest."""
    path = f"{folder}.tar"
    with tarfile.open(path, "w") as archive:
        for name in sorted(os.listdir(folder)):
            archive.add(os.path.join(folder, name), name)
    return artifacts.put_file(path).sha256
