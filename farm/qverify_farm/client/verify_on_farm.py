"""The main job on a farm: files up, one submission, its jobs watched, their reports back."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from qverify.closest_names import closest_names
from qverify.compare.verdict import combine
from qverify.errors import BadFileError, UsageError
from qverify.printable import printable
from qverify.report.document import Report
from qverify.report.read_report import report_of

from qverify_farm.client.http import MOST_REPORT, PATIENCE_S, AwayError, FarmServer, TooBusyError
from qverify_farm.client.job_files import JobFiles, collect_job_files, upload_files
from qverify_farm.errors import ServerError
from qverify_farm.work.job_options import FILES, REFUSED, VALUES

API = "/api/v1"
FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.1, 2.0  # between two looks at a run
ENDED = ("done", "cancelled")
CANCEL_S = 5.0

Progress = Callable[[str, int, int], None]
Got = Callable[["FarmReport", int, int], None]


@dataclass(frozen=True, slots=True)
class FarmRequest:
    """server: its address. token: "" for none. models, inputs, boards: as -m, -i and -b take them here; a board is a
    name of the farm or a tag. options: keywords of qverify.verify that were given."""

    server: str
    token: str
    models: tuple[str, ...]
    boards: tuple[str, ...]
    inputs: str | None = None
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class FarmReport:
    """A job that is done. board: that ran it. report: its report. run: of the farm."""

    board: str
    report: Report
    run: str


def check_farm_request(asked: FarmRequest) -> None:
    """Raises UsageError, naming every option that a farm's job must not have, before anything is sent."""
    if not asked.boards:
        raise UsageError(
            "--server runs a job on a board of the farm; name it with -b (qverify boards lists this host's)"
        )
    refused = [one for one in sorted(asked.options) if one not in VALUES | FILES]
    if refused:
        told = "; ".join(f"{_flag(one)}: {REFUSED.get(one) or _near(one)}" for one in refused)
        raise UsageError(f"--server does not take {told}")


def _near(name: str) -> str:
    near = closest_names(name, sorted(VALUES | FILES))
    return f"unknown; did you mean {' or '.join(map(_flag, near))}?" if near else "unknown"


def _flag(keyword: str) -> str:
    return f"--{keyword.replace('_', '-')}"


def verify_on_farm(asked: FarmRequest, progress: Progress | None = None, got: Got | None = None) -> Report:
    """Runs the main job on a farm and returns its report, that of all boards. got: is called with each board's report, its number
    from 0, and how many boards there are. The run is cancelled where the caller is interrupted. UsageError for what the farm
    refuses, ServerError where it is away."""
    check_farm_request(asked)
    files = collect_job_files(asked.models, asked.inputs, asked.options)
    with FarmServer(asked.server, asked.token) as server:
        stored = upload_files(server, files.sources)
        body = {
            "files": {one.path: one.sha256 for one in stored},
            "models": list(files.models),
            "inputs": files.inputs,
            "boards": list(asked.boards),
            "options": _plain(files.options),
        }
        run = _text(server.post(f"{API}/verifications", body), "id")
        try:
            jobs = _wait(server, run, progress)
        except KeyboardInterrupt:
            _cancel(server, run)
            raise
        reports = []
        for number, job in enumerate(jobs):
            reports.append(FarmReport(printable(str(job.get("board") or "")), _report(server, job, files), run))
            if got is not None:
                got(reports[-1], number, len(jobs))
    return combine([one.report for one in reports])


def _plain(options: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the options as JSON has them."""
    return {key: list(value) if isinstance(value, tuple) else value for key, value in options.items()}


def _wait(server: FarmServer, run: str, progress: Progress | None) -> list[dict[str, Any]]:
    """Returns the jobs of a run when it has ended. The server may be away for PATIENCE_S at a time."""
    pause, away_since, shown = FIRST_PAUSE_S, None, ("", -1)
    while True:
        try:
            jobs, state = _look(server, run)
            away_since = None
        except (AwayError, TooBusyError) as error:
            now = time.monotonic()
            away_since = away_since or now
            if now - away_since > PATIENCE_S:
                raise ServerError(f"{error}. The run goes on there: {run[:12]}") from None
            time.sleep(LONGEST_PAUSE_S)
            continue
        done = sum(job["state"] in ENDED for job in jobs)
        ended = state in ENDED and done == len(jobs)
        says = "done" if ended else _says(jobs)
        if progress is not None:  # at least once, however quick the run was
            progress(says, done, len(jobs))
        if ended:
            return jobs
        pause = FIRST_PAUSE_S if (says, done) != shown else min(pause * 1.3, LONGEST_PAUSE_S)
        shown = (says, done)
        time.sleep(pause)


def _look(server: FarmServer, run: str) -> tuple[list[dict[str, Any]], str]:
    state = _text(server.get(f"{API}/runs/{run}"), "state")
    jobs = server.get(f"{API}/runs/{run}/jobs", limit=1000)
    rows = jobs.get("jobs") if isinstance(jobs, dict) else None
    if not isinstance(rows, list) or not rows or not all(isinstance(one, dict) and "state" in one for one in rows):
        raise ServerError(f"{server.url}: it does not tell the run's jobs; is this a qverify server of this version?")
    return rows, state


def _says(jobs: Sequence[Mapping[str, Any]]) -> str:
    running = [printable(str(job.get("board") or "")) for job in jobs if job["state"] == "running"]
    return f"on {', '.join(running)[:60]}" if running else "waits for a board"


def _cancel(server: FarmServer, run: str) -> None:
    with contextlib.suppress(UsageError, ServerError):
        server.post(f"{API}/runs/{run}/cancel", {"why": "interrupted by its submitter"})


def _report(server: FarmServer, job: Mapping[str, Any], files: JobFiles) -> Report:
    """Returns the report of a job that is done; one without a verdict is INCONCLUSIVE, and says why."""
    if not job.get("report"):
        why = printable(" ".join(str(job.get("why") or "it was cancelled").split())[:300])
        board = printable(str(job.get("board") or " ".join(map(str, job.get("wanted") or ()))))
        return Report(
            verdict="INCONCLUSIVE", blame=None, decimals={}, pairs=[], notes=[f"board: not run on {board[:200]}: {why}"]
        )
    document = server.get(f"{API}/jobs/{_text(job, 'id')}/report", MOST_REPORT)
    report = report_of(document, f"{server.url}: report of job {_text(job, 'id')[:12]}")
    if report.verdict != job.get("verdict"):
        raise BadFileError(
            f"{server.url}: the report says {report.verdict}, its job {printable(str(job.get('verdict')))}"
        )
    return _named_as_given(report, files.given)


def _named_as_given(report: Report, given: Mapping[str, str]) -> Report:
    """Returns the report with the caller's words for files, which the farm has by other paths."""
    for row in (*report.models, *report.inputs, *report.frames):
        for key in ("path", "file", "source"):
            if isinstance(row.get(key), str):
                row[key] = given.get(row[key], row[key])
    return report


def _text(document: Any, key: str) -> str:
    value = document.get(key) if isinstance(document, dict) else None
    if not isinstance(value, str) or not value.isalnum():
        raise ServerError(f"the server's answer has no {key}; is this a qverify server of this version?")
    return value
