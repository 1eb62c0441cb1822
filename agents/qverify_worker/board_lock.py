"""The advisory lock of a board (PROTOCOL.md, One board, one user), with the same file and content as that of the C
agent."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import time

FOLDERS = ("/tmp", "/dev/shm", "/run/lock", "/var/lock")
MAX_BYTES = 511  # of the lock file


class BoardLock:
    """The lock. path: the lock file, or "auto" for qverify.lock in the first of FOLDERS where it can be opened; ""
    takes no lock."""

    def __init__(self, path: str):
        self._path, self._descriptor, self._owner, self._since = path, -1, "", 0

    def take(self, owner: str) -> tuple[str, dict[str, object]]:
        """Takes the lock for the owner. Returns "none" (no lock is used), "held" (by this agent) or "busy", and with
        "busy" the content of the lock file, which describes the holder."""
        if not self._path or not owner:
            return ("held" if self._descriptor >= 0 else "none"), {}
        for _ in range(3):
            if self._descriptor < 0:
                self._descriptor, path = self._open()
                self._opened_path = path
            if self._descriptor < 0:
                return "none", {}
            try:
                fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                return "busy", self._read_holder()
            if self._is_same_file():
                self._owner = "".join(c if " " <= c <= "~" and c not in '"\\' else "_" for c in owner)[:127]
                self.note(0)
                return "held", {}
            os.close(self._descriptor)
            self._descriptor = -1
        return "none", {}

    def _open(self) -> tuple[int, str]:
        """Returns the descriptor and the path of the lock file; -1 and "" if it cannot be opened."""
        paths = [f"{folder}/qverify.lock" for folder in FOLDERS] if self._path == "auto" else [self._path]
        for path in paths:
            for flags in (os.O_RDWR | os.O_CREAT, os.O_RDONLY):
                with contextlib.suppress(OSError):
                    descriptor = os.open(path, flags | os.O_NOFOLLOW | os.O_CLOEXEC, 0o666)
                    with contextlib.suppress(OSError):
                        os.fchmod(descriptor, 0o666)
                    return descriptor, path
        return -1, ""

    def _is_same_file(self) -> bool:
        """Returns whether the opened lock file is still the one at its path."""
        try:
            opened, current = os.fstat(self._descriptor), os.lstat(self._opened_path)
        except OSError:
            return False
        return (opened.st_ino, opened.st_dev) == (current.st_ino, current.st_dev)

    def is_held(self) -> bool:
        """Returns whether this agent still has the lock; True if no lock is used."""
        return self._descriptor < 0 or self._is_same_file()

    def note(self, running: int) -> None:
        """Writes the holder and whether something runs (1 or 0) into the lock file."""
        if self._descriptor < 0:
            return
        now, boot = int(time.monotonic()), ""
        self._since = self._since or now
        with contextlib.suppress(OSError), open("/proc/sys/kernel/random/boot_id") as file:
            boot = file.read(40).strip()
        content = {
            "owner": self._owner,
            "pid": os.getpid(),
            "since_uptime_s": self._since,
            "heard_uptime_s": now,
            "running": running,
            "boot_id": boot,
        }
        with contextlib.suppress(OSError):
            os.ftruncate(self._descriptor, 0)
            os.pwrite(self._descriptor, (json.dumps(content) + "\n").encode()[:MAX_BYTES], 0)

    def _read_holder(self) -> dict[str, object]:
        with contextlib.suppress(OSError, ValueError):
            content = json.loads(os.pread(self._descriptor, MAX_BYTES, 0))
            if isinstance(content, dict):
                return {k: v for k, v in content.items() if isinstance(v, (str, int))}
        return {}
