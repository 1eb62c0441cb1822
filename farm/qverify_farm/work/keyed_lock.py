"""Locks by key. A lock exists only as long as a thread holds it or waits for it."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator


class KeyedLock:
    """A set of locks, one for each key."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._locks: dict[str, tuple[threading.Lock, list[int]]] = {}

    @contextlib.contextmanager
    def hold(self, key: str) -> Iterator[None]:
        """Waits for the lock of a key and holds it during the `with` block."""
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
