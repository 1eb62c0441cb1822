"""The scheduler beside an engine: started where nobody listens at its address yet, and started again when it ends."""

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
END_S, AGAIN_S = 5.0, 1.0
WORKER_TTL_S = 60.0  # a worker that was silent for so long is lost


def is_listening(address: str) -> bool:
    """Returns whether something listens at a checked address."""
    try:
        with socket.create_connection(parts_of(address), timeout=2.0):
            return True
    except OSError:
        return False


class SchedulerProcess:
    """A scheduler at a checked address, which ends with this process. UsageError where it cannot be started."""

    def __init__(self, address: str, tls: TlsFiles | None = None, worker_ttl_s: float = WORKER_TTL_S):
        files = asdict(tls) if tls is not None else None
        self._settings = json.dumps({"address": address, "tls": files, "worker_ttl_s": worker_ttl_s})
        self._closed = threading.Event()
        self._process = self._started()
        self._thread = threading.Thread(target=self._start_again, name="farm-scheduler", daemon=True)
        self._thread.start()

    @property
    def process_id(self) -> int:
        return self._process.pid

    def _started(self) -> subprocess.Popen[bytes]:
        process = start_module(MODULE, self._settings)
        assert process.stdout is not None
        line = process.stdout.readline().decode(errors="replace").strip()
        if line != "listening":
            end(process)
            raise UsageError(f"the farm's scheduler could not be started: {line[:200] or 'it ended without a word'}")
        return process

    def _start_again(self) -> None:
        while not self._closed.is_set():
            self._process.wait()
            end(self._process)
            while not self._closed.wait(AGAIN_S):
                try:
                    self._process = self._started()
                    break
                except UsageError:
                    continue

    def close(self) -> None:
        """Ends the scheduler."""
        self._closed.set()
        self._process.kill()
        self._thread.join(END_S)
        end(self._process)


def start_module(module: str, settings: str) -> subprocess.Popen[bytes]:
    """Returns a Python process that runs a module of this installation and was given a line of settings."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    process = subprocess.Popen(
        [sys.executable, "-m", module],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=environment,
        start_new_session=True,  # Ctrl-C is its parent's to handle
    )
    assert process.stdin is not None
    process.stdin.write(settings.encode() + b"\n")
    process.stdin.flush()
    return process


def end(process: subprocess.Popen[bytes]) -> None:
    """Ends a process of start_module, and closes its pipes."""
    process.kill()
    process.wait()
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            with contextlib.suppress(OSError):  # what it did not read
                pipe.close()
