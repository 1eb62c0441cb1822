"""Rows of the database made a SuiteReport: verdict, trends against the last runs, flaky nodes and boards."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, cast

from sqlalchemy import select
from sqlalchemy.orm import Session

from qverify_farm.store.jobs import PastJob, attempts_of, done_jobs, jobs_of
from qverify_farm.store.runs import past_runs
from qverify_farm.store.states import CANCELLED, DONE, FAILED, INCONCLUSIVE, PASSED, QUEUED, RUNNING
from qverify_farm.store.tables import Attempt, Baseline, Job, SuiteRun
from qverify_farm.store.verdicts import is_known, verdict_of
from qverify_farm.suites.suite_report import BoardRow, Change, FlakyNode, JobRow, PastRun, SuiteReport, Verdict

PAST_RUNS = 10
FEW_ATTEMPTS, FLAKY_PART = 10, 0.1


def summarize(session: Session, run: SuiteRun, past_runs_shown: int = PAST_RUNS) -> SuiteReport:
    """Returns the report of a run, whatever of it is done."""
    jobs, attempts = jobs_of(session, run.id), attempts_of(session, run.id)
    earlier = past_runs(session, run, past_runs_shown)
    past = done_jobs(session, [one.id for one in earlier])
    baselines = _baselines(session, run) if run.definition.get("baseline") else {}
    rows = rows_of(jobs, attempts, past, baselines)
    verdict = run.verdict or verdict_of(session, run, jobs)
    labels = {one.id: json.dumps(one.labels, sort_keys=True) for one in (run, *earlier)}
    return SuiteReport(
        run.id,
        run.name,
        cast(Verdict, verdict),
        cast(Any, run.state),
        run.why,
        run.submitter,
        run.created,
        run.started,
        run.ended,
        {str(k): str(v) for k, v in (run.labels or {}).items()},
        counts_of(jobs),
        rows,
        board_rows(attempts, {job.id: job for job in jobs}),
        flaky_nodes([*done_jobs(session, [run.id]), *past], run.id, labels),
        _past_rows(earlier, past),
        run.qverify,
    )


def _baselines(session: Session, run: SuiteRun) -> dict[str, Baseline]:
    rows = session.scalars(select(Baseline).where(Baseline.project == run.project, Baseline.suite == run.name))
    return {row.job: row for row in rows}


def counts_of(jobs: Iterable[Job]) -> dict[str, int]:
    """Returns how many jobs are in each state, and how many have each verdict."""
    counts = dict.fromkeys((QUEUED, RUNNING, DONE, CANCELLED, PASSED, FAILED, INCONCLUSIVE), 0)
    for job in jobs:
        counts[job.state] += 1
        if job.verdict is not None:
            counts[job.verdict] += 1
    return counts


def rows_of(
    jobs: Sequence[Job], attempts: Sequence[Attempt], past: Sequence[PastJob], baselines: Mapping[str, Baseline]
) -> list[JobRow]:
    """Returns a row for each job. past: done jobs of earlier runs, the newest run first."""
    before: dict[str, PastJob] = {}
    for job in past:
        before.setdefault(job.name, job)
    seconds: dict[str, float] = defaultdict(float)
    tries = Counter[str]()
    for one in attempts:
        seconds[one.job] += one.seconds
        tries[one.job] += one.ending not in (None, "busy")
    return [_row(job, before.get(job.name), baselines.get(job.name), tries[job.id], seconds[job.id]) for job in jobs]


def _row(job: Job, before: PastJob | None, baseline: Baseline | None, attempts: int, seconds: float) -> JobRow:
    change = change_of(job, before)
    if baseline is not None and is_known(job, baseline):
        change = "known"
    return JobRow(
        job.name,
        job.model,
        cast(Any, job.state),
        job.board or "",
        cast("Verdict | None", job.verdict),
        job.why if job.verdict != PASSED else "",
        job.blame_side,
        job.blame_node,
        [str(node) for node in job.nodes or ()],
        attempts,
        round(seconds, 3),
        round(job.board_seconds, 3),
        job.report,
        job.capture,
        change,
        cast("Verdict | None", before.verdict if before is not None else None),
        {str(k): str(v) for k, v in (job.facts or {}).items()},
    )


def change_of(job: Job, before: PastJob | None) -> Change:
    """Returns what is new of a job's verdict against its last one: nothing for a first one that PASSED."""
    if job.verdict is None:
        return ""
    was = before.verdict if before is not None else None
    if job.verdict == PASSED:
        return "mended" if was in (FAILED, INCONCLUSIVE) else ""
    if job.verdict == INCONCLUSIVE:
        return "new inconclusive" if was != INCONCLUSIVE else ""
    if was != FAILED or before is None:
        return "new failure"
    return "changed cause" if _cause(job) != _cause(before) else ""


