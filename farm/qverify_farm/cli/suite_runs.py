"""Reads the runs of suites from a database, for `qverify report matrix --suite`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from qverify.report.matrix.document import StoredRun

from qverify_farm.cli.suite_work import opened_database
from qverify_farm.store.artifacts import open_artifacts
from qverify_farm.store.database_artifacts import default_artifacts
from qverify_farm.store.finished_jobs import filter_of, find_jobs
from qverify_farm.suites.stored_runs import StoredReports, labelled, runs_of_jobs


def read_suites(
    suites: Sequence[str], database: str, artifacts: str, limit: int, labels: Mapping[str, str]
) -> list[StoredRun]:
    """Returns the runs of suites' jobs, the newest `limit` of each. suites: names of suites, ids of runs or their beginnings, or "all".
    labels: facts of the runs that do not state them themselves. Raises UsageError for a suite that is not there."""
    with opened_database(database) as farm:
        reports = StoredReports(open_artifacts(artifacts or default_artifacts(farm)))
        with farm.read() as session:
            jobs = [find_jobs(session, filter_of(session, text), None, limit) for text in suites]
        found = {(run.source, run.facts["board"]): run for one in jobs for run in runs_of_jobs(one, reports)}
    return labelled(found.values(), labels)
