"""Threads that are kept for the next work, as many as there is work at a time. They end with the process, also where a link
that hangs holds one of them."""

from __future__ import annotations

import queue
import sys
import threading
import traceback
from collections.abc import Callable

SWITCH_S = 0.0005
Work = Callable[[], None]


def share_interpreter() -> None:
    """Has this process's threads take turns more often than Python's 5 ms: the thread of a board mostly waits, and a board
    must not wait for a thread that computes."""
    sys.setswitchinterval(min(SWITCH_S, sys.getswitchinterval()))


class KeptThreads:
    """Starts a thread only where none is idle."""

    def __init__(self) -> None:
        self._work = queue.SimpleQueue[Work | None]()
        self._lock, self._idle, self._count = threading.Lock(), 0, 0

    def run(self, work: Work) -> None:
        """Calls work() in one of the threads; never waits."""
        with self._lock:
            if self._idle:
                self._idle -= 1
            else:
                self._count += 1
                threading.Thread(target=self._serve, name=f"farm-{self._count}", daemon=True).start()
        self._work.put(work)

    def _serve(self) -> None:
        while (work := self._work.get()) is not None:
            try:
                work()
            finally:
                with self._lock:
                    self._idle += 1

    def close(self) -> None:
        """Ends the idle threads; the others end after their work."""
        with self._lock:
            for _ in range(self._count):
                self._work.put(None)


class OneThread:
    """Calls work in one thread, in the order given; what is given after close() in a thread of its own."""

    def __init__(self) -> None:
        self._work, self._closed = queue.SimpleQueue[Work | None](), False
        threading.Thread(target=self._serve, name="farm-tell", daemon=True).start()

    def run(self, work: Work) -> None:
        """Calls work() after all that was given before; never waits."""
        if self._closed:
            threading.Thread(target=work, name="farm-tell", daemon=True).start()
        else:
            self._work.put(work)

    def _serve(self) -> None:
        while (work := self._work.get()) is not None:
            try:
                work()
            except Exception:  # of the caller's; what follows is still told
                traceback.print_exc()

    def close(self) -> None:
        """Ends the thread once all that was given is done."""
        self._closed = True
        self._work.put(None)
