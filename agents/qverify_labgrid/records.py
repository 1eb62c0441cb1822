"""One file for each process that holds a place, locked as long as that process lives: labgrid has no leases, and what a
killed process held is found by its file."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import re
import socket
from collections.abc import Iterator
from pathlib import Path

MOST_BYTES = 4096
FLAGS = os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW


class Record:
    """The file of this process, locked from construction on. Raises OSError where it cannot be written."""

    def __init__(self, folder: Path, coordinator: str, identity: str):
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        content = {"coordinator": coordinator, "identity": identity, "host": socket.gethostname(), "pid": os.getpid()}
        self._path = folder / f"{re.sub(r'[^A-Za-z0-9_.-]', '_', identity)}.json"
        part = self._path.with_suffix(".part")
        self._file = os.open(part, FLAGS | os.O_CREAT | os.O_EXCL, 0o600)
        fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.write(self._file, json.dumps(content).encode())
        part.rename(self._path)  # from here on others see it, locked

    def remove(self) -> None:
        self._path.unlink(missing_ok=True)
        os.close(self._file)


class DeadRecord:
    """The file of a process of this host that has ended, locked within `with`."""

    def __init__(self, path: Path, file: int, identity: str):
        self._path, self._file, self.identity = path, file, identity

    def __enter__(self) -> DeadRecord:
        return self

    def __exit__(self, *error: object) -> None:
        os.close(self._file)

    def remove(self) -> None:
        self._path.unlink(missing_ok=True)


def dead_records(folder: Path, coordinator: str) -> Iterator[DeadRecord]:
    """Yields the files of processes of this host that held a place of this coordinator and have ended."""
    for path in sorted(folder.glob("*.json")):
        try:
            file = os.open(path, FLAGS)
        except OSError:
            continue
        identity = _identity(file, coordinator)
        if identity and _locked(file):
            yield DeadRecord(path, file, identity)
        else:
            os.close(file)


def _identity(file: int, coordinator: str) -> str:
    """Returns whose file it is; "" for one of another coordinator or host, and for one that cannot be read."""
    try:
        content = json.loads(os.read(file, MOST_BYTES))
        ours = content["coordinator"] == coordinator and content["host"] == socket.gethostname()
        return str(content["identity"]) if ours else ""
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return ""


def _locked(file: int) -> bool:
    with contextlib.suppress(OSError):
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return True
    return False
