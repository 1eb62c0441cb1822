"""Ends child processes with this process, however it ends."""

from __future__ import annotations

import ctypes
import signal

PR_SET_PDEATHSIG = 1  # prctl(2)
_LIBC = ctypes.CDLL(None)


def die_with_parent(number: int = signal.SIGKILL) -> None:
    """Makes the child, when called as preexec_fn, get this signal when the thread that started it ends."""
    _LIBC.prctl(PR_SET_PDEATHSIG, number)
