"""The scheduler process of an engine, which is started again when it ends; and functions that start and end the farm's
helper processes."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import sys
import threading
from dataclasses import asdict

from qverify.errors import UsageError

from qverify_farm.engines.dask_address import TlsFiles, parts_of

MODULE = "qverify_farm.engines.dask_scheduler"
END_S, RESTART_PAUSE_S = 5.0, 1.0
WORKER_TTL_S = 60.0  # a worker that is silent for so long counts as lost


def is_listening(address: str) -> bool:
    """Returns whether something listens at a checked address."""
    try:
        with socket.create_connection(parts_of(address), timeout=2.0):
            return True
    except OSError:
        return False


class SchedulerProcess:
    """A process with a scheduler at a checked address. It ends with this process."""

    def __init__(self, address: str, tls: TlsFiles | None = None, worker_ttl_s: float = WORKER_TTL_S):
        """Starts the process. Raises UsageError if it cannot be started."""
        files = asdict(tls) if tls is not None else None
        self._settings = json.dumps({"address": address, "tls": files, "worker_ttl_s": worker_ttl_s})
        self._closed = threading.Event()
        self._process = self._start_process()
        self._thread = threading.Thread(target=self._keep_running, name="farm-scheduler", daemon=True)
        self._thread.start()

    @property
    def process_id(self) -> int:
        return self._process.pid

    def _start_process(self) -> subprocess.Popen[bytes]:
        process = start_module(MODULE, self._settings)
        assert process.stdout is not None
        line = process.stdout.readline().decode(errors="replace").strip()
        if line != "listening":
            end_process(process)
            raise UsageError(f"the farm's scheduler could not be started: {line[:200] or 'it ended without a word'}")
        return process

    def _keep_running(self) -> None:
        while not self._closed.is_set():
            self._process.wait()
            end_process(self._process)
            while not self._closed.wait(RESTART_PAUSE_S):
                try:
                    self._process = self._start_process()
                    break
                except UsageError:
                    continue

    def close(self) -> None:
        """Ends the scheduler."""
        self._closed.set()
        self._process.kill()
        self._thread.join(END_S)
        end_process(self._process)


def start_module(module: str, settings: str) -> subprocess.Popen[bytes]:
    """Starts a Python process that runs a module of this installation, and writes a line of settings to its input."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    process = subprocess.Popen(
        [sys.executable, "-m", module],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=environment,
        start_new_session=True,  # the parent alone handles Ctrl-C
    )
    assert process.stdin is not None
    process.stdin.write(settings.encode() + b"\n")
    process.stdin.flush()
    return process


def end_process(process: subprocess.Popen[bytes]) -> None:
    """Kills a process of start_module and closes its pipes."""
    process.kill()
    process.wait()
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            with contextlib.suppress(OSError):  # closing flushes bytes that the process can no longer read
                pipe.close()
