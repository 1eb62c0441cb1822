"""Child processes in a group of their own, which is ended whole, and with this process where the system can do that."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from typing import Any

KILL = getattr(signal, "SIGKILL", signal.SIGTERM)  # on Windows, os.kill() with SIGTERM kills, too

if sys.platform == "win32":

    def own_group(at_our_end: int = 0) -> dict[str, Any]:
        """Returns arguments of subprocess.Popen by which a child leads a group of its own, so that Ctrl-C does not reach
        it. at_our_end: the signal that it gets when the thread that started it ends, 0 for none; on Linux only."""
        return {"creationflags": subprocess.CREATE_NEW_PROCESS_GROUP}

    def end_group(process: subprocess.Popen[Any]) -> None:
        """Kills a child of own_group() and all that it started; nothing where they are gone. It is not waited for."""
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

    def own_group(at_our_end: int = 0) -> dict[str, Any]:
        """Returns arguments of subprocess.Popen by which a child leads a group of its own, so that Ctrl-C does not reach
        it. at_our_end: the signal that it gets when the thread that started it ends, 0 for none; on Linux only."""
        if not at_our_end or _LIBC is None:
            return {"start_new_session": True}
        return {"start_new_session": True, "preexec_fn": partial(_LIBC.prctl, PR_SET_PDEATHSIG, int(at_our_end))}

    def end_group(process: subprocess.Popen[Any]) -> None:
        """Kills a child of own_group() and all that it started; nothing where they are gone. It is not waited for."""
        with contextlib.suppress(OSError):
            os.killpg(process.pid, KILL)
