"""A lock for each key, which exists as long as somebody wants it."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator


class KeyedLock:
    """Lets one thread at a time into the blocks of a key."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._locks: dict[str, tuple[threading.Lock, list[int]]] = {}

    @contextlib.contextmanager
    def alone(self, key: str) -> Iterator[None]:
        """Waits for the key's lock and holds it while the block runs."""
        with self._lock:
            lock, users = self._locks.setdefault(key, (threading.Lock(), [0]))
            users[0] += 1
        try:
            with lock:
                yield
        finally:
            with self._lock:
                users[0] -= 1
                if not users[0]:
                    del self._locks[key]
