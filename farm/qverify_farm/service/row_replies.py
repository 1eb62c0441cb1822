"""Converts rows of the database into the API's replies."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from qverify_farm.service.schemas.lab import BoardShort
from qverify_farm.service.schemas.runs import AttemptShort, JobShort, RunShort
from qverify_farm.service.triage_engine import TRIAGE_WANTED, is_lane
from qverify_farm.store.runs import passed_with_caveats
from qverify_farm.store.tables import AttemptRecord, AuditRecord, BoardRecord, JobRecord, SuiteRunRecord

JOB_FIELDS = [name for name in JobShort.model_fields if name != "waits"]
RUN_FIELDS = [n for n in RunShort.model_fields if n not in ("project", "counts", "note", "models", "boards")]
MAX_NAMES = 1000  # different pairs of model and board of runs that a reply lists
MAX_DRAINS = 1000  # number of the last entries of the audit that are searched for the reason of a drained board
ATTEMPT_FIELDS = [name for name in AttemptShort.model_fields]


def job_values(job: JobRecord, waits: str) -> dict[str, Any]:
    """Returns the fields of JobShort. waits: why the job waits, or "". For a triage, which runs in a lane instead of on a board, the board is left out."""
    values = {name: getattr(job, name) for name in JOB_FIELDS} | {"waits": waits}
    if TRIAGE_WANTED in job.wanted:
        values |= {"board": None, "wanted": []}
    return values


def job_reply(job: JobRecord, waits: str) -> JobShort:
    return JobShort(**job_values(job, waits))


def attempt_reply(attempt: AttemptRecord) -> AttemptShort:
    board = "" if is_lane(attempt.board) else attempt.board
    return AttemptShort(**({name: getattr(attempt, name) for name in ATTEMPT_FIELDS} | {"board": board}))


def run_reply(
    run: SuiteRunRecord, project: str, counts: Mapping[str, int], names: tuple[list[str], list[str]]
) -> RunShort:
    """Returns the reply for a run. project: the name of its project. names: the models and boards of its jobs."""
    note = str(run.definition.get("note", ""))
    values = {name: getattr(run, name) for name in RUN_FIELDS}
    return RunShort(project=project, counts=dict(counts), note=note, models=names[0], boards=names[1], **values)


def names_in_runs(session: Session, runs: Iterable[str]) -> dict[str, tuple[list[str], list[str]]]:
    """Returns, for each run, the models of its jobs and the boards that took them, each once and sorted."""
    found: dict[str, tuple[list[str], list[str]]] = {run: ([], []) for run in runs}
    query = select(JobRecord.run, JobRecord.model, JobRecord.board).where(JobRecord.run.in_(found)).distinct()
    for run, model, board in session.execute(query.order_by(JobRecord.model, JobRecord.board).limit(MAX_NAMES)):
        models, boards = found[run]
        if model not in models:
            models.append(model)
        if board and not is_lane(board) and board not in boards:
            boards.append(board)
    return found


def counts_of_runs(session: Session, runs: Iterable[str]) -> dict[str, dict[str, int]]:
    """Returns, for each run, the number of jobs in each state and with each verdict, and of jobs that PASSED with caveats."""
    counts: dict[str, dict[str, int]] = {run: {} for run in runs}
    for run, number in passed_with_caveats(session, counts).items():
        counts[run]["caveats"] = number
    rows = session.execute(
        select(JobRecord.run, JobRecord.state, JobRecord.verdict, func.count())
        .where(JobRecord.run.in_(counts))
        .group_by(JobRecord.run, JobRecord.state, JobRecord.verdict)
    )
    for run, state, verdict, number in rows:
        run_counts = counts[run]
        run_counts[state] = run_counts.get(state, 0) + number
        if verdict is not None:
            run_counts[verdict] = run_counts.get(verdict, 0) + number
    return counts


def board_reply(board: BoardRecord, visible_jobs: set[str] | None, drain_reasons: Mapping[str, str]) -> BoardShort:
    """Returns the reply for a board. drain_reasons: those of drain_reasons_of(). visible_jobs: ids of the jobs that the caller may
    see, or None for all. The id, the verdict and the messages of other jobs are left out."""
    may_see_job = visible_jobs is None or board.job in visible_jobs
    may_see_last_job = visible_jobs is None or board.last_job in visible_jobs
    return BoardShort(
        name=board.name,
        host=board.host,
        tags=dict(board.tags or {}),
        state=board.state,
        drained=board.drained,
        reason=visible_reason(board, visible_jobs, drain_reasons),
        since=board.since,
        job=board.job if may_see_job else None,
        last_verdict=board.last_verdict if may_see_last_job else None,
        next_check=board.next_check,
        facts=dict(board.facts or {}),
    )


def visible_reason(board: BoardRecord, visible_jobs: set[str] | None, drain_reasons: Mapping[str, str]) -> str:
    """Returns why a board is not usable, without the message of a job that the caller may not see."""
    if board.drained:
        reason = drain_reasons.get(board.name, "")
        return f"drained: {reason}" if reason else "drained"
    return board.reason if visible_jobs is None else board.reason.partition("; the last: ")[0]


def visible_job_ids(session: Session, project: str | None, boards: Iterable[BoardRecord]) -> set[str] | None:
    """Returns the ids of the boards' jobs that belong to a caller's project, or None for a caller of all projects."""
    if project is None:
        return None
    jobs = {job for row in boards for job in (row.job, row.last_job) if job}
    query = select(JobRecord.id).join(SuiteRunRecord, SuiteRunRecord.id == JobRecord.run)
    return set(session.scalars(query.where(JobRecord.id.in_(jobs), SuiteRunRecord.project == project)))


def drain_reasons_of(session: Session, boards: Iterable[BoardRecord]) -> dict[str, str]:
    """Returns the reasons that administrators gave when they drained these boards, by board."""
    drained = {board.name for board in boards if board.drained}
    reasons: dict[str, str] = {}
    if drained:
        entries = select(AuditRecord.content).where(AuditRecord.action == "board.drain")
        for content in session.scalars(entries.order_by(AuditRecord.number.desc()).limit(MAX_DRAINS)):
            if content.get("board") in drained:
                reasons.setdefault(str(content["board"]), str(content.get("reason") or ""))
    return reasons
