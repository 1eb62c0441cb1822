"""Makes runs and jobs from submissions, and reports all mistakes of a submission at once."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from qverify import __version__
from qverify.errors import UsageError
from qverify.plural import count
from sqlalchemy import func, select, update
from sqlalchemy.orm import Session

from qverify_farm.service.access import Scope
from qverify_farm.service.board_time import check_board_time
from qverify_farm.service.errors import ApiError, too_busy
from qverify_farm.service.farm import add_audit
from qverify_farm.service.schemas.runs import Submission, Submitted, SuiteDefinition, SuiteJob, Verification
from qverify_farm.store.runs import NewJob, NewRun, submit_run
from qverify_farm.store.states import QUEUED, RUNNING
from qverify_farm.store.tables import ArtifactRecord, JobRecord, ProjectArtifactRecord, ProjectRecord, SuiteRunRecord
from qverify_farm.suites.board_words import BoardTags, parse_board_words
from qverify_farm.suites.toml_table import Mistakes
from qverify_farm.work.file_cache import check_paths
from qverify_farm.work.job_options import FILES, check_options, paths_of

DIGESTS_PER_STATEMENT = 500
MAX_JOBS = 100_000
MAX_REPORTED_MISTAKES = 20
Digests = dict[str, tuple[str, int]]


@dataclass(slots=True)
class SubmissionCheck:
    """The check of a submission.

    Attributes:
        digests: SHA-256 and size of each file, by path.
        contents: The content digest of each kind of job that has been checked, by the fields that determine it.
    """

    digests: Digests
    mistakes: Mistakes = field(default_factory=Mistakes)
    contents: dict[str, str] = field(default_factory=dict)

    def raise_mistakes(self) -> None:
        """Raises ApiError 422 if there are mistakes."""
        lines = self.mistakes.lines
        if lines:
            more = f"; and {len(lines) - MAX_REPORTED_MISTAKES} more" if len(lines) > MAX_REPORTED_MISTAKES else ""
            what = lines[0] if len(lines) == 1 else f"{count(len(lines), 'mistake')}"
            raise ApiError(422, what, got="; ".join(lines[:MAX_REPORTED_MISTAKES]) + more if len(lines) > 1 else "")


def submit_verification(scope: Scope, submission: Verification, key: str | None = None) -> Submitted:
    """Submits the main job for each board. key: as for submit()."""
    check = SubmissionCheck(find_files(scope, submission))
    _check_names(submission.models, check)
    settings = _settings(submission, submission.models, sorted(submission.files), check, "")
    boards = parse_board_words(submission.boards, (), tags_of_boards(scope), "", check.mistakes)
    model = submission.models[0].rsplit("/", 1)[-1].removesuffix(".onnx")
    jobs = [
        NewJob(f"{model} {word.label}"[:500], model[:200], word.wanted, settings, submission.retries) for word in boards
    ]
    check.raise_mistakes()
    definition = {"board_wait_s": submission.board_wait_s, "quarantine": 3}
    return submit(scope, submission, submission.name or model[:200], "verify", definition, jobs, check.digests, key)


def submit_suite(scope: Scope, submission: SuiteDefinition, key: str | None = None) -> Submitted:
    """Submits a suite that the client has expanded into jobs. key: as for submit()."""
    check = SubmissionCheck(find_files(scope, submission))
    board_tags = tags_of_boards(scope)
    names = set[str]()
    for job in submission.jobs:
        if job.name in names:
            check.mistakes.add("jobs", f"{job.name}: named twice")
        names.add(job.name)
    jobs = list(_suite_jobs(submission.jobs, board_tags, check))
    check.raise_mistakes()
    keys = ("fail_fast", "timeout_s", "board_wait_s", "quarantine", "baseline")
    definition = {key: getattr(submission, key) for key in keys}
    return submit(scope, submission, submission.name, "suite", definition, jobs, check.digests, key)


def _suite_jobs(submission: Iterable[SuiteJob], board_tags: BoardTags, check: SubmissionCheck) -> Iterator[NewJob]:
    wanted_by_words = dict[tuple[str, ...], tuple[str, ...]]()
    for job in submission:
        key = tuple(job.wanted)
        if key not in wanted_by_words:
            board_words = parse_board_words(key, (), board_tags, job.name, check.mistakes)
            wanted_by_words[key] = tuple(wanted for board_word in board_words for wanted in board_word.wanted)
        _check_names([*job.models, *(path for path in job.files if not path.endswith("/"))], check, job.name)
        settings = _settings(job, job.models, job.files, check, job.name)
        yield NewJob(job.name, job.model, wanted_by_words[key], settings, job.retries)


def _check_names(paths: Iterable[str], check: SubmissionCheck, where: str = "") -> None:
    for path in paths:
        if path not in check.digests:
            check.mistakes.add(where, f"{path}: none of the files")


def _settings(
    job: Verification | SuiteJob, models: list[str], files: list[str], check: SubmissionCheck, where: str
) -> dict[str, Any]:
    """Returns the settings of a job. Mistakes in options, inputs and files are added once for each kind of job."""
    key = json.dumps([models, files, job.inputs, job.options], sort_keys=True)
    settings = {
        "models": list(models),
        "inputs": job.inputs,
        "options": dict(job.options),
        "files": list(files),
        "timeout_s": job.timeout_s,
        "keep_capture": job.keep_capture,
    }
    if key not in check.contents:
        folders = tuple(word for word in files if word.endswith("/"))
        job_files = {p for p in check.digests if p in files or (folders and p.startswith(folders))}
        for line in check_options(job.options, job_files, bool(job.inputs)):
            check.mistakes.add(where, line)
        option_paths = {
            *models,
            *(path for option in FILES & job.options.keys() for path in paths_of(job.options[option])),
        }
        for part in job.inputs.split(",") if job.inputs else ():
            if not any(
                _names_files(part[at:], job_files) for at in (0, *(n + 1 for n, c in enumerate(part) if c == ":"))
            ):
                check.mistakes.add(where, f"inputs {part[:100]!r}: none of the job's files, and no folder of them")
        if missing := {p for p in option_paths - job_files if not any(f.startswith(f"{p}/") for f in job_files)}:
            check.mistakes.add(where, f"{min(missing)[:100]}: none of the job's files")
        check.contents[key] = _content_digest(settings, {path: check.digests[path] for path in job_files})
    return settings | {"content": check.contents[key]}


def _names_files(text: str, files: set[str]) -> bool:
    path = text.rstrip("/")
    return bool(path) and (path in files or any(file.startswith(f"{path}/") for file in files))


def _content_digest(settings: Mapping[str, Any], digests: Mapping[str, tuple[str, int]]) -> str:
    """Returns a digest of everything that a job's results depend on: files, options, inputs and the version of qverify."""
    file_digests = sorted((path, list(file)) for path, file in digests.items())
    parts = [settings["models"], settings["inputs"], settings["options"], file_digests, __version__]
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


