"""Child processes in a process group of their own, which is killed as a whole; on Linux also when this process ends."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from typing import Any, Protocol

KILL = getattr(signal, "SIGKILL", signal.SIGTERM)  # on Windows, os.kill() with SIGTERM also kills


class Process(Protocol):
    """A child, as subprocess.Popen is one."""

    pid: int

    def poll(self) -> int | None:
        """Returns the status with which it ended, None if it runs."""

    def kill(self) -> None:
        """Ends it."""


if sys.platform == "win32":

    def new_group_arguments(signal_at_our_end: int = 0) -> dict[str, Any]:
        """Returns arguments for subprocess.Popen that make the child the leader of a new process group, so that Ctrl-C
        does not reach it. signal_at_our_end: signal that the child receives when the thread that started it ends, 0 for
        none; has an effect on Linux only."""
        return {"creationflags": subprocess.CREATE_NEW_PROCESS_GROUP}

    def kill_group(process: Process) -> None:
        """Kills a child that was started with new_group_arguments() and all processes of its group, without waiting for
        them. Does nothing if they have ended."""
        if process.poll() is None:
            command = ["taskkill", "/T", "/F", "/PID", str(process.pid)]
            with contextlib.suppress(OSError, subprocess.TimeoutExpired):
                subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, timeout=10, check=False)
            with contextlib.suppress(OSError):
                process.kill()

else:
    import ctypes
    from functools import partial

    PR_SET_PDEATHSIG = 1  # prctl(2)
    _LIBC = ctypes.CDLL(None) if sys.platform == "linux" else None  # loaded before the fork

    def new_group_arguments(signal_at_our_end: int = 0) -> dict[str, Any]:
        """Returns arguments for subprocess.Popen that make the child the leader of a new process group, so that Ctrl-C
        does not reach it. signal_at_our_end: signal that the child receives when the thread that started it ends, 0 for
        none; has an effect on Linux only."""
        if not signal_at_our_end or _LIBC is None:
            return {"start_new_session": True}
        return {"start_new_session": True, "preexec_fn": partial(_LIBC.prctl, PR_SET_PDEATHSIG, int(signal_at_our_end))}

    def kill_group(process: Process) -> None:
        """Kills a child that was started with new_group_arguments() and all processes of its group, without waiting for
        them. Does nothing if they have ended."""
        with contextlib.suppress(OSError):
            os.killpg(process.pid, KILL)
