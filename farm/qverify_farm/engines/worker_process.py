"""Keeps a worker running: one process at a time, which is started again when it ends."""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import subprocess
import time
from collections.abc import Callable
from dataclasses import asdict

from qverify_farm.engines.dask_worker import REFUSED_STATUS, STOP_S, WorkerSettings
from qverify_farm.engines.scheduler_process import end_process, start_module

MODULE = "qverify_farm.engines.dask_worker"
FIRST_PAUSE_S, LONGEST_PAUSE_S = 1.0, 30.0  # before the next start; doubled after each process that ended early
STABLE_S = 60.0  # after a process that ran longer than this, the pause is FIRST_PAUSE_S again
END_S = STOP_S + 4
MAX_SILENCE_S = 120.0  # a process that prints nothing for so long hangs
EXIT_S = 2.0  # time between the end of a process's output and its exit


def run_workers(settings: WorkerSettings, report: Callable[[str], None]) -> int:
    """Runs a worker until it refuses to work (returns its exit status, 2) or this process is interrupted. report: called
    with a line of text whenever a worker process ends."""
    pause = FIRST_PAUSE_S
    while True:
        start = time.monotonic()
        status = _run_once(settings)
        if status == REFUSED_STATUS:
            return REFUSED_STATUS
        pause = FIRST_PAUSE_S if time.monotonic() - start > STABLE_S else min(2 * pause, LONGEST_PAUSE_S)
        how = f"was ended by signal {-status}" if status < 0 else "lost the scheduler" if status == 0 else "ended"
        report(f"the process that runs the jobs {how}; starts again in {pause:g} s")
        time.sleep(pause)


def _run_once(settings: WorkerSettings) -> int:
    """Runs a worker process until it ends or hangs. Returns its exit status."""
    process = start_module(MODULE, json.dumps(asdict(settings)))
    try:
        assert process.stdout is not None
        with selectors.DefaultSelector() as selector:
            selector.register(process.stdout, selectors.EVENT_READ)
            while selector.select(MAX_SILENCE_S) and os.read(process.stdout.fileno(), 4096):
                pass
        with contextlib.suppress(subprocess.TimeoutExpired):
            return process.wait(EXIT_S)
        process.kill()  # it hangs
        return process.wait()
    finally:
        with contextlib.suppress(OSError):
            assert process.stdin is not None
            process.stdin.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(END_S)
        end_process(process)
