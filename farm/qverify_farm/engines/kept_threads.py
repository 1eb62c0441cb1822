"""Threads that are reused. They are daemon threads: the process can end even while one of them waits on a link that hangs."""

from __future__ import annotations

import queue
import sys
import threading
import traceback
from collections.abc import Callable

SWITCH_S = 0.0005
Work = Callable[[], None]


def share_interpreter() -> None:
    """Makes the threads of this process switch more often than Python's default of 5 ms. The thread of a board mostly waits,
    and a board must not wait for a thread that computes."""
    sys.setswitchinterval(min(SWITCH_S, sys.getswitchinterval()))


class KeptThreads:
    """A pool of threads without an upper limit. A new thread is started only if none is idle."""

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
    """Calls functions in one thread, in the order in which they are passed to run(). After close(), each is called in a new
    thread."""

    def __init__(self) -> None:
        self._work, self._closed = queue.SimpleQueue[Work | None](), False
        threading.Thread(target=self._serve, name="farm-callbacks", daemon=True).start()

    def run(self, work: Work) -> None:
        """Calls work() after all earlier work; never waits."""
        if self._closed:
            threading.Thread(target=work, name="farm-callbacks", daemon=True).start()
        else:
            self._work.put(work)

    def _serve(self) -> None:
        while (work := self._work.get()) is not None:
            try:
                work()
            except Exception:  # an error in one callback must not stop the later ones
                traceback.print_exc()

    def close(self) -> None:
        """Ends the thread once all work is done."""
        self._closed = True
        self._work.put(None)
