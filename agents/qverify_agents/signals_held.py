"""Delays signals while a process is started: an exception that a signal's handler raises before Popen has returned
would leave a process that nobody can end."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator
from types import FrameType

ENDING_SIGNALS = {getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP", "SIGALRM") if hasattr(signal, name)}


@contextlib.contextmanager
def signals_held() -> Iterator[None]:
    """A context in which the signals that end a command (Ctrl-C, SIGTERM, SIGHUP, SIGALRM) are delayed: their handlers
    run when the context is left. Enter it inside the `try` statement that ends the process that is started in it:

        process = None
        try:
            with signals_held():
                process = subprocess.Popen(...)
            ...
        except BaseException:
            if process is not None: ...

    Does nothing in threads other than the main thread, where no handlers run. The signals are not masked, because the
    started process would inherit the mask."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    arrived: list[int] = []

    def note(number: int, frame: FrameType | None) -> None:
        arrived.append(number)

    handlers = {}
    try:
        for number in ENDING_SIGNALS:
            handler = signal.getsignal(number)
            if callable(handler):  # it is not ignored, not the system's default and not C code
                handlers[number] = handler
                signal.signal(number, note)
        yield
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
        for number in dict.fromkeys(arrived):
            signal.raise_signal(number)
