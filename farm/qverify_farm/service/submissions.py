"""Makes runs and jobs of what was submitted, and says everything that is wrong with it at once."""

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
from qverify_farm.service.errors import ApiError, too_busy
from qverify_farm.service.farm import add_audit
from qverify_farm.service.schemas.runs import Submission, Submitted, SuiteDefinition, SuiteJob, Verification
from qverify_farm.store.runs import NewJob, NewRun, submit_run
from qverify_farm.store.states import QUEUED, RUNNING
from qverify_farm.store.tables import Artifact, Job, Project, ProjectArtifact, SuiteRun
from qverify_farm.suites.board_words import BoardTags, parse_board_words
from qverify_farm.suites.toml_table import Mistakes
from qverify_farm.work.file_cache import check_paths
from qverify_farm.work.job_options import FILES, check_options

AT_ONCE = 500  # digests of one statement
MOST_JOBS = 100_000
TOLD = 20  # mistakes of one submission that are told
Digests = dict[str, tuple[str, int]]


@dataclass(slots=True)
class Checked:
    """A submission being checked. digests: SHA-256 and bytes by path."""

    digests: Digests
    mistakes: Mistakes = field(default_factory=Mistakes)
    seen: dict[str, str] = field(default_factory=dict)  # content by everything that decides it

    def raise_mistakes(self) -> None:
        """Raises ApiError 422 where there are any."""
        lines = self.mistakes.lines
        if lines:
            more = f"; and {len(lines) - TOLD} more" if len(lines) > TOLD else ""
            what = lines[0] if len(lines) == 1 else f"{count(len(lines), 'mistake')}"
            raise ApiError(422, what, got="; ".join(lines[:TOLD]) + more if len(lines) > 1 else "")


def submit_verification(scope: Scope, asked: Verification) -> Submitted:
    """Submits the main job, one for each board."""
    checked = Checked(find_files(scope, asked))
    _check_names(asked.models, checked)
    settings = _settings(asked, asked.models, sorted(asked.files), checked, "")
    boards = parse_board_words(asked.boards, (), known_boards(scope), "", checked.mistakes)
    model = asked.models[0].rsplit("/", 1)[-1].removesuffix(".onnx")
    jobs = [NewJob(f"{model} {one.label}"[:500], model[:200], one.wanted, settings, asked.retries) for one in boards]
    checked.raise_mistakes()
    definition = {"board_wait_s": asked.board_wait_s, "quarantine": 3}
    return submit(scope, asked, asked.name or model[:200], "verify", definition, jobs, checked.digests)


def submit_suite(scope: Scope, asked: SuiteDefinition) -> Submitted:
    """Submits a suite that the caller has expanded into jobs."""
    checked = Checked(find_files(scope, asked))
    known = known_boards(scope)
    names = set[str]()
    for job in asked.jobs:
        if job.name in names:
            checked.mistakes.add("jobs", f"{job.name}: named twice")
        names.add(job.name)
    jobs = list(_suite_jobs(asked.jobs, known, checked))
    checked.raise_mistakes()
    keys = ("fail_fast", "timeout_s", "board_wait_s", "quarantine", "baseline")
    definition = {key: getattr(asked, key) for key in keys}
    return submit(scope, asked, asked.name, "suite", definition, jobs, checked.digests)


def _suite_jobs(asked: Iterable[SuiteJob], known: BoardTags, checked: Checked) -> Iterator[NewJob]:
    wanted_before = dict[tuple[str, ...], tuple[str, ...]]()
    for job in asked:
        key = tuple(job.wanted)
        if key not in wanted_before:
            found = parse_board_words(key, (), known, job.name, checked.mistakes)
            wanted_before[key] = tuple(word for one in found for word in one.wanted)
        _check_names([*job.models, *(one for one in job.files if not one.endswith("/"))], checked, job.name)
        settings = _settings(job, job.models, job.files, checked, job.name)
        yield NewJob(job.name, job.model, wanted_before[key], settings, job.retries)


def _check_names(paths: Iterable[str], checked: Checked, where: str = "") -> None:
    for path in paths:
        if path not in checked.digests:
            checked.mistakes.add(where, f"{path}: none of the files")


def _settings(
    job: Verification | SuiteJob, models: list[str], files: list[str], checked: Checked, where: str
) -> dict[str, Any]:
    """Returns the settings of a job; notes options that do not fit, of each kind of job once."""
    decides = json.dumps([models, files, job.inputs, job.options], sort_keys=True)
    settings = {
        "models": list(models),
        "inputs": job.inputs,
        "options": dict(job.options),
        "files": list(files),
        "timeout_s": job.timeout_s,
        "keep_capture": job.keep_capture,
    }
    if decides not in checked.seen:
        folders = tuple(word for word in files if word.endswith("/"))
        mine = {p for p in checked.digests if p in files or (folders and p.startswith(folders))}
        for line in check_options(job.options, mine, bool(job.inputs)):
            checked.mistakes.add(where, line)
        named = {*models, *(str(job.options[key]) for key in FILES & job.options.keys())}
        for part in job.inputs.split(",") if job.inputs else ():
            if not any(_covers(part[at:], mine) for at in (0, *(n + 1 for n, c in enumerate(part) if c == ":"))):
                checked.mistakes.add(where, f"inputs {part[:100]!r}: none of the job's files, and no folder of them")
        if lacking := named - mine:
            checked.mistakes.add(where, f"{min(lacking)[:100]}: none of the job's files")
        checked.seen[decides] = _content(settings, {path: checked.digests[path] for path in mine})
    return settings | {"content": checked.seen[decides]}


