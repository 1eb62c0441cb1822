"""Makes a SuiteReport from rows of the database: verdict, trends compared with earlier runs, flaky nodes and boards."""

from __future__ import annotations

import json
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, cast

from sqlalchemy import select
from sqlalchemy.orm import Session

from qverify_farm.store.jobs import PastJob, attempts_of, done_jobs, jobs_of
from qverify_farm.store.runs import past_runs
from qverify_farm.store.states import CANCELLED, DONE, FAILED, INCONCLUSIVE, PASSED, QUEUED, RUNNING
from qverify_farm.store.tables import AttemptRecord, BaselineRecord, JobRecord, SuiteRunRecord
from qverify_farm.store.verdicts import is_known, unlike_baseline, verdict_of
from qverify_farm.suites.suite_report import BoardRow, Change, FlakyNode, JobRow, PastRun, SuiteReport, Verdict
from qverify_farm.work.job_task import WITH_VERDICT

PAST_RUNS = 10
FEW_ATTEMPTS = 10  # with fewer attempts, the fraction of spoiled attempts does not make a board flaky
FLAKY_FRACTION = 0.1
GIVEN = re.compile(r"gave (\d+) of (\d+) tensors?")  # of report/weakenings and session/runner
OF_PASSED = re.compile(r"not bit-equal|node by node|not judged|have no elements|has no elements|when recomputed")


def summarize(session: Session, run: SuiteRunRecord, past_runs_shown: int = PAST_RUNS) -> SuiteReport:
    """Returns the report of a run, finished or not."""
    jobs, attempts = jobs_of(session, run.id), attempts_of(session, run.id)
    earlier = past_runs(session, run, past_runs_shown)
    past = done_jobs(session, [past_run.id for past_run in earlier])
    baselines = _baselines(session, run) if run.definition.get("baseline") else {}
    rows = rows_of(jobs, attempts, past, baselines)
    verdict = run.verdict or verdict_of(session, run, jobs)
    labels = {each.id: json.dumps(each.labels, sort_keys=True) for each in (run, *earlier)}
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


def _baselines(session: Session, run: SuiteRunRecord) -> dict[str, BaselineRecord]:
    rows = session.scalars(
        select(BaselineRecord).where(BaselineRecord.project == run.project, BaselineRecord.suite == run.name)
    )
    return {row.job: row for row in rows}


def counts_of(jobs: Iterable[JobRecord]) -> dict[str, int]:
    """Returns the number of jobs in each state and with each verdict, and of jobs that PASSED with caveats."""
    counts = dict.fromkeys((QUEUED, RUNNING, DONE, CANCELLED, PASSED, FAILED, INCONCLUSIVE, "caveats"), 0)
    for job in jobs:
        counts[job.state] += 1
        if job.verdict is not None:
            counts[job.verdict] += 1
            counts["caveats"] += job.verdict == PASSED and bool(job.caveats)
    return counts


def rows_of(
    jobs: Sequence[JobRecord],
    attempts: Sequence[AttemptRecord],
    past: Sequence[PastJob],
    baselines: Mapping[str, BaselineRecord],
) -> list[JobRow]:
    """Returns a row for each job. past: the done jobs of earlier runs, newest run first."""
    earlier: dict[str, PastJob] = {}
    for job in past:
        earlier.setdefault(job.name, job)
    seconds: dict[str, float] = defaultdict(float)
    tries = Counter[str]()
    for attempt in attempts:
        seconds[attempt.job] += attempt.seconds
        tries[attempt.job] += attempt.ending not in (None, "busy")
    return [_row(job, earlier.get(job.name), baselines.get(job.name), tries[job.id], seconds[job.id]) for job in jobs]


def _row(
    job: JobRecord, earlier: PastJob | None, baseline: BaselineRecord | None, attempts: int, seconds: float
) -> JobRow:
    change, why = change_of(job, earlier), job.why if job.verdict != PASSED else ""
    if baseline is not None and is_known(job, baseline):
        change = "known"
    elif baseline is not None and (unlike := unlike_baseline(job, baseline)):
        change, why = "unlike baseline", "; ".join(filter(None, (why, unlike)))
    return JobRow(
        job.name,
        job.model,
        cast(Any, job.state),
        job.board or "",
        cast("Verdict | None", job.verdict),
        why,
        job.blame_side,
        job.blame_node,
        [str(node) for node in job.nodes or ()],
        attempts,
        round(seconds, 3),
        round(job.board_seconds, 3),
        job.report,
        job.capture,
        change,
        cast("Verdict | None", earlier.verdict if earlier is not None else None),
        {str(k): str(v) for k, v in (job.facts or {}).items()},
        job.caveats if job.verdict is not None else "",
        job.gate if job.verdict is not None else "",
    )


