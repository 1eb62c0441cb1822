"""Time limits for calls of paramiko that have none: the connection is closed when the deadline passes, which ends the
call."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator
from typing import Any

from qverify_agents.deadline import Deadline

STEP_S = 0.25  # seconds between two checks
GRACE_S = 1.0  # seconds after the deadline, in which a call that watches the deadline itself ends


class TimeLimits:
    """The time limits for the calls of one connection, watched by one thread: a timer for each call would take as long
    as the call."""

    def __init__(self, transport: Any):
        self._transport, self._end = transport, float("inf")
        threading.Thread(target=self._watch, daemon=True).start()

    @contextlib.contextmanager
    def within(self, deadline: Deadline) -> Iterator[None]:
        """A context that ends at the deadline, by an error of paramiko. The caller turns that error into a LinkTimeout
        by calling deadline.left()."""
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
    """Closes the transport and those of its jump hosts, the one nearest to this host first: closing a channel sends
    data through the transport below it, which may be the one that hangs."""
    transports = [transport]
    while (jump_transport := getattr(transports[-1].sock, "jump_transport", None)) is not None:
        transports.append(jump_transport)
    for each in reversed(transports):
        each.close()
