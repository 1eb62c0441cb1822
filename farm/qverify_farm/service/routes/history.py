"""History of models, boards and nodes, and the baselines that verdicts are compared with."""

from __future__ import annotations

import json
import math
import time
from typing import Annotated, Any

from fastapi import APIRouter, Query
from sqlalchemy import delete, select

from qverify_farm.errors import ArtifactError
from qverify_farm.service.access import SUBMITTER, Scope, Scoped
from qverify_farm.service.farm import add_audit
from qverify_farm.service.replies import documented
from qverify_farm.service.routes.runs import find_run
from qverify_farm.service.schemas.runs import (
    BaselineOf,
    BaselineRow,
    Baselines,
    Changed,
    History,
    HistoryRow,
    NodeHistory,
    NodePoint,
)
from qverify_farm.service.schemas.texts import Limit, NeededQuery, TitleQuery
from qverify_farm.store.states import DONE
from qverify_farm.store.tables import Baseline, Job, SuiteRun
from qverify_farm.store.verdicts import take_baseline

router = APIRouter(tags=["history"], responses=documented())
MOST_REPORTS = 50  # read for one answer about a node
MOST_REPORT_BYTES = 32 << 20
MOST_READ_BYTES = 256 << 20  # of all of them
METRICS = ("max_lsb", "max_abs", "cosine", "rmse", "sqnr_db", "mismatched", "elements")
SCANNED = 20_000  # rows looked at for a node


@router.get("/history", summary="Jobs that are done, the newest first")
def get_history(
    scope: Scoped,
    model: TitleQuery = "",
    board: TitleQuery = "",
    suite: TitleQuery = "",
    job: TitleQuery = "",
    node: TitleQuery = "",
    limit: Limit = 100,
) -> History:
    """Of a model, a board, a suite, a job's name, or of a node that was blamed or failed."""
    rows = _rows(scope, model, board, suite, job, node, limit)
    with scope.farm.database.read() as session:
        expected = {
            (one.suite, one.job): one.verdict
            for one in session.scalars(select(Baseline).where(Baseline.project == scope.project))
        }
    return History(jobs=[_shown(job, run, expected.get((run.name, job.name))) for job, run in rows])


def _rows(
    scope: Scope, model: str, board: str, suite: str, job: str, node: str, limit: int
) -> list[tuple[Job, SuiteRun]]:
    query = (
        select(Job, SuiteRun)
        .join(SuiteRun, SuiteRun.id == Job.run)
        .where(SuiteRun.project == scope.project, Job.state == DONE, SuiteRun.kind.in_(("suite", "verify")))
        .order_by(Job.ended.desc(), Job.id)
    )
    for column, value in ((Job.model, model), (Job.board, board), (SuiteRun.name, suite), (Job.name, job)):
        if value:
            query = query.where(column == value)
    with scope.farm.database.read() as session:
        if not node:
            return [(job, run) for job, run in session.execute(query.limit(limit))]
        found = session.execute(query.limit(SCANNED).execution_options(yield_per=200))
        rows = []
        for done, run in found:
            if node == done.blame_node or node in (done.nodes or ()):
                rows.append((done, run))
                if len(rows) == limit:
                    break
        return rows


def _shown(job: Job, run: SuiteRun, expected: str | None) -> HistoryRow:
    names = (
        "name",
        "model",
        "board",
        "verdict",
        "why",
        "blame_side",
        "blame_node",
        "nodes",
        "facts",
        "report",
        "ended",
    )
    values = {name: getattr(job, name) for name in names}
    return HistoryRow(
        job=job.id,
        run=run.id,
        suite=run.name,
        baseline=expected,
        labels=dict(run.labels or {}),
        board_seconds=job.board_seconds,
        **values,
    )


@router.get("/history/nodes", summary="Numbers of one node over the last runs")
def get_node_history(
    scope: Scoped,
    node: NeededQuery,
    model: TitleQuery = "",
    board: TitleQuery = "",
    suite: TitleQuery = "",
    job: TitleQuery = "",
    limit: Annotated[int, Query(ge=1, le=MOST_REPORTS)] = 20,
) -> NodeHistory:
    """What the reports of the last jobs say of a node or tensor, for a chart over firmware. The oldest first."""
    points, read = list[NodePoint](), 0
    for found, run in _rows(scope, model, board, suite, job, "", limit):
        size = scope.farm.artifacts.size_of(found.report) if found.report else None
        if size is None or size > MOST_REPORT_BYTES or read + size > MOST_READ_BYTES:
            continue
        read += size
        try:
            document = json.loads(scope.farm.artifacts.read(found.report, MOST_REPORT_BYTES))
        except (ValueError, ArtifactError):
            continue
        points += [_point(found, run, pair, row) for pair, row in _tensors(document, node)]
    return NodeHistory(points=points[::-1])


def _tensors(document: Any, node: str) -> list[tuple[str, dict[str, Any]]]:
    pairs = document.get("pairs", []) if isinstance(document, dict) else []
    found = []
    for pair in pairs:
        name = " ~ ".join(str(pair.get(side, "")) for side in ("a", "b"))
        for row in pair.get("tensors", []):
            if node in (row.get("node"), row.get("name")):
                found.append((name, row))
    return found


def _point(job: Job, run: SuiteRun, pair: str, row: dict[str, Any]) -> NodePoint:
    metrics = {name: _finite(row[name]) for name in METRICS if name in row}
    return NodePoint(
        job=job.id,
        run=run.id,
        board=job.board,
        labels=dict(run.labels or {}),
        ended=job.ended,
        pair=pair,
        verdict=str(row.get("verdict", "")),
        metrics=metrics,
    )


def _finite(value: object) -> float | None:
    return float(value) if isinstance(value, (int, float)) and math.isfinite(value) else None


@router.get("/baselines", summary="The verdicts that a suite's jobs are expected to have")
def list_baselines(scope: Scoped, suite: TitleQuery = "", limit: Limit = 1000) -> Baselines:
    """Of one suite, or of all."""
    query = select(Baseline).where(Baseline.project == scope.project)
    if suite:
        query = query.where(Baseline.suite == suite)
    with scope.farm.database.read() as session:
        rows = session.scalars(query.order_by(Baseline.suite, Baseline.job).limit(limit)).all()
    names = BaselineRow.model_fields
    return Baselines(baselines=[BaselineRow(**{name: getattr(row, name) for name in names}) for row in rows])


@router.put("/baselines", dependencies=[SUBMITTER], summary="Take a run's results as its suite's baseline")
def put_baseline(scope: Scoped, asked: BaselineOf) -> Changed:
    """Of the jobs that are done, in the place of the baseline before."""
    run = find_run(scope, asked.run)
    with scope.farm.database.write() as session:
        jobs = take_baseline(session, run, time.time())
        add_audit(session, scope.caller, scope.request, "baseline.put", scope.project, run=run.id, jobs=jobs)
    return Changed(changed=bool(jobs), jobs=jobs)


@router.delete("/baselines", dependencies=[SUBMITTER], summary="Forget a suite's baseline")
def delete_baseline(scope: Scoped, suite: NeededQuery) -> Changed:
    """Its runs stay."""
    with scope.farm.database.write() as session:
        mine = (Baseline.project == scope.project) & (Baseline.suite == suite)
        names = session.scalars(select(Baseline.job).where(mine)).all()
        session.execute(delete(Baseline).where(mine))
        if names:
            add_audit(session, scope.caller, scope.request, "baseline.delete", scope.project, suite=suite)
    return Changed(changed=bool(names), jobs=len(names))
