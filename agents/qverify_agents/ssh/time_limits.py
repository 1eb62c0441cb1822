"""Time limits for paramiko's waits that have none: the connection is closed when the deadline passes, which ends the
wait."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator
from typing import Any

from qverify_agents.deadline import Deadline

STEP_S = 0.25
GRACE_S = 1.0  # a wait that keeps its own deadline ends before the connection is closed


class TimeLimits:
    """The time limits of one connection, kept by one thread: a timer per call would cost as much as the call."""

    def __init__(self, transport: Any):
        self._transport, self._end = transport, float("inf")
        threading.Thread(target=self._watch, daemon=True).start()

    @contextlib.contextmanager
    def within(self, deadline: Deadline) -> Iterator[None]:
        """Limits the block to the deadline. The caller turns paramiko's error into a LinkTimeout by calling
        deadline.left()."""
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
    """Closes the transport and those of its jump hosts, the nearest first: closing a channel sends through the
    transport below, which may be the one that hangs."""
    chain = [transport]
    while (via := getattr(chain[-1].sock, "over", None)) is not None:
        chain.append(via)
    for one in reversed(chain):
        one.close()
