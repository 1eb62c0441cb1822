"""The board's advisory lock (PROTOCOL.md, One board, one user): the same file and content as the C agent's."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import time

FOLDERS = ("/tmp", "/dev/shm", "/run/lock", "/var/lock")
MOST = 511


class BoardLock:
    """path: of the lock file, or "auto": qverify.lock in the first folder where it can be opened. "" takes no lock."""

    def __init__(self, path: str):
        self._path, self._file, self._owner, self._since = path, -1, "", 0

    def take(self, owner: str) -> tuple[str, dict[str, object]]:
        """Takes the lock for the owner. Returns "none", "held" or "busy", and then what is written about the holder."""
        if not self._path or not owner:
            return ("held" if self._file >= 0 else "none"), {}
        for _ in range(3):
            if self._file < 0:
                self._file, opened = self._opened()
                self._at = opened
            if self._file < 0:
                return "none", {}
            try:
                fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                return "busy", self._holder()
            if self._is_there():
                self._owner = "".join(c if " " <= c <= "~" and c not in '"\\' else "_" for c in owner)[:127]
                self.note(0)
                return "held", {}
            os.close(self._file)
            self._file = -1
        return "none", {}

    def _opened(self) -> tuple[int, str]:
        paths = [f"{folder}/qverify.lock" for folder in FOLDERS] if self._path == "auto" else [self._path]
        for path in paths:
            for flags in (os.O_RDWR | os.O_CREAT, os.O_RDONLY):
                with contextlib.suppress(OSError):
                    file = os.open(path, flags | os.O_NOFOLLOW | os.O_CLOEXEC, 0o666)
                    with contextlib.suppress(OSError):
                        os.fchmod(file, 0o666)
                    return file, path
        return -1, ""

    def _is_there(self) -> bool:
        try:
            held, named = os.fstat(self._file), os.lstat(self._at)
        except OSError:
            return False
        return (held.st_ino, held.st_dev) == (named.st_ino, named.st_dev)

    def is_held(self) -> bool:
        """Returns whether the lock, where there is one, is still this agent's."""
        return self._file < 0 or self._is_there()

    def note(self, running: int) -> None:
        """Writes into the lock file who holds it, and whether something runs."""
        if self._file < 0:
            return
        now, boot = int(time.monotonic()), ""
        self._since = self._since or now
        with contextlib.suppress(OSError), open("/proc/sys/kernel/random/boot_id") as file:
            boot = file.read(40).strip()
        about = {
            "owner": self._owner,
            "pid": os.getpid(),
            "since_uptime_s": self._since,
            "heard_uptime_s": now,
            "running": running,
            "boot_id": boot,
        }
        with contextlib.suppress(OSError):
            os.ftruncate(self._file, 0)
            os.pwrite(self._file, (json.dumps(about) + "\n").encode()[:MOST], 0)

    def _holder(self) -> dict[str, object]:
        with contextlib.suppress(OSError, ValueError):
            about = json.loads(os.pread(self._file, MOST, 0))
            if isinstance(about, dict):
                return {k: v for k, v in about.items() if isinstance(v, (str, int))}
        return {}
