"""Holds signals back while a process is started: an exception raised between its start and the return of Popen would
lose it."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator
from types import FrameType

ENDING = {getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP", "SIGALRM") if hasattr(signal, name)}


@contextlib.contextmanager
def signals_held() -> Iterator[None]:
    """A context in which no handler of the signals that end a command (Ctrl-C, SIGTERM, SIGHUP, SIGALRM) runs: those
    that arrive are handled as it is left. Enter it inside the `try` that ends what is started in it:

        process = None
        try:
            with signals_held():
                process = subprocess.Popen(...)
            ...
        except BaseException:
            if process is not None: ...

    Handlers run in the main thread only; in any other thread it does nothing. The signals are not masked, for the
    process that is started would inherit that."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    arrived: list[int] = []

    def note(number: int, frame: FrameType | None) -> None:
        arrived.append(number)

    handlers = {}
    try:
        for number in ENDING:
            handler = signal.getsignal(number)
            if callable(handler):  # neither ignored, nor the system's, nor one of C code
                handlers[number] = handler
                signal.signal(number, note)
        yield
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
        for number in dict.fromkeys(arrived):
            signal.raise_signal(number)
