"""Keeps a worker running: one process at a time, started again when it ends."""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import subprocess
import time
from collections.abc import Callable
from dataclasses import asdict

from qverify_farm.engines.dask_worker import REFUSED, WorkerSettings
from qverify_farm.engines.scheduler_process import end, start_module

MODULE = "qverify_farm.engines.dask_worker"
SOON_S, LATE_S, GOOD_S = 1.0, 30.0, 60.0
END_S = 5.0
SILENT_S, LEAVE_S = 120.0, 2.0  # a process that says nothing for so long hangs


def run_workers(settings: WorkerSettings, tell: Callable[[str], None]) -> int:
    """Runs a worker until it refuses to work (exit status 2) or this process is interrupted. tell: is given a line whenever
    one ends."""
    pause = SOON_S
    while True:
        start = time.monotonic()
        status = _run(settings)
        if status == REFUSED:
            return REFUSED
        pause = SOON_S if time.monotonic() - start > GOOD_S else min(2 * pause, LATE_S)
        how = f"was ended by signal {-status}" if status < 0 else "lost the scheduler" if status == 0 else "ended"
        tell(f"the process that runs the jobs {how}; starts again in {pause:g} s")
        time.sleep(pause)


def _run(settings: WorkerSettings) -> int:
    process = start_module(MODULE, json.dumps(asdict(settings)))
    try:
        assert process.stdout is not None
        with selectors.DefaultSelector() as waiting:
            waiting.register(process.stdout, selectors.EVENT_READ)
            while waiting.select(SILENT_S) and os.read(process.stdout.fileno(), 4096):
                pass
        with contextlib.suppress(subprocess.TimeoutExpired):
            return process.wait(LEAVE_S)
        process.kill()  # it is silent: it hangs
        return process.wait()
    finally:
        with contextlib.suppress(OSError):
            assert process.stdin is not None
            process.stdin.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(END_S)
        end(process)
