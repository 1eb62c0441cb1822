"""Token buckets: how many requests one caller may make. Pure: the time is given."""

from __future__ import annotations

import threading
from collections import OrderedDict

MOST_KEYS = 20_000


class RateLimit:
    """A bucket for each key: `burst` requests at once, refilled by per_s a second. Any thread may call it."""

    def __init__(self, per_s: float, burst: int, most_keys: int = MOST_KEYS):
        self._per_s, self._burst, self._most = per_s, float(burst), most_keys
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()  # what is left, and when
        self._lock = threading.Lock()

    def wait_s(self, key: str, now: float, cost: float = 1.0) -> float:
        """Takes one request of this key out of its bucket and returns 0.0, or returns how long until it may be made.
        cost 0: only looks. now: monotonic seconds."""
        with self._lock:
            left, then = self._buckets.get(key, (self._burst, now))
            left = min(self._burst, left + max(0.0, now - then) * self._per_s)
            wanted = cost or 1.0
            wait = 0.0 if left >= wanted else (wanted - left) / self._per_s
            self._buckets[key] = (left - cost if not wait else left, now)
            self._buckets.move_to_end(key)
            while len(self._buckets) > self._most:
                self._buckets.popitem(last=False)
            return wait
