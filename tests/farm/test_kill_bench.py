"""The benchmark that kills a farm's processes: how it counts lost and doubled results, and which processes it finds."""

from __future__ import annotations

import os
import subprocess
import time
from collections import Counter

from qverify_farm.store.tables import AttemptRecord, JobRecord

from scripts.benchmarks.farm_kill import below, figures_of


def attempt(job: str, ending: str = "finished", verdict: str | None = "PASSED") -> AttemptRecord:
    return AttemptRecord(job=job, ending=ending, verdict=verdict)


def test_results_that_are_missing_or_repeated_are_counted() -> None:
    jobs = [JobRecord(id=name, state="done", verdict="PASSED") for name in "abc"]
    jobs += [JobRecord(id="d", state="running", verdict=None), JobRecord(id="e", state="done", verdict="INCONCLUSIVE")]
    attempts = [attempt("a"), attempt("b", "lost", None), attempt("b"), attempt("c"), attempt("c"), attempt("c")]
    attempts.append(attempt("e", verdict="INCONCLUSIVE"))
    found = figures_of(jobs, attempts, Counter(service=2), 1.26)
    assert (found["runs"], found["lost"], found["duplicated"], found["attempts"]) == (5, 2, 2, 7)
    assert (found["killed"], found["wall_s"]) == ({"service": 2}, 1.3)


def test_only_child_processes_are_found() -> None:
    with subprocess.Popen(["sleep", "19.19"]) as sleeping:
        try:
            end = time.monotonic() + 10
            while sleeping.pid not in below(os.getpid(), "sleep\x20"):  # a new process shows its words a moment later
                assert time.monotonic() < end
            assert sleeping.pid in below(os.getpid(), "")
            assert below(os.getpid(), "no such word") == [] and below(sleeping.pid, "") == []
        finally:
            sleeping.kill()
