"""A limit for what paramiko waits for without one: the connection is cut when the deadline passes, which ends the wait."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from typing import Any

from qverify_agents.deadline import Deadline


@contextlib.contextmanager
def limited(transport: Any, deadline: Deadline) -> Iterator[None]:
    """The caller turns what then comes out of paramiko into a LinkTimeout by asking the deadline."""
    timer = threading.Timer(deadline.left(), cut, (transport,))
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def cut(transport: Any) -> None:
    """Closes it and the jump hosts' it goes through, the nearest first: a channel says good-bye through the one below it,
    which may be what hangs."""
    chain = [transport]
    while (via := getattr(chain[-1].sock, "over", None)) is not None:
        chain.append(via)
    for one in reversed(chain):
        one.close()