def _cause(job: Job | PastJob) -> tuple[str, str, tuple[str, ...]]:
    return (job.blame_side, job.blame_node, tuple(sorted(job.nodes or ())))


def flaky_nodes(jobs: Iterable[PastJob], run: str, labels: Mapping[str, str]) -> list[FlakyNode]:
    """Returns jobs of a run that gave different results on one board for the same bytes, in its repeats or in earlier runs
    of the same labels. labels: of each run: another firmware may well give another result."""
    groups: dict[tuple[str, str, str, str], list[PastJob]] = defaultdict(list)
    for job in jobs:
        if job.verdict in (PASSED, FAILED) and job.board and job.content:
            groups[job.name.partition(" #")[0], job.board, job.content, labels.get(job.run, "")].append(job)
    found = []
    for (name, board, *_), same in groups.items():
        results = Counter(_result(job) for job in same)
        if len(results) > 1 and any(job.run == run for job in same):
            sets = [set(job.nodes or ()) for job in same]
            nodes = sorted(set[str]().union(*sets) - sets[0].intersection(*sets))
            found.append(FlakyNode(name, board, nodes, dict(results.most_common())))
    return sorted(found, key=lambda one: (one.job, one.board))


def _result(job: PastJob) -> str:
    nodes = ", ".join(sorted(job.nodes or ())[:3])
    return f"{job.verdict} at {nodes}" if nodes and job.verdict == FAILED else str(job.verdict)


def board_rows(attempts: Iterable[Attempt], jobs: Mapping[str, Job]) -> list[BoardRow]:
    """Returns what each board did in these attempts."""
    by_board: dict[str, list[Attempt]] = defaultdict(list)
    for one in attempts:
        if one.ending in ("finished", "lost"):
            by_board[one.board].append(one)
    return [_board_row(board, tried, jobs) for board, tried in sorted(by_board.items())]


def _board_row(board: str, tried: Sequence[Attempt], jobs: Mapping[str, Job]) -> BoardRow:
    spoiled = [one for one in tried if one.ending == "lost" or one.verdict == INCONCLUSIVE]
    alone = [one for one in spoiled if jobs[one.job].verdict in (PASSED, FAILED)]
    many = len(tried) >= FEW_ATTEMPTS and len(spoiled) >= FLAKY_PART * len(tried)
    held = sum(job.board_seconds for job in jobs.values() if job.board == board)
    why = spoiled[-1].why if spoiled else ""
    return BoardRow(board, len(tried), round(held, 3), len(spoiled), bool(alone) or many, why)


def _past_rows(runs: Sequence[SuiteRun], jobs: Sequence[PastJob]) -> list[PastRun]:
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for job in jobs:
        counts[job.run][str(job.verdict)] += 1
    return [
        PastRun(
            run.id,
            run.created,
            cast("Verdict | None", run.verdict),
            {str(k): str(v) for k, v in (run.labels or {}).items()},
            counts[run.id][PASSED],
            counts[run.id][FAILED],
            counts[run.id][INCONCLUSIVE],
        )
        for run in runs
    ]