def tags_of_boards(scope: Scope) -> BoardTags:
    """Returns the tags of the boards that workers reach now or have reached before."""
    from qverify_farm.service.triage_engine import is_lane
    from qverify_farm.store.boards import all_boards

    with scope.farm.database.read() as session:
        board_tags = {row.name: {str(k): str(v) for k, v in (row.tags or {}).items()} for row in all_boards(session)}
    board_tags |= {name: dict(board.tags) for name, board in scope.farm.engine.boards().items()}
    return {name: tags for name, tags in board_tags.items() if not is_lane(name)}


def find_files(scope: Scope, submission: Submission) -> Digests:
    """Returns the digests and sizes of a submission's files, by path. Raises ApiError 422 for illegal paths, and for files that
    the project has not uploaded."""
    try:
        check_paths(list(submission.files))
    except UsageError as error:
        raise ApiError(422, str(error), where="files") from None
    digests_in_order = sorted(set(submission.files.values()))
    sizes: dict[str, int] = {}
    with scope.farm.database.read() as session:
        for at in range(0, len(digests_in_order), DIGESTS_PER_STATEMENT):
            part = digests_in_order[at : at + DIGESTS_PER_STATEMENT]
            rows = session.execute(
                select(ArtifactRecord.sha256, ArtifactRecord.size)
                .join(ProjectArtifactRecord, ProjectArtifactRecord.sha256 == ArtifactRecord.sha256)
                .where(ProjectArtifactRecord.project == scope.project, ArtifactRecord.sha256.in_(part))
            )
            sizes |= {sha256: size for sha256, size in rows}
    missing = sorted(path for path, sha256 in submission.files.items() if sha256 not in sizes)
    if missing:
        first_missing = ", ".join(missing[:10])
        raise ApiError(
            422,
            f"the bytes of {count(len(missing), 'file')} are not here",
            where="files",
            got=first_missing,
            next="PUT /api/v1/artifacts/SHA256 first",
        )
    return {path: (sha256, sizes[sha256]) for path, sha256 in submission.files.items()}


