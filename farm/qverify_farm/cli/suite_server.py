"""Runs a suite on the farm of a server: uploads its files, submits its jobs, waits for them, and returns the report."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

from qverify.cli.live_progress import LiveProgress, live_progress
from qverify.cli.say_line import say
from qverify.errors import UsageError
from qverify.onnx_model.load import read_model
from qverify.plural import count
from qverify.printable import printable

from qverify_farm.client.http import FarmServer, is_open_to_listeners, server_url
from qverify_farm.client.job_files import upload_files
from qverify_farm.client.tokens import token_for
from qverify_farm.client.verify_on_farm import API, END_STATES, FIRST_PAUSE_S, LONGEST_PAUSE_S, WaitReasons
from qverify_farm.errors import ServerError
from qverify_farm.store.runs import NewJob
from qverify_farm.suites.expand import files_of, jobs_of
from qverify_farm.suites.suite import Suite
from qverify_farm.suites.suite_file import read_suite
from qverify_farm.suites.suite_report import JobRow, PastRun, SuiteReport

PAGE = 1000  # jobs of one reply
PAST_RUNS = 10


def run_on_server(
    path: str, server: str, token: str | None, labels: Mapping[str, str], quiet: bool = False
) -> SuiteReport:
    """Runs a suite on a server's boards and returns its report. quiet: whether nothing is printed. On KeyboardInterrupt the run is cancelled. Raises SuiteError
    for mistakes in the file, UsageError if the server refuses it, ServerError if it cannot be reached."""
    url = server_url(server)
    secret = token_for(url, token)
    if secret and not quiet and is_open_to_listeners(url):
        say(f"qverify: {url}: the token goes there unencrypted; https:// protects it", err=True)
    with FarmServer(url, secret) as farm:
        tags = {str(b["name"]): dict(b["tags"]) for b in _rows(farm.get(f"{API}/boards"), "boards", url)}
        suite = read_suite(path, tags)
        jobs = jobs_of(suite, tags)
        sources: dict[str, Path | bytes] = {
            job_path: read_model(str(file.path)) if file.model else file.path
            for job_path, file in files_of(suite).items()
        }
        stored = upload_files(farm, sources)
        body = _definition(suite, jobs, {**suite.labels, **labels})
        body["files"] = {file.path: file.sha256 for file in stored}
        run = str(farm.submit(f"{API}/suites", body)["id"])
        if not quiet:
            say(f"run {run[:12]}: {count(len(jobs), 'job')} on {url}; {url}/runs/{run}", err=True)
        try:
            with contextlib.nullcontext() if quiet else live_progress() as live:
                return _wait(farm, run, live)
        except KeyboardInterrupt:
            with contextlib.suppress(UsageError, ServerError):
                farm.post(f"{API}/runs/{run}/cancel", {"why": "interrupted by its submitter"})
            raise


def _definition(suite: Suite, jobs: list[NewJob], labels: Mapping[str, str]) -> dict[str, Any]:
    """Returns the body of a submission, without its files."""
    keys = ("models", "inputs", "files", "timeout_s", "keep_capture")
    return {
        "name": suite.name,
        "labels": dict(labels),
        "priority": suite.priority,
        "board_wait_s": suite.board_wait_s,
        "fail_fast": suite.fail_fast,
        "timeout_s": suite.timeout_s,
        "quarantine": suite.quarantine,
        "baseline": suite.baseline,
        "jobs": [
            {
                "name": job.name,
                "model": job.model,
                "wanted": list(job.wanted),
                "retries": job.retries,
                "options": {k: list(v) if isinstance(v, tuple) else v for k, v in job.settings["options"].items()},
                **{key: job.settings[key] for key in keys},
            }
            for job in jobs
        ],
    }


def _wait(farm: FarmServer, run: str, live: LiveProgress | None) -> SuiteReport:
    """Waits until a run has ended, and says why jobs wait. Returns its report."""
    pause, shown = FIRST_PAUSE_S, -1
    reasons = WaitReasons(None if live is None else lambda line: live.say(printable(f"qverify: {line}"), err=True))
    while True:
        state = farm.get(f"{API}/runs/{run}")
        counts = {str(key): int(value) for key, value in state["counts"].items()}
        done = sum(counts.get(key, 0) for key in END_STATES)
        if live is not None and live.watch is not None:
            bad = ", ".join(f"{counts[key]} {key}" for key in ("FAILED", "INCONCLUSIVE") if counts.get(key))
            live.watch(
                f"jobs ({bad})" if bad else "jobs", done, done + counts.get("queued", 0) + counts.get("running", 0)
            )
        if state["state"] in END_STATES and state["verdict"] is not None:
            return _report(farm, state, counts)
        queued = farm.get(f"{API}/runs/{run}/jobs", state="queued", limit=PAGE)
        reasons.look(_rows(queued, "jobs", farm.url), time.monotonic())
        pause = FIRST_PAUSE_S if done != shown else min(pause * 1.3, LONGEST_PAUSE_S)
        shown = done
        time.sleep(pause)


def _report(farm: FarmServer, run: Mapping[str, Any], counts: dict[str, int]) -> SuiteReport:
    """Returns the report of a run that has ended. Boards and flaky nodes are not judged: the service does not tell the attempts
    of every job at once."""
    rows, jobs = list[dict[str, Any]](), list[JobRow]()
    while not rows or len(rows) % PAGE == 0:
        page = _rows(farm.get(f"{API}/runs/{run['id']}/jobs", limit=PAGE, offset=len(rows)), "jobs", farm.url)
        rows += page
        if not page:
            break
    names = (
        "name",
        "model",
        "state",
        "verdict",
        "why",
        "caveats",
        "gate",
        "blame_side",
        "blame_node",
        "nodes",
        "report",
        "capture",
    )
    for row in rows:
        values = {name: row[name] for name in names}
        seconds = float(row.get("board_seconds") or 0)
        jobs.append(JobRow(board=row["board"] or "", attempts=row["attempt"], board_seconds=seconds, **values))
    others = _rows(farm.get(f"{API}/runs", suite=str(run["name"]), kind="suite", limit=PAST_RUNS + 1), "runs", farm.url)
    past = [
        PastRun(
            one["id"], one["created"], one["verdict"], {k: str(v) for k, v in one["labels"].items()},
            *(one["counts"].get(key, 0) for key in ("PASSED", "FAILED", "INCONCLUSIVE")),
        )
        for one in others
        if one["id"] != run["id"]
    ]  # fmt: skip
    keys = ("queued", "running", "done", "cancelled", "PASSED", "FAILED", "INCONCLUSIVE", "caveats")
    return SuiteReport(
        run["id"],
        run["name"],
        run["verdict"],
        cast(Any, run["state"]),
        run["why"],
        run["submitter"],
        run["created"],
        run["started"],
        run["ended"],
        {key: str(value) for key, value in run["labels"].items()},
        {key: counts.get(key, 0) for key in keys},
        jobs,
        [],
        [],
        past,
        run["qverify"],
    )


def _rows(reply: Any, key: str, url: str) -> list[dict[str, Any]]:
    rows = reply.get(key) if isinstance(reply, dict) else None
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise ServerError(f"{url}: its answer has no {key}; is this a qverify server of this version?")
    return rows
