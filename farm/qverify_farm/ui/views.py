"""The pages that show something: boards, runs, jobs, history, comparison, the inbox and static files."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlencode

from starlette.requests import Request
from starlette.responses import Response

from qverify_farm.ui.api_calls import ApiCalls, RefusedError
from qverify_farm.ui.history_chart import draw_results, draw_values
from qverify_farm.ui.page_rendering import show, static_file

MEDIA_TYPES = {"css": "text/css", "js": "text/javascript", "svg": "image/svg+xml"}
RUNS_PER_PAGE = 50
MAX_HOLDERS = 100  # number of busy boards for which the job is shown
MAX_JOBS = 1000
HISTORY_ROWS, HISTORY_POINTS = 200, 50
BY_TIME = "time"  # instead of a label
MATRIX_RUNS, MAX_CELLS, MAX_FACTS = 2000, 4000, 8
VERDICT_ORDER = {"FAILED": 0, "INCONCLUSIVE": 1, None: 2, "PASSED": 3}


async def boards(request: Request) -> Response:
    calls = ApiCalls(request)
    all_boards = (await calls.get("/boards"))["boards"]
    queue = await calls.get("/queue")
    runs = await calls.get("/runs", limit=10)
    busy = [board for board in all_boards if board["job"]][:MAX_HOLDERS]
    holding_jobs = await asyncio.gather(*(_holder(calls, board) for board in busy))
    holders = {board["name"]: holder for board, holder in zip(busy, holding_jobs, strict=True)}
    return await show(request, "boards.html", boards=all_boards, queue=queue, runs=runs["runs"], holders=holders)


async def _holder(calls: ApiCalls, board: Mapping[str, Any]) -> dict[str, Any] | None:
    """Returns the job that holds a board and its run, or None if the visitor may not see the job or it has just ended."""
    try:
        job = await calls.get(f"/jobs/{board['job']}")
        return {"job": job, "run": await calls.get(f"/runs/{job['run']}")}
    except RefusedError:
        return None


async def runs(request: Request) -> Response:
    offset = _offset_of(request.query_params.get("offset"))
    state = request.query_params.get("state", "")
    state = state if state in ("running", "done", "cancelled") else ""
    rows = (await ApiCalls(request).get("/runs", limit=RUNS_PER_PAGE + 1, offset=offset, state=state))["runs"]
    more = offset + RUNS_PER_PAGE if len(rows) > RUNS_PER_PAGE else None
    values: dict[str, Any] = {"offset": offset, "more": more, "back": RUNS_PER_PAGE, "state": state}
    return await show(request, "runs.html", runs=rows[:RUNS_PER_PAGE], **values)


async def run(request: Request) -> Response:
    calls, run_id = ApiCalls(request), request.path_params["run"]
    details = await calls.get(f"/runs/{run_id}")
    jobs = await _worst_jobs(calls, details)
    runs_of_suite = (await calls.get("/runs", suite=details["name"], limit=20))["runs"]
    others = [other for other in runs_of_suite if other["id"] != details["id"]]
    return await show(request, "run.html", run=details, jobs=jobs, others=others)


async def _worst_jobs(calls: ApiCalls, run: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Returns the jobs of a run, the worst first, at most MAX_JOBS."""
    total = sum(run["counts"].get(state, 0) for state in ("queued", "running", "done", "cancelled"))
    found: dict[str, dict[str, Any]] = {}
    for verdict in ("FAILED", "INCONCLUSIVE", None) if total > MAX_JOBS else (None,):
        rows = (await calls.get(f"/runs/{run['id']}/jobs", verdict=verdict, limit=MAX_JOBS))["jobs"]
        found |= {row["id"]: row for row in rows}
    return sorted(found.values(), key=lambda row: (VERDICT_ORDER.get(row["verdict"], 2), row["number"]))[:MAX_JOBS]


async def job(request: Request) -> Response:
    calls, job_id = ApiCalls(request), request.path_params["job"]
    details = await calls.get(f"/jobs/{job_id}")
    return await show(request, "job.html", job=details, run=await calls.get(f"/runs/{details['run']}"))


FILTERS = ("suite", "model", "board", "verdict", "since", "until")