def submit(
    scope: Scope,
    submission: Submission,
    name: str,
    kind: str,
    definition: Mapping[str, Any],
    jobs: list[NewJob],
    digests: Digests,
    key: str | None = None,
) -> Submitted:
    """Submits jobs, if the project's quotas permit, and wakes the dispatcher. key: the Idempotency-Key of the request; the run's id
    is made from it, so that a repeated request finds the run."""
    import time

    if len(jobs) > MAX_JOBS:
        raise ApiError(422, f"{len(jobs)} jobs", wanted=f"at most {MAX_JOBS}")
    full_definition = {"name": name, "files": {path: list(file) for path, file in digests.items()}, **definition}
    run_id = ""
    if key is not None:
        run_id = hashlib.sha256(f"{scope.project}\0{key}".encode()).hexdigest()[:32]
        full_definition["submission"] = _submission_digest(kind, submission)
    new_run = NewRun(
        scope.project,
        name,
        scope.caller.name,
        full_definition,
        dict(submission.labels),
        kind,
        submission.priority,
        run_id,
    )
    with scope.farm.database.write() as session:
        project = session.get_one(ProjectRecord, scope.project, with_for_update=True)
        if run_id and (earlier := session.get(SuiteRunRecord, run_id)) is not None:
            return _submitted_earlier(session, earlier, full_definition)
        if len(jobs) > project.quota_jobs:
            raise ApiError(
                422,
                f"{count(len(jobs), 'job')} at once",
                where="jobs",
                wanted=f"at most {project.quota_jobs}, the project's quota of queued jobs",
                next="submit fewer at a time, or ask the administrator for a larger quota",
            )
        waiting = queued_jobs(session, scope.project)
        if waiting + len(jobs) > project.quota_jobs:
            raise too_busy(f"the project's quota of {project.quota_jobs} queued jobs is full: {waiting} wait", 60)
        check_board_time(session, project, scope.caller.name, jobs)
        _mark_used(session, scope.project, digests, time.time())
        run = submit_run(session, new_run, jobs)
        content = {"run": run.id, "name": name, "kind": kind, "jobs": len(jobs)}
        add_audit(session, scope.caller, scope.request, "run.submit", scope.project, **content)
    scope.farm.wake()
    return Submitted(id=run.id, jobs=len(jobs))


def _submission_digest(kind: str, submission: Submission) -> str:
    text = json.dumps([kind, submission.model_dump(mode="json")], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


def _submitted_earlier(session: Session, run: SuiteRunRecord, definition: Mapping[str, Any]) -> Submitted:
    """Returns the run that an earlier request with the same key made. Raises ApiError 422 if that request had another body."""
    if run.definition.get("submission") != definition["submission"]:
        raise ApiError(
            422,
            "another submission had this key",
            where="header.Idempotency-Key",
            next="take a new random key for each submission",
        )
    jobs = session.scalar(select(func.count()).select_from(JobRecord).where(JobRecord.run == run.id))
    return Submitted(id=run.id, jobs=int(jobs or 0))


def _mark_used(session: Session, project: str, digests: Digests, now: float) -> None:
    digests_in_order = sorted({sha256 for sha256, _ in digests.values()})
    for at in range(0, len(digests_in_order), DIGESTS_PER_STATEMENT):
        part = digests_in_order[at : at + DIGESTS_PER_STATEMENT]
        rows = (ProjectArtifactRecord.project == project) & ProjectArtifactRecord.sha256.in_(part)
        session.execute(update(ProjectArtifactRecord).where(rows).values(used=now))


def queued_jobs(session: Session, project: str) -> int:
    """Returns the number of jobs of a project that wait or run."""
    query = select(func.count()).select_from(JobRecord).join(SuiteRunRecord, SuiteRunRecord.id == JobRecord.run)
    return int(
        session.scalar(query.where(SuiteRunRecord.project == project, JobRecord.state.in_((QUEUED, RUNNING)))) or 0
    )
