"""Returns memory to the system that was freed but that the C library keeps for the process. A large model's parts are
allocated and freed in turn."""

from __future__ import annotations

import ctypes


def return_free_memory() -> None:
    """Returns freed memory to the system if the C library supports it (glibc), else does nothing."""
    try:
        ctypes.CDLL(None).malloc_trim(0)
    except (OSError, TypeError, AttributeError):  # another C library
        return
