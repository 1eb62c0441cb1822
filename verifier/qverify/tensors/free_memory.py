"""Memory that was freed, which the C library keeps for the process: a large model's parts come and go in turn."""

from __future__ import annotations

import ctypes


def return_free_memory() -> None:
    """Gives freed memory back to the system, where the C library can (glibc); elsewhere nothing is done."""
    try:
        ctypes.CDLL(None).malloc_trim(0)
    except (OSError, TypeError, AttributeError):  # another C library
        return
