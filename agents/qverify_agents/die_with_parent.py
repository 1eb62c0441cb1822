"""For children that must not outlive this process, however it ends."""

from __future__ import annotations

import ctypes
import signal

PR_SET_PDEATHSIG = 1  # prctl(2)
_LIBC = ctypes.CDLL(None)


def die_with_parent(number: int = signal.SIGKILL) -> None:
    """For preexec_fn: the child gets this signal when the thread that started it ends."""
    _LIBC.prctl(PR_SET_PDEATHSIG, number)
