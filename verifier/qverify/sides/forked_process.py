"""A child that runs one of our programs and begins as a copy of this process: numpy and onnxruntime, which both import, are
loaded already, so that it costs no second start of Python. It shares nothing with this process afterwards."""

from __future__ import annotations

import os
import runpy
import signal
import sys
import threading
import time
import warnings
from pathlib import Path
from typing import NoReturn, TextIO

from qverify.arithmetic.workers import WORKER

POLL_S = 0.01
NO_COPY = "Windows has no copies of a process"


class ForkedProcess:
    """A running child, with the attributes and methods of subprocess.Popen that EngineChild uses."""

    def __init__(self, pid: int, stdin: TextIO, stdout: TextIO):
        self.pid, self.stdin, self.stdout = pid, stdin, stdout
        self.returncode: int | None = None
        self._lock = threading.Lock()

    def poll(self) -> int | None:
        """Returns the status with which the child ended, that of a signal negative; None if it runs."""
        if sys.platform == "win32":
            raise OSError(NO_COPY)
        with self._lock:
            if self.returncode is None:
                try:
                    pid, status = os.waitpid(self.pid, os.WNOHANG)
                except ChildProcessError:  # another part of the program waited for it
                    pid, status = self.pid, 0
                if pid:
                    self.returncode = os.waitstatus_to_exitcode(status)
            return self.returncode

    def wait(self) -> int:
        """Waits until the child has ended, and returns its status."""
        while (status := self.poll()) is None:
            time.sleep(POLL_S)
        return status

    def kill(self) -> None:
        """Ends the child, which poll() or wait() collects."""
        if sys.platform == "win32":
            raise OSError(NO_COPY)
        if self.poll() is None:
            os.kill(self.pid, signal.SIGKILL)


def may_fork() -> bool:
    """Returns whether a copy of this process can run: on Linux, while no thread but ours and the workers', which hold no lock
    that a program needs, exists."""
    others = [t for t in threading.enumerate() if t is not threading.main_thread() and not t.name.startswith(WORKER)]
    is_main = threading.current_thread() is threading.main_thread()
    return sys.platform == "linux" and is_main and not others


def fork_program(program: Path) -> ForkedProcess:
    """Starts the program in a copy of this process, with pipes as its input and output. Raises OSError."""
    if sys.platform == "win32":
        raise OSError(NO_COPY)
    child_in, our_out = os.pipe()
    our_in, child_out = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # Python 3.12 counts the threads of BLAS, too
        pid = os.fork()
    if not pid:
        _run(program, child_in, child_out)
    try:
        os.setpgid(pid, pid)  # here and in the child, so that the group exists when either goes on
    except OSError:  # it has ended
        pass
    os.close(child_in)
    os.close(child_out)
    return ForkedProcess(pid, open(our_out, "w", encoding="utf-8"), open(our_in, encoding="utf-8"))


def _run(program: Path, stdin: int, stdout: int) -> NoReturn:
    """Runs the program in the child, and ends it without what this process would do at its end."""
    if sys.platform == "win32":
        raise OSError(NO_COPY)
    status = 1
    try:
        os.setpgid(0, 0)
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGALRM):
            if callable(signal.getsignal(number)):
                signal.signal(number, signal.SIG_DFL)
        os.dup2(stdin, 0)
        os.dup2(stdout, 1)
        os.dup2(os.open(os.devnull, os.O_RDWR), 2)
        os.closerange(3, os.sysconf("SC_OPEN_MAX"))
        sys.stdin = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115 (open until the process ends)
        sys.argv, sys.path = [str(program)], [str(program.parent), *sys.path]
        runpy.run_path(str(program), run_name="__main__")
        status = 0
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else int(bool(end.code))
    finally:
        os._exit(status)
