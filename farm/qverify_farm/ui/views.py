"""The pages that show: boards, runs, jobs, history, comparison, and files of their own."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from qverify_farm.ui.calls import Calls, RefusedError
from qverify_farm.ui.history_chart import draw_results, draw_values
from qverify_farm.ui.pages import asset, show

TYPES = {"css": "text/css", "js": "text/javascript", "svg": "image/svg+xml"}
PAGE = 50  # rows
MOST_HELD = 100  # boards whose holders are named
MOST_JOBS = 1000
ROWS, POINTS = 200, 50  # of a history
SHOWN_FIRST = {"FAILED": 0, "INCONCLUSIVE": 1, None: 2, "PASSED": 3}


async def boards(request: Request) -> Response:
    calls = Calls(request)
    found = await calls.get("/boards")
    queue = await calls.get("/queue")
    runs = await calls.get("/runs", limit=10)
    busy = [one for one in found["boards"] if one["job"]][:MOST_HELD]
    held = await asyncio.gather(*(_holder(calls, one) for one in busy))
    holders = {board["name"]: one for board, one in zip(busy, held, strict=True)}
    return await show(request, "boards.html", boards=found["boards"], queue=queue, runs=runs["runs"], holders=holders)


async def _holder(calls: Calls, board: Mapping[str, Any]) -> dict[str, Any] | None:
    """Returns the job that has a board and the run that it is of; None where it has ended meanwhile."""
    try:
        job = await calls.get(f"/jobs/{board['job']}")
        return {"job": job, "run": await calls.get(f"/runs/{job['run']}")}
    except RefusedError:
        return None


async def runs(request: Request) -> Response:
    offset = _whole(request.query_params.get("offset"))
    state = request.query_params.get("state", "")
    state = state if state in ("running", "done", "cancelled") else ""
    found = (await Calls(request).get("/runs", limit=PAGE + 1, offset=offset, state=state))["runs"]
    more = offset + PAGE if len(found) > PAGE else None
    return await show(request, "runs.html", runs=found[:PAGE], offset=offset, more=more, back=PAGE, state=state)


async def run(request: Request) -> Response:
    calls, run_id = Calls(request), request.path_params["run"]
    found = await calls.get(f"/runs/{run_id}")
    jobs = (await calls.get(f"/runs/{run_id}/jobs", limit=MOST_JOBS))["jobs"]
    jobs.sort(key=lambda job: (SHOWN_FIRST.get(job["verdict"], 2), job["number"]))
    before = (await calls.get("/runs", suite=found["name"], limit=20))["runs"]
    others = [one for one in before if one["id"] != found["id"]]
    return await show(request, "run.html", run=found, jobs=jobs, others=others)


async def job(request: Request) -> Response:
    calls, job_id = Calls(request), request.path_params["job"]
    found = await calls.get(f"/jobs/{job_id}")
    return await show(request, "job.html", job=found, run=await calls.get(f"/runs/{found['run']}"))


async def history(request: Request) -> Response:
    calls, asked = Calls(request), request.query_params
    given = {key: asked.get(key, "")[:500] for key in ("name", "board", "node", "label")}
    which = {"job": given["name"], "board": given["board"]}
    await calls.get("/whoami")  # an empty form, too, is for those who may look
    jobs = (await calls.get("/history", **which, limit=ROWS))["jobs"] if given["name"] else []
    points: list[dict[str, Any]] = []
    if given["name"] and given["node"]:
        points = (await calls.get("/history/nodes", **which, node=given["node"], limit=POINTS))["points"]
    labels = sorted({key for row in jobs for key in row["labels"]})
    given["label"] = given["label"] or ("firmware" if "firmware" in labels else next(iter(labels), ""))
    chart = draw_values(points, given["label"]) if points else draw_results(jobs[::-1], given["label"])
    nodes = sorted({row["blame_node"] for row in jobs if row["blame_node"]} | {n for row in jobs for n in row["nodes"]})
    return await show(request, "history.html", jobs=jobs, chart=chart, labels=labels, nodes=nodes, asked=given)


async def compare(request: Request) -> Response:
    calls, asked = Calls(request), request.query_params
    before, after = asked.get("before", "")[:64], asked.get("after", "")[:64]
    found = None
    if before and after:
        found = await calls.get(f"/runs/{_id(after)}/differences", since=_id(before))
    recent = (await calls.get("/runs", limit=100))["runs"]
    return await show(request, "compare.html", found=found, before=before, after=after, runs=recent)


async def inbox(request: Request) -> Response:
    found = (await Calls(request).get("/runs", kind="bad-case", limit=100))["runs"]
    calls, cases = Calls(request), []
    for one in found:
        jobs = (await calls.get(f"/runs/{one['id']}/jobs", limit=1))["jobs"]
        cases.append({"run": one, "job": jobs[0] if jobs else None})
    return await show(request, "inbox.html", cases=cases)


async def static(request: Request) -> Response:
    name = request.path_params["name"]
    if name not in ("style.css", "script.js", "icon.svg"):
        raise RefusedError(404, "there is no such file")
    kind = TYPES[name.rpartition(".")[2]]
    return Response(asset(name), media_type=kind, headers={"Cache-Control": "max-age=300"})


def _whole(text: str | None) -> int:
    return min(int(text), 10_000_000) if text and text.isascii() and text.isdigit() and len(text) < 10 else 0


def _id(text: str) -> str:
    if not text.isascii() or not text.isalnum():
        raise RefusedError(404, "there is no such run")
    return text
