"""A child process in which an engine that is not ours computes, so that a file that ends the engine does not end
qverify."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import weakref
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
from qverify_agents.process_group import kill_group, new_group_arguments
from qverify_agents.signals_held import signals_held

from qverify.sides.forked_process import ForkedProcess
from qverify.tensors.recording import Array

TIMEOUT_S = 900.0  # of one request
Process = subprocess.Popen[str] | ForkedProcess


class EngineEnded(Exception):
    """Raised if the child ended, or was ended because it took too long; its text says how."""


class EngineChild:
    """A child that runs `program` and answers requests, one line of JSON each. It is started by the first request, again
    after it has ended, and ends when this object is collected or closed.

    Attributes:
        folder: a folder for the files of requests and answers.
        close: function that ends the child and removes the folder."""

    def __init__(self, program: Path, timeout_s: float = TIMEOUT_S, process: ForkedProcess | None = None):
        """process: one that runs the program already."""
        self._program, self._timeout_s = program, timeout_s
        self.folder = Path(tempfile.mkdtemp(prefix="qverify-engine-"))
        self._processes: list[Process] = [] if process is None else [process]  # the one that runs, if any
        self._lock = threading.Lock()
        self.close = weakref.finalize(self, _clean_up, self._processes, self.folder)

    def request(self, content: dict[str, Any], timeout_s: float = 0.0) -> dict[str, Any]:
        """Returns the child's answer. Raises EngineEnded."""
        with self._lock:
            process = self._running()
            assert process.stdin is not None and process.stdout is not None
            stopper = threading.Timer(timeout_s or self._timeout_s, kill_group, [process])
            stopper.start()
            try:
                process.stdin.write(json.dumps(content) + "\n")
                process.stdin.flush()
                line = process.stdout.readline()
            except OSError:  # its input is closed: it has ended
                line = ""
            finally:
                late = stopper.finished.is_set()
                stopper.cancel()
            if not line:
                self._processes.clear()
                raise EngineEnded(_how_ended(process, late, timeout_s or self._timeout_s))
            answer: dict[str, Any] = json.loads(line)
            return answer

    def read_arrays(self, answer: dict[str, Any], file: str) -> list[Array]:
        """Returns the arrays that an answer describes in `arrays`, [dtype, shape] each, from the elements in a file of the
        folder. Raises EngineEnded if the file is shorter. No header of a .npy is parsed (tensors/npy_headers.py)."""
        arrays = []
        with (self.folder / file).open("rb") as elements:
            for dtype, shape in answer["arrays"]:
                value = np.fromfile(elements, np.dtype(dtype), prod(shape))
                if value.size != prod(shape):
                    raise EngineEnded("its result is cut short")
                arrays.append(value.reshape(shape))
        return arrays

    def _running(self) -> Process:
        if self._processes and self._processes[0].poll() is not None:  # it was ended while it waited
            _wait(self._processes.pop())
        if not self._processes:
            with signals_held():
                process = subprocess.Popen(
                    [sys.executable, str(self._program)],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.DEVNULL,
                    env={**os.environ, "ORT_DISABLE_TELEMETRY": "1"},
                    encoding="utf-8",
                    **new_group_arguments(),
                )
                self._processes.append(process)
        return self._processes[0]


def _clean_up(processes: list[Process], folder: Path) -> None:
    for process in processes:
        kill_group(process)
        _wait(process)
    shutil.rmtree(folder, ignore_errors=True)


def _wait(process: Process) -> int:
    """Returns the status with which the process ended, and closes its pipes."""
    status = process.wait()
    for stream in (process.stdin, process.stdout):
        with contextlib.suppress(OSError):  # what was not sent
            if stream is not None:
                stream.close()
    return status


def _how_ended(process: Process, late: bool, timeout_s: float) -> str:
    status = _wait(process)
    if late:
        return f"it gave no answer within {timeout_s:g} s"
    if status >= 0:
        return f"it ended its process with status {status}"
    name = next((s.name for s in signal.Signals if s == -status), "")
    return f"it ended its process with signal {-status}{f' ({name})' if name else ''}"