def _covers(text: str, files: set[str]) -> bool:
    path = text.rstrip("/")
    return bool(path) and (path in files or any(one.startswith(f"{path}/") for one in files))


def _content(settings: Mapping[str, Any], digests: Mapping[str, tuple[str, int]]) -> str:
    """Returns a digest of all that decides what a job computes: files, options, inputs, this version."""
    bytes_of = sorted((path, list(file)) for path, file in digests.items())
    parts = [settings["models"], settings["inputs"], settings["options"], bytes_of, __version__]
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


def known_boards(scope: Scope) -> BoardTags:
    """Returns the tags of the boards that live workers reach, and of those that did."""
    from qverify_farm.service.triage_engine import is_lane
    from qverify_farm.store.boards import all_boards

    with scope.farm.database.read() as session:
        known = {row.name: {str(k): str(v) for k, v in (row.tags or {}).items()} for row in all_boards(session)}
    known |= {name: dict(board.tags) for name, board in scope.farm.engine.boards().items()}
    return {name: tags for name, tags in known.items() if not is_lane(name)}


def find_files(scope: Scope, asked: Submission) -> Digests:
    """Returns the digests and sizes of a submission's files, by path. ApiError 422 for paths that do not fit, and for bytes
    that the project has not put."""
    try:
        check_paths(list(asked.files))
    except UsageError as error:
        raise ApiError(422, str(error), where="files") from None
    wanted = sorted(set(asked.files.values()))
    sizes: dict[str, int] = {}
    with scope.farm.database.read() as session:
        for at in range(0, len(wanted), AT_ONCE):
            part = wanted[at : at + AT_ONCE]
            rows = session.execute(
                select(Artifact.sha256, Artifact.size)
                .join(ProjectArtifact, ProjectArtifact.sha256 == Artifact.sha256)
                .where(ProjectArtifact.project == scope.project, Artifact.sha256.in_(part))
            )
            sizes |= {sha256: size for sha256, size in rows}
    lacking = sorted(path for path, sha256 in asked.files.items() if sha256 not in sizes)
    if lacking:
        shown = ", ".join(lacking[:10])
        raise ApiError(
            422,
            f"the bytes of {count(len(lacking), 'file')} are not here",
            where="files",
            got=shown,
            next="PUT /api/v1/artifacts/SHA256 first",
        )
    return {path: (sha256, sizes[sha256]) for path, sha256 in asked.files.items()}


def submit(
    scope: Scope,
    asked: Submission,
    name: str,
    kind: str,
    definition: Mapping[str, Any],
    jobs: list[NewJob],
    digests: Digests,
) -> Submitted:
    """Submits jobs within the project's quota, and wakes the dispatcher."""
    import time

    if len(jobs) > MOST_JOBS:
        raise ApiError(422, f"{len(jobs)} jobs", wanted=f"at most {MOST_JOBS}")
    whole = {"name": name, "files": {path: list(file) for path, file in digests.items()}, **definition}
    new = NewRun(scope.project, name, scope.caller.name, whole, dict(asked.labels), kind, asked.priority)
    with scope.farm.database.write() as session:
        project = session.get_one(Project, scope.project, with_for_update=True)
        waiting = queued_jobs(session, scope.project)
        if waiting + len(jobs) > project.quota_jobs:
            raise too_busy(f"the project's quota of {project.quota_jobs} queued jobs is full: {waiting} wait", 60)
        _mark_used(session, scope.project, digests, time.time())
        run = submit_run(session, new, jobs)
        content = {"run": run.id, "name": name, "kind": kind, "jobs": len(jobs)}
        add_audit(session, scope.caller, scope.request, "run.submit", scope.project, **content)
    scope.farm.wake()
    return Submitted(id=run.id, jobs=len(jobs))


def _mark_used(session: Session, project: str, digests: Digests, now: float) -> None:
    wanted = sorted({sha256 for sha256, _ in digests.values()})
    for at in range(0, len(wanted), AT_ONCE):
        part = wanted[at : at + AT_ONCE]
        rows = (ProjectArtifact.project == project) & ProjectArtifact.sha256.in_(part)
        session.execute(update(ProjectArtifact).where(rows).values(used=now))


def queued_jobs(session: Session, project: str) -> int:
    """Returns how many jobs of a project wait or run."""
    query = select(func.count()).select_from(Job).join(SuiteRun, SuiteRun.id == Job.run)
    return int(session.scalar(query.where(SuiteRun.project == project, Job.state.in_((QUEUED, RUNNING)))) or 0)