def change_of(job: JobRecord, earlier: PastJob | None) -> Change:
    """Returns how a job's verdict differs from the same job's verdict in an earlier run."""
    if job.verdict is None:
        return ""
    earlier_verdict = earlier.verdict if earlier is not None else None
    if job.verdict == PASSED:
        if earlier is not None and earlier_verdict in (FAILED, INCONCLUSIVE):
            return "other caveats" if is_seen_less(job.caveats, earlier.caveats) else "mended"
        return "other caveats" if earlier is not None and job.caveats not in ("", earlier.caveats) else ""
    if job.verdict == INCONCLUSIVE:
        return "new inconclusive" if earlier_verdict != INCONCLUSIVE else ""
    if earlier_verdict != FAILED or earlier is None:
        return "new failure"
    return "changed cause" if _cause(job) != _cause(earlier) else ""


def is_seen_less(now: str, before: str) -> bool:
    """Returns whether something weakens a verdict that did not weaken the earlier one (fewer tensors, a milder gate), so that
    what failed then may only not be seen now. now, before: the caveats. What only a verdict of PASSED names does not count."""
    known = {_without_seed(fact) for fact in before.split("; ")}
    new = [f for f in now.split("; ") if f and _without_seed(f) not in known and not OF_PASSED.search(f)]
    return any(GIVEN.search(f) is None for f in new) or _share_given(now) < _share_given(before)


def _without_seed(fact: str) -> str:
    return re.sub(r"seed [\d, ]+", "seed", fact)


def _share_given(caveats: str) -> float:
    """Returns the smallest share of the model's tensors that a board's runner gave, 1 if nothing is said."""
    return min((int(n) / max(int(of), 1) for n, of in GIVEN.findall(caveats)), default=1.0)


def _cause(job: JobRecord | PastJob) -> tuple[str, str, tuple[str, ...]]:
    return (job.blame_side, job.blame_node, tuple(sorted(job.nodes or ())))


def flaky_nodes(jobs: Iterable[PastJob], run: str, labels: Mapping[str, str]) -> list[FlakyNode]:
    """Returns the jobs of a run that gave different results on one board for the same bytes, in repeats or in earlier runs
    with the same labels. labels: the labels of each run, as text; runs with other labels, such as another firmware, are not
    compared."""
    groups: dict[tuple[str, str, str, str], list[PastJob]] = defaultdict(list)
    for job in jobs:
        if job.verdict in (PASSED, FAILED) and job.board and job.content:
            groups[job.name.partition(" #")[0], job.board, job.content, labels.get(job.run, "")].append(job)
    flaky = []
    for (name, board, *_), same in groups.items():
        results = Counter(_result(job) for job in same)
        if len(results) > 1 and any(job.run == run for job in same):
            sets = [set(job.nodes or ()) for job in same]
            nodes = sorted(set[str]().union(*sets) - sets[0].intersection(*sets))
            flaky.append(FlakyNode(name, board, nodes, dict(results.most_common())))
    return sorted(flaky, key=lambda node: (node.job, node.board))


def _result(job: PastJob) -> str:
    nodes = ", ".join(sorted(job.nodes or ())[:3])
    return f"{job.verdict} at {nodes}" if nodes and job.verdict == FAILED else str(job.verdict)


def board_rows(attempts: Iterable[AttemptRecord], jobs: Mapping[str, JobRecord]) -> list[BoardRow]:
    """Returns a row for each board that took part in these attempts. Attempts whose worker or dispatcher died are left
    out: the board did not cause that."""
    by_board: dict[str, list[AttemptRecord]] = defaultdict(list)
    for attempt in attempts:
        if attempt.ending in WITH_VERDICT:
            by_board[attempt.board].append(attempt)
    return [_board_row(board, its_attempts, jobs) for board, its_attempts in sorted(by_board.items())]


def _board_row(board: str, attempts: Sequence[AttemptRecord], jobs: Mapping[str, JobRecord]) -> BoardRow:
    spoiled = [attempt for attempt in attempts if attempt.verdict == INCONCLUSIVE and attempt.of_board]
    only_here = [attempt for attempt in spoiled if jobs[attempt.job].verdict in (PASSED, FAILED)]
    often = len(attempts) >= FEW_ATTEMPTS and len(spoiled) >= FLAKY_FRACTION * len(attempts)
    board_seconds = sum(job.board_seconds for job in jobs.values() if job.board == board)
    why = spoiled[-1].why if spoiled else ""
    return BoardRow(board, len(attempts), round(board_seconds, 3), len(spoiled), bool(only_here) or often, why)


def _past_rows(runs: Sequence[SuiteRunRecord], jobs: Sequence[PastJob]) -> list[PastRun]:
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
