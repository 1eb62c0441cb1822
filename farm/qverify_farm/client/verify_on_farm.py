"""Runs the main job on a farm: uploads the files, submits one verification, waits for its jobs, and fetches their reports."""

from __future__ import annotations

import contextlib
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from qverify.closest_names import closest_names
from qverify.compare.combine_reports import combine
from qverify.errors import BadFileError, UsageError
from qverify.printable import printable
from qverify.report.document import ReportDocument
from qverify.report.read_report import report_of

from qverify_farm.client.http import MAX_REPORT_BYTES, AwayError, FarmServer, TooBusyError
from qverify_farm.client.job_files import JobFiles, collect_job_files, upload_files
from qverify_farm.errors import ServerError
from qverify_farm.work.job_options import FILES, REFUSED, VALUES

API = "/api/v1"
FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.1, 2.0  # between requests for the state of a run
WAITS_SAID_S = 10.0  # a job that waits for so long for one reason: the reason is told
END_STATES = ("done", "cancelled")

Progress = Callable[[str, int, int], None]
OnReport = Callable[["FarmReport", int, int], None]
OnWait = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class FarmRequest:
    """A request to run the main job on a farm.

    Attributes:
        server: The server's URL.
        token: The token, or "" for none.
        models: The values of -m on this host.
        boards: The values of -b; each is a board's name in the farm or a tag.
        inputs: The value of -i on this host, or None.
        options: The keywords of qverify.verify that were given.
    """

    server: str
    token: str
    models: tuple[str, ...]
    boards: tuple[str, ...]
    inputs: str | None = None
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class FarmReport:
    """The report of a job that is done, the board that ran it, and the id of the farm's run."""

    board: str
    report: ReportDocument
    run: str


def check_farm_request(request: FarmRequest) -> None:
    """Raises UsageError if no board is given, or with the names of all options that a farm's job must not have. Nothing is
    sent."""
    if not request.boards:
        raise UsageError(
            "--server runs a job on a board of the farm; name it with -b (qverify boards lists this host's)"
        )
    refused = [entry for entry in sorted(request.options) if entry not in VALUES | FILES]
    if refused:
        refusals = "; ".join(f"{_flag(entry)}: {REFUSED.get(entry) or _unknown_option(entry)}" for entry in refused)
        raise UsageError(f"--server does not take {refusals}")


def _unknown_option(name: str) -> str:
    near = closest_names(name, sorted(VALUES | FILES))
    return f"unknown; did you mean {' or '.join(map(_flag, near))}?" if near else "unknown"


def _flag(keyword: str) -> str:
    return f"--{keyword.replace('_', '-')}"


def verify_on_farm(
    request: FarmRequest,
    progress: Progress | None = None,
    on_report: OnReport | None = None,
    on_wait: OnWait | None = None,
) -> ReportDocument:
    """Runs the main job on a farm and returns the combined report of all boards.

    on_report is called with each board's report, its number from 0, and the number of boards; on_wait, once for each reason, with
    a line that says why jobs have been waiting for WAITS_SAID_S. On KeyboardInterrupt the run is cancelled. Raises UsageError
    if the farm refuses the request or, after the reports of the other boards, a job's files; ServerError if it cannot be reached.
    """
    check_farm_request(request)
    files = collect_job_files(request.models, request.inputs, request.options)
    with FarmServer(request.server, request.token) as server:
        stored = upload_files(server, files.sources)
        body = {
            "files": {entry.path: entry.sha256 for entry in stored},
            "models": list(files.models),
            "inputs": files.inputs,
            "boards": list(request.boards),
            "options": _json_options(files.options),
        }
        run = _text(server.submit(f"{API}/verifications", body), "id")
        try:
            jobs = _wait(server, run, progress, WaitReasons(on_wait))
        except KeyboardInterrupt:
            _cancel(server, run)
            raise
        reports, mistakes = list[FarmReport](), list[tuple[str, str]]()
        for number, job in enumerate(jobs):
            with _naming_the_run(run):
                if mistake := _mistake(server, job):
                    mistakes.append((str(job.get("board") or ""), mistake))
                    continue
                report = _report(server, job, files)
            reports.append(FarmReport(printable(str(job.get("board") or "")), report, run))
            if on_report is not None:
                on_report(reports[-1], number, len(jobs))
    if mistakes:
        board, mistake = mistakes[0]
        where = f"board {printable(board)}: " if reports else ""
        raise UsageError(where + _with_given_paths(mistake, files.given))
    return combine([entry.report for entry in reports])


