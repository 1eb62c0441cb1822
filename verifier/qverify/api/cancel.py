"""Ends a call from another thread, when the caller sets an event."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from qverify_agents.deadline import ThreadTimeLimit, apply_time_limit

from qverify.api.signatures import Progress
from qverify.errors import CancelledError

LOOK_S = 0.1  # between looks at the event
NEVER_S = 1e9


@contextmanager
def cancellable(cancel: threading.Event | None, progress: Progress | None) -> Iterator[Progress | None]:
    """Yields the progress function to hand on. Once `cancel` is set, every wait for a board in this thread ends, and
    CancelledError is raised at the next progress, at the latest at the end of the `with` block."""
    if cancel is None:
        yield progress
        return
    limit, ended = ThreadTimeLimit(NEVER_S, "cancelled"), threading.Event()

    def look() -> None:
        while not ended.wait(LOOK_S):
            if cancel.is_set():
                limit.stop("cancelled")
                return

    def checked(step: str, done: int, total: int) -> None:
        _check(cancel)
        if progress is not None:
            progress(step, done, total)

    _check(cancel)
    watcher = threading.Thread(target=look, name="qverify-cancel", daemon=True)
    watcher.start()
    try:
        with apply_time_limit(limit):
            yield checked
        _check(cancel)
    finally:
        ended.set()
        watcher.join()


def _check(cancel: threading.Event) -> None:
    if cancel.is_set():
        raise CancelledError("cancelled by the caller")
