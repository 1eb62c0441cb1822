"""Makes sure that Ctrl-C, SIGTERM and SIGHUP are not lost, and crash nothing: KeyboardInterrupt is raised once the import of
a C extension is done, and again should something swallow it."""

from __future__ import annotations

import signal
import threading
from importlib.machinery import ExtensionFileLoader
from types import FrameType, TracebackType
from typing import Any

SOON_S = 0.02  # until the import of a C extension is looked at again
AGAIN_S = 1.0  # longer than our cleaning up takes, shorter than a person's patience
HANG_UP = getattr(signal, "SIGHUP", signal.SIGTERM)  # the terminal is closed
ASKS = {signal.SIGINT, signal.SIGTERM, HANG_UP}


class Interrupts:
    """A context around one command. heard: the number of the first signal, or 0."""

    def __init__(self) -> None:
        self.heard = 0
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Interrupts:
        if threading.current_thread() is threading.main_thread():
            for number in ASKS | {getattr(signal, "SIGALRM", signal.SIGINT)}:
                if number != HANG_UP or signal.getsignal(number) != signal.SIG_IGN:  # under nohup we run on
                    self._before[number] = signal.signal(number, self._hear)
        return self

    def _hear(self, number: int, frame: FrameType | None) -> None:
        if not self.heard and number in ASKS:
            self.heard = number
        if _imports_extension(frame) and _ring_after(SOON_S):
            return
        _ring_after(AGAIN_S)
        raise KeyboardInterrupt

    def quiet(self) -> None:
        """Ignores all further signals; called once the command has given up."""
        for number in self._before:
            signal.signal(number, signal.SIG_IGN)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._before:
            _ring_after(0)
        for number, handler in self._before.items():
            signal.signal(number, handler)


def _imports_extension(frame: FrameType | None) -> bool:
    """Returns whether this code runs within the import of a C extension. What an extension imports there it seldom checks:
    an exception ended the process with SIGSEGV or SIGABRT (onnx 1.23)."""
    while frame is not None:
        if frame.f_code.co_name in ("create_module", "exec_module"):
            if isinstance(frame.f_locals.get("self"), ExtensionFileLoader):
                return True
        frame = frame.f_back
    return False


def _ring_after(seconds: float) -> bool:
    """Sends SIGALRM after this time, 0: no longer. Returns False on Windows, which has no such signal."""
    set_timer = getattr(signal, "setitimer", None)
    if set_timer is None:
        return False
    set_timer(getattr(signal, "ITIMER_REAL", 0), seconds)
    return True