def _json_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the options with lists in place of tuples."""
    return {key: list(value) if isinstance(value, tuple) else value for key, value in options.items()}


class WaitReasons:
    """Tells why jobs wait, once for each reason that lasts for WAITS_SAID_S."""

    def __init__(self, on_wait: OnWait | None):
        self._on_wait = on_wait
        self._since = dict[str, float]()  # by reason: in monotonic seconds
        self._told = set[str]()

    def look(self, jobs: Sequence[Mapping[str, Any]], now: float) -> None:
        """Looks at the jobs at this moment. now: in monotonic seconds."""
        waiting = [(job, _reason_to_wait(job)) for job in jobs]
        kinds = {
            reason.partition(":")[0] for _, reason in waiting if reason
        }  # the rest, such as the free space, varies
        self._since = {kind: self._since.get(kind, now) for kind in kinds}
        for kind in sorted(kinds - self._told):
            if now - self._since[kind] >= WAITS_SAID_S and self._on_wait is not None:
                self._told.add(kind)
                those = [(job, reason) for job, reason in waiting if reason.partition(":")[0] == kind]
                name = printable(str(those[0][0].get("name") or "the job"))[:200]
                more = f" and {len(those) - 1} more wait" if len(those) > 1 else " waits"
                self._on_wait(f"{name}{more}: {those[0][1]}")


def _reason_to_wait(job: Mapping[str, Any]) -> str:
    """Returns why a job waits, or "", also from a server that does not tell."""
    return printable(" ".join(str(job.get("waits") or "").split())[:300]) if job["state"] == "queued" else ""


def _wait(server: FarmServer, run: str, progress: Progress | None, reasons: WaitReasons) -> list[dict[str, Any]]:
    """Waits until a run has ended, and returns its jobs. The server may be out of reach as long as a request is tried again."""
    pause, shown = FIRST_PAUSE_S, ("", -1)
    while True:
        with _naming_the_run(run):
            jobs, state = _read_run(server, run)
        done = sum(job["state"] in END_STATES for job in jobs)
        ended = state in END_STATES and done == len(jobs)
        progress_text = "done" if ended else _describe_progress(jobs)
        if progress is not None:  # at least once, however quick the run was
            progress(progress_text, done, len(jobs))
        if ended:
            return jobs
        reasons.look(jobs, time.monotonic())
        pause = FIRST_PAUSE_S if (progress_text, done) != shown else min(pause * 1.3, LONGEST_PAUSE_S)
        shown = (progress_text, done)
        time.sleep(pause)


@contextlib.contextmanager
def _naming_the_run(run: str) -> Iterator[None]:
    """Adds to the error of a server that is away which run it has."""
    try:
        yield
    except (AwayError, TooBusyError) as error:
        end = "" if str(error).endswith("?") else "."
        raise ServerError(f"{error}{end} The run is kept there: {run[:12]}") from None


def _read_run(server: FarmServer, run: str) -> tuple[list[dict[str, Any]], str]:
    state = _text(server.get(f"{API}/runs/{run}"), "state")
    jobs = server.get(f"{API}/runs/{run}/jobs", limit=1000)
    rows = jobs.get("jobs") if isinstance(jobs, dict) else None
    if (
        not isinstance(rows, list)
        or not rows
        or not all(isinstance(entry, dict) and "state" in entry for entry in rows)
    ):
        raise ServerError(
            f"{server.url}: its answer does not list the run's jobs; is this a qverify server of this version?"
        )
    return rows, state


def _describe_progress(jobs: Sequence[Mapping[str, Any]]) -> str:
    running = [printable(str(job.get("board") or "")) for job in jobs if job["state"] == "running"]
    why = next((reason for job in jobs if (reason := _reason_to_wait(job))), "")
    return f"on {', '.join(running)[:60]}" if running else f"waits: {why[:60]}" if why else "waits for a board"


def _cancel(server: FarmServer, run: str) -> None:
    with contextlib.suppress(UsageError, ServerError):
        server.post(f"{API}/runs/{run}/cancel", {"why": "interrupted by its submitter"})


def _mistake(server: FarmServer, job: Mapping[str, Any]) -> str:
    """Returns why a job ended for its own files or options, which end the main job on this host with the same line, or ""."""
    if job.get("report") or job.get("verdict") != "INCONCLUSIVE":
        return ""
    document = server.get(f"{API}/jobs/{_text(job, 'id')}")
    attempts = document.get("attempts") if isinstance(document, dict) else None
    last = attempts[-1] if isinstance(attempts, list) and attempts else None
    if not isinstance(last, dict) or last.get("ending") != "refused":
        return ""
    return printable(" ".join(str(job.get("why") or "the job's files are wrong").split())[:300])


def _with_given_paths(text: str, given: Mapping[str, str]) -> str:
    """Returns a text of the farm with the paths that the caller gave in place of the farm's."""
    paths = "|".join(re.escape(path) for path in sorted(given, key=len, reverse=True))
    return re.sub(rf"(?<![\w/.-])(?:{paths})(?![\w/-])", lambda found: given[found[0]], text) if paths else text


def _report(server: FarmServer, job: Mapping[str, Any], files: JobFiles) -> ReportDocument:
    """Returns the report of a job that is done. For a job without a report, returns an INCONCLUSIVE report with the reason."""
    if not job.get("report"):
        why = printable(" ".join(str(job.get("why") or "it was cancelled").split())[:300])
        board = printable(str(job.get("board") or " ".join(map(str, job.get("wanted") or ()))))
        return ReportDocument(
            verdict="INCONCLUSIVE", blame=None, decimals={}, pairs=[], notes=[f"board: not run on {board[:200]}: {why}"]
        )
    document = server.get(f"{API}/jobs/{_text(job, 'id')}/report", MAX_REPORT_BYTES)
    report = report_of(document, f"{server.url}: report of job {_text(job, 'id')[:12]}")
    if report.verdict != job.get("verdict"):
        raise BadFileError(
            f"{server.url}: the report says {report.verdict}, its job {printable(str(job.get('verdict')))}"
        )
    return _with_given_names(report, files.given)


def _with_given_names(report: ReportDocument, given: Mapping[str, str]) -> ReportDocument:
    """Replaces the farm's paths in a report by the names that the caller gave, and returns the report."""
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
