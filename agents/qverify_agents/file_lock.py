"""A lock on an open file between the processes of this host, on every system: flock, or msvcrt on Windows. The system
releases it however its holder ends."""

from __future__ import annotations

import os
import sys

if sys.platform == "win32":
    import errno
    import msvcrt
    import time

    _AT = 1 << 30  # the byte that is locked: others cannot read a locked one, and the content comes before it
    _HELD = (errno.EACCES, errno.EDEADLK)
    _AGAIN_S = 0.1

    def lock_file(descriptor: int, wait: bool = False) -> bool:
        """Locks a file open for writing until its descriptor is closed; returns whether it did. wait: until it is free.
        Raises OSError where the file system has no locks."""
        while not _locked(descriptor):
            if not wait:
                return False
            time.sleep(_AGAIN_S)
        return True

    def unlock_file(descriptor: int) -> None:
        """Releases the lock at once; the descriptor stays open."""
        place = os.lseek(descriptor, 0, os.SEEK_CUR)
        try:
            os.lseek(descriptor, _AT, os.SEEK_SET)
            msvcrt.locking(descriptor, msvcrt.LK_UNLCK, 1)
        finally:
            os.lseek(descriptor, place, os.SEEK_SET)

    def _locked(descriptor: int) -> bool:
        place = os.lseek(descriptor, 0, os.SEEK_CUR)
        try:
            os.lseek(descriptor, _AT, os.SEEK_SET)
            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
        except OSError as error:
            if error.errno in _HELD:
                return False
            raise
        finally:
            os.lseek(descriptor, place, os.SEEK_SET)
        return True

else:
    import fcntl

    def lock_file(descriptor: int, wait: bool = False) -> bool:
        """Locks a file open for writing until its descriptor is closed; returns whether it did. wait: until it is free.
        Raises OSError where the file system has no locks."""
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        except BlockingIOError:
            return False
        return True

    def unlock_file(descriptor: int) -> None:
        """Releases the lock at once, also for a process that another thread is just starting, which has the descriptor until
        it runs its program."""
        fcntl.flock(descriptor, fcntl.LOCK_UN)


# A lock's file is opened to read and write, is made where it is missing, and is no symbolic link where the system has those.
LOCK_FLAGS = (
    os.O_RDWR | os.O_CREAT | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)
)
