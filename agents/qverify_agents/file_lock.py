"""A lock on an open file among the processes of this host: flock, or msvcrt on Windows. The operating system releases
it in whatever way its holder ends."""

from __future__ import annotations

import os
import sys

if sys.platform == "win32":
    import errno
    import msvcrt
    import time

    _LOCKED_OFFSET = 1 << 30  # offset of the locked byte, beyond the content: other processes cannot read a locked byte
    _LOCKED_BY_OTHERS = (errno.EACCES, errno.EDEADLK)
    _RETRY_S = 0.1

    def lock_file(descriptor: int, wait: bool = False) -> bool:
        """Locks a file that is open for writing, until its descriptor is closed. Returns whether the file is now locked
        by this descriptor; with `wait`, waits until it is. Raises OSError if the file system has no locks."""
        while not _try_lock(descriptor):
            if not wait:
                return False
            time.sleep(_RETRY_S)
        return True

    def unlock_file(descriptor: int) -> None:
        """Releases the lock at once; the descriptor stays open."""
        position = os.lseek(descriptor, 0, os.SEEK_CUR)
        try:
            os.lseek(descriptor, _LOCKED_OFFSET, os.SEEK_SET)
            msvcrt.locking(descriptor, msvcrt.LK_UNLCK, 1)
        finally:
            os.lseek(descriptor, position, os.SEEK_SET)

    def _try_lock(descriptor: int) -> bool:
        position = os.lseek(descriptor, 0, os.SEEK_CUR)
        try:
            os.lseek(descriptor, _LOCKED_OFFSET, os.SEEK_SET)
            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
        except OSError as error:
            if error.errno in _LOCKED_BY_OTHERS:
                return False
            raise
        finally:
            os.lseek(descriptor, position, os.SEEK_SET)
        return True

else:
    import fcntl

    def lock_file(descriptor: int, wait: bool = False) -> bool:
        """Locks a file that is open for writing, until its descriptor is closed. Returns whether the file is now locked
        by this descriptor; with `wait`, waits until it is. Raises OSError if the file system has no locks."""
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        except BlockingIOError:
            return False
        return True

    def unlock_file(descriptor: int) -> None:
        """Releases the lock at once. Closing the descriptor might not: a process that another thread is just starting
        has a copy of it until it runs its program."""
        fcntl.flock(descriptor, fcntl.LOCK_UN)


# Flags of os.open for a lock file: read and write, made if it is missing, and not a symbolic link if the system has
# those.
LOCK_FLAGS = (
    os.O_RDWR | os.O_CREAT | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)
)