async def history(request: Request) -> Response:
    calls, query = ApiCalls(request), request.query_params
    given = {key: query.get(key, "")[:500] for key in ("name", "node", "label", *FILTERS)}
    filters = {"job": given["name"], **{key: given[key] for key in FILTERS}}
    choices = await calls.get("/history/choices")
    node = "" if given["name"] else given["node"]  # the chart of a job shows where it has no numbers, too
    jobs = (await calls.get("/history", **filters, node=node, limit=HISTORY_ROWS))["jobs"]
    points: list[dict[str, Any]] = []
    if given["name"] and given["node"]:
        points = (await calls.get("/history/nodes", **filters, node=given["node"], limit=HISTORY_POINTS))["points"]
    labels = sorted({key for row in jobs for key in row["labels"]})
    if jobs and given["name"]:
        given["label"] = given["label"] or ("firmware" if "firmware" in labels else next(iter(labels), BY_TIME))
    label = "" if given["label"] == BY_TIME and BY_TIME not in labels else given["label"]
    chart = None
    if given["name"]:
        chart = draw_values(points, label) if given["node"] else draw_results(jobs[::-1], label)
    nodes = sorted({row["blame_node"] for row in jobs if row["blame_node"]} | {n for row in jobs for n in row["nodes"]})
    values: dict[str, Any] = {"jobs": jobs, "chart": chart, "label": label, "labels": labels, "nodes": nodes}
    values |= {"choices": choices, "is_cut": len(jobs) == HISTORY_ROWS}
    return await show(request, "history.html", asked=given, **values)


async def matrix(request: Request) -> Response:
    calls, query = ApiCalls(request), request.query_params
    given = {key: query.get(key, "")[:200] for key in ("order", *FILTERS)}
    axes = {key: [name[:200] for name in query.getlist(key) if name][:MAX_FACTS] for key in ("rows", "columns")}
    choices = await calls.get("/history/choices")
    order = given["order"] if given["order"] == "date" else "version"
    wrong, document = "", None
    try:
        filters = {key: given[key] for key in FILTERS}
        document = await calls.get("/matrix", **filters, **axes, order=order, limit=MATRIX_RUNS)
    except RefusedError as error:
        if error.status != 422:
            raise
        wrong = error.text
    if not axes["rows"] and document:
        axes = {"rows": document["rows_by"], "columns": document["columns_by"]}
    values: dict[str, Any] = {
        "choices": choices,
        "wrong": wrong,
        "document": document,
        "axes": axes,
        "link": _json_link(request),
    }
    values |= {"facts": document["facts_known"] if document else [*axes["rows"], *axes["columns"]]}
    return await show(request, "matrix.html", asked=given, grid=_grid(document) if document else [], **values)


def _json_link(request: Request) -> str:
    """Returns the address of the same matrix as JSON."""
    pairs = [
        (key, value)
        for key, value in request.query_params.multi_items()
        if value and key in ("rows", "columns", "order", *FILTERS)
    ]
    return f"/api/v1/matrix?{urlencode(pairs)}" if pairs else "/api/v1/matrix"


def _grid(document: Mapping[str, Any]) -> list[list[dict[str, Any] | None]]:
    """Returns the cells of each row of a matrix, None where there is no run; those that changed first, if they are too many."""
    columns = len(document["columns"])
    grid: list[list[dict[str, Any] | None]] = [[None] * columns for _ in document["rows"]]
    for cell in document["cells"]:
        grid[cell["row"]][cell["column"]] = cell
    return grid[: max(1, MAX_CELLS // max(1, columns))]


async def compare(request: Request) -> Response:
    calls, query = ApiCalls(request), request.query_params
    before, after = query.get("before", "")[:64], query.get("after", "")[:64]
    differences = None
    boards = {key: query.get(key, "")[:200] for key in ("before_board", "after_board")}
    if before and after:
        on = {"since_board": boards["before_board"], "board": boards["after_board"]}
        differences = await calls.get(f"/runs/{_checked_id(after)}/differences", since=_checked_id(before), **on)
    runs = (await calls.get("/runs", limit=100))["runs"]
    known = {run["id"] for run in runs}
    runs += [await calls.get(f"/runs/{_checked_id(run)}") for run in {before, after} - known - {""}]
    before = before or (runs[1]["id"] if len(runs) > 1 else "")  # the newest is chosen after it
    known_boards = sorted({board for run in runs for board in run["boards"]})
    values: dict[str, Any] = {"before": before, "after": after, "runs": runs, "boards": known_boards, **boards}
    return await show(request, "compare.html", found=differences, **values)


async def inbox(request: Request) -> Response:
    calls, cases = ApiCalls(request), []
    for bad_run in (await calls.get("/runs", kind="bad-case", limit=100))["runs"]:
        jobs = (await calls.get(f"/runs/{bad_run['id']}/jobs", limit=1))["jobs"]
        cases.append({"run": bad_run, "job": jobs[0] if jobs else None})
    return await show(request, "inbox.html", cases=cases)


async def static(request: Request) -> Response:
    name = request.path_params["name"]
    if name not in ("style.css", "script.js", "icon.svg"):
        raise RefusedError(404, "there is no such file")
    kind = MEDIA_TYPES[name.rpartition(".")[2]]
    return Response(static_file(name), media_type=kind, headers={"Cache-Control": "max-age=300"})


def _offset_of(text: str | None) -> int:
    return min(int(text), 10_000_000) if text and text.isascii() and text.isdigit() and len(text) < 10 else 0


def _checked_id(text: str) -> str:
    if not text.isascii() or not text.isalnum():
        raise RefusedError(404, "there is no such run")
    return text
