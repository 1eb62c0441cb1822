"""A record file for each process that holds a place, locked as long as that process lives. labgrid has no leases; by
the record, the place of a process that was killed can be found and released."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import re
import socket
from collections.abc import Iterator
from pathlib import Path

MAX_RECORD_BYTES = 4096
FLAGS = os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW


class Record:
    """The record of this process, written and locked at construction. Raises OSError if it cannot be written."""

    def __init__(self, folder: Path, coordinator: str, identity: str):
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        content = {"coordinator": coordinator, "identity": identity, "host": socket.gethostname(), "pid": os.getpid()}
        self._path = folder / f"{re.sub(r'[^A-Za-z0-9_.-]', '_', identity)}.json"
        part = self._path.with_suffix(".part")
        self._file = os.open(part, FLAGS | os.O_CREAT | os.O_EXCL, 0o600)
        fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.write(self._file, json.dumps(content).encode())
        part.rename(self._path)  # from now on other processes can see it, already locked

    def remove(self) -> None:
        self._path.unlink(missing_ok=True)
        os.close(self._file)


class DeadRecord:
    """The record of an ended process of this host. A context that keeps it locked."""

    def __init__(self, path: Path, file: int, identity: str):
        self._path, self._file, self.identity = path, file, identity

    def __enter__(self) -> DeadRecord:
        return self

    def __exit__(self, *error: object) -> None:
        os.close(self._file)

    def remove(self) -> None:
        self._path.unlink(missing_ok=True)


def iterate_dead_records(folder: Path, coordinator: str) -> Iterator[DeadRecord]:
    """Yields the records of ended processes of this host that held a place of this coordinator."""
    for path in sorted(folder.glob("*.json")):
        try:
            file = os.open(path, FLAGS)
        except OSError:
            continue
        identity = _read_identity(file, coordinator)
        if identity and _try_lock(file):
            yield DeadRecord(path, file, identity)
        else:
            os.close(file)


def _read_identity(file: int, coordinator: str) -> str:
    """Returns the identity in a record, or "" if it is for another coordinator or host or cannot be read."""
    try:
        content = json.loads(os.read(file, MAX_RECORD_BYTES))
        ours = content["coordinator"] == coordinator and content["host"] == socket.gethostname()
        return str(content["identity"]) if ours else ""
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return ""


def _try_lock(file: int) -> bool:
    """Locks the file, unless another process has it locked. Returns whether it did."""
    with contextlib.suppress(OSError):
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return True
    return False
