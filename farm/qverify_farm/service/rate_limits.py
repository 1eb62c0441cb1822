"""Token buckets that limit the requests of each caller. The caller passes the time."""

from __future__ import annotations

import threading
from collections import OrderedDict

MAX_KEYS = 20_000


class RateLimit:
    """A bucket for each key, with room for `burst` requests, refilled with `per_s` requests per second. Any thread may call it."""

    def __init__(self, per_s: float, burst: int, max_keys: int = MAX_KEYS):
        self._per_s, self._burst, self._max_keys = per_s, float(burst), max_keys
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()  # remaining requests, and since when
        self._lock = threading.Lock()

    def wait_s(self, key: str, now: float, cost: float = 1.0) -> float:
        """Takes a request out of the key's bucket and returns 0.0, or returns the seconds until the bucket has one. cost: 0 to
        take nothing. now: monotonic seconds."""
        with self._lock:
            tokens, updated = self._buckets.get(key, (self._burst, now))
            tokens = min(self._burst, tokens + max(0.0, now - updated) * self._per_s)
            needed = cost or 1.0
            wait = 0.0 if tokens >= needed else (needed - tokens) / self._per_s
            self._buckets[key] = (tokens - cost if not wait else tokens, now)
            self._buckets.move_to_end(key)
            while len(self._buckets) > self._max_keys:
                self._buckets.popitem(last=False)
            return wait
