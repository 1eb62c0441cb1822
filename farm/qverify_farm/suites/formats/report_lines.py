"""The texts that the formats of a suite's report share."""

from __future__ import annotations

from datetime import UTC, datetime

from qverify.plural import count

from qverify_farm.suites.suite_report import FlakyNode, JobRow, SuiteReport

OF_BASELINE = ("known", "unlike baseline")
MAX_CAVEATS = 5  # different ones, as lines
RANK = {"FAILED": 0, "INCONCLUSIVE": 1, None: 2, "PASSED": 3}


def headline(report: SuiteReport) -> str:
    """Returns one line with the verdict, or the verdict so far, and the numbers of jobs."""
    counts = report.counts
    parts = [count(len(report.jobs), "job")]
    passed_weakly = f" ({counts['caveats']} with caveats)" if counts.get("caveats") else ""
    known = sum(job.change == "known" for job in report.jobs)
    more = {"PASSED": passed_weakly, "FAILED": f" ({known} as in the baseline)" if known else ""}
    parts += [
        f"{counts[name]} {name}{more.get(name, '')}" for name in ("PASSED", "FAILED", "INCONCLUSIVE") if counts[name]
    ]
    parts += [f"{counts[name]} {name}" for name in ("running", "queued", "cancelled") if counts[name]]
    why = f"; {report.why}" if report.why else ""
    return f"{verdict_so_far(report)}: {report.name}: {', '.join(parts)}{why}{_weakest(report)}"


def _weakest(report: SuiteReport) -> str:
    """Returns the caveats of the first job that PASSED with some, for the line with the verdict."""
    different = _caveats_of_passed(report)
    more = f"; and {count(len(different) - 1, 'other caveat')}" if len(different) > 1 else ""
    return f"; caveats: {next(iter(different))}{more}" if different else ""


def caveat_lines(report: SuiteReport) -> list[str]:
    """Returns what weakens the verdicts of jobs that PASSED, a line for each different text, those of most jobs first."""
    different = _caveats_of_passed(report)
    lines = [
        f"caveats of {count(len(names), 'job')}: {text} ({', '.join(names[:3])}{', ...' if len(names) > 3 else ''})"
        for text, names in sorted(different.items(), key=lambda item: -len(item[1]))
    ]
    more = [f"caveats: {len(lines) - MAX_CAVEATS} more; --json has all"] if len(lines) > MAX_CAVEATS else []
    return lines[:MAX_CAVEATS] + more


def _caveats_of_passed(report: SuiteReport) -> dict[str, list[str]]:
    """Returns the names of the jobs that PASSED with caveats, by their caveats."""
    different: dict[str, list[str]] = {}
    for job in report.jobs:
        if job.verdict == "PASSED" and job.caveats:
            different.setdefault(job.caveats, []).append(job.name)
    return different


def verdict_so_far(report: SuiteReport) -> str:
    """Returns the verdict; of a run that has not ended, that it has not, and FAILED if a job has FAILED."""
    if report.state != "running":
        return report.verdict
    return "not finished, FAILED" if report.verdict == "FAILED" else "not finished"


def worst_first(report: SuiteReport) -> list[JobRow]:
    """Returns the jobs sorted by verdict, the worst first, otherwise in the suite's order."""
    return sorted(report.jobs, key=lambda job: RANK[job.verdict])


def blame(job: JobRow) -> str:
    """Returns the side and the node that a job's verdict blames, or the first nodes that failed."""
    where = job.blame_node or ", ".join(job.nodes[:3])
    return " at ".join(part for part in (job.blame_side, where) if part)


def verdict_words(job: JobRow) -> str:
    """Returns a job's verdict, or its state if it has no verdict."""
    return job.verdict or job.state


def reason(job: JobRow) -> str:
    """Returns one line with the blame and the reason; for a job that PASSED, with its caveats."""
    if job.verdict == "PASSED":
        return f"caveats: {job.caveats}" if job.caveats else ""
    return ": ".join(part for part in (blame(job), job.why) if part)


def trend_lines(report: SuiteReport) -> list[str]:
    """Returns the changes compared with earlier runs, a line for each kind."""
    if not report.past and not any(job.change in OF_BASELINE for job in report.jobs):
        return []
    lines = []
    for change in ("new failure", "changed cause", "new inconclusive", "mended", "other caveats", *OF_BASELINE):
        names = [job.name for job in report.jobs if job.change == change]
        if names:
            more = f" and {len(names) - 5} more" if len(names) > 5 else ""
            lines.append(f"{change}: {'; '.join(names[:5])}{more}")
    return lines or [f"nothing changed since {format_time(report.past[0].created)}"]


def flaky_lines(report: SuiteReport) -> list[str]:
    """Returns the flaky nodes and boards, a line each."""
    lines = [f"flaky: {node.job} on {node.board}: {_results(node)}" for node in report.flaky_nodes]
    return lines + [
        f"flaky board: {row.board}: {row.inconclusive} of {count(row.attempts, 'attempt')} without a verdict; {row.why}"
        for row in report.boards
        if row.flaky
    ]


def _results(node: FlakyNode) -> str:
    results = ", ".join(f"{number} x {result}" for result, number in node.results.items())
    return f"{results}; nodes that differ: {', '.join(node.nodes[:5])}" if node.nodes else results


def format_time(seconds: float | None) -> str:
    """Returns a time in seconds since 1970 as "2026-01-31 23:59 UTC", or "" for None."""
    return "" if seconds is None else datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M UTC")


def duration_s(report: SuiteReport) -> float:
    """Returns the duration of a run in seconds; 0 if it has not ended, or if the clock was set back meanwhile."""
    return max(0.0, report.ended - report.started) if report.ended and report.started else 0.0
