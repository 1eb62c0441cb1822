"""A limit for what paramiko waits for without one: the connection is cut when the deadline passes, which ends the wait."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator
from typing import Any

from qverify_agents.deadline import Deadline

STEP_S = 0.25
GRACE_S = 1.0  # what keeps its deadline by itself leaves the connection whole


class TimeLimits:
    """Of one connection, with one thread: a timer for each call would cost as much as the call."""

    def __init__(self, transport: Any):
        self._transport, self._end = transport, float("inf")
        threading.Thread(target=self._watch, daemon=True).start()

    @contextlib.contextmanager
    def within(self, deadline: Deadline) -> Iterator[None]:
        """The caller turns what then comes out of paramiko into a LinkTimeout by asking the deadline."""
        self._end = time.monotonic() + deadline.left() + GRACE_S
        try:
            yield
        finally:
            self._end = float("inf")

    def _watch(self) -> None:
        while self._transport.is_active():
            if time.monotonic() >= self._end:
                close_transport(self._transport)
            time.sleep(STEP_S)


def close_transport(transport: Any) -> None:
    """Closes it and the jump hosts' it goes through, the nearest first: a channel says good-bye through the one below it,
    which may be what hangs."""
    chain = [transport]
    while (via := getattr(chain[-1].sock, "over", None)) is not None:
        chain.append(via)
    for one in reversed(chain):
        one.close()
