"""Makes sure that Ctrl-C, SIGTERM and SIGHUP are not lost and do not crash the process: KeyboardInterrupt is not raised
while a C extension is imported, but after it, and it is raised again if some code catches it."""

from __future__ import annotations

import signal
import sys
import threading
from importlib.machinery import ExtensionFileLoader
from types import FrameType, TracebackType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sys import UnraisableHookArgs

POLL_S = 0.02  # after which it is checked whether the import of a C extension has ended
REPEAT_S = 1.0  # after which KeyboardInterrupt is raised again; longer than our cleaning up takes
HANG_UP = getattr(signal, "SIGHUP", signal.SIGTERM)  # sent when the terminal is closed
ENDING_SIGNALS = {signal.SIGINT, signal.SIGTERM, HANG_UP}


class Interrupts:
    """A context in which one command runs. first_signal: the number of the first ending signal that arrived, or 0."""

    def __init__(self) -> None:
        self.first_signal = 0
        self._handlers_before: dict[int, Any] = {}
        self._hook_before = sys.unraisablehook

    def __enter__(self) -> Interrupts:
        if threading.current_thread() is threading.main_thread():
            for number in ENDING_SIGNALS | {getattr(signal, "SIGALRM", signal.SIGINT)}:
                if number != HANG_UP or signal.getsignal(number) != signal.SIG_IGN:  # nohup ignores it: run on
                    self._handlers_before[number] = signal.signal(number, self._handle)
            self._hook_before, sys.unraisablehook = sys.unraisablehook, self._report_unraisable
        return self

    def _report_unraisable(self, unraisable: UnraisableHookArgs) -> None:
        """Reports an exception that Python cannot raise, such as one in a destructor or a callback of the import system.
        KeyboardInterrupt is left out: it is raised again."""
        if not issubclass(unraisable.exc_type, KeyboardInterrupt):
            self._hook_before(unraisable)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if not self.first_signal and number in ENDING_SIGNALS:
            self.first_signal = number
        if _imports_extension(frame) and _set_alarm(POLL_S):
            return
        _set_alarm(REPEAT_S)
        raise KeyboardInterrupt

    def ignore_further(self) -> None:
        """Ignores all further signals. It is called when the command has stopped."""
        for number in self._handlers_before:
            signal.signal(number, signal.SIG_IGN)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._handlers_before:
            _set_alarm(0)
            sys.unraisablehook = self._hook_before
        for number, handler in self._handlers_before.items():
            signal.signal(number, handler)


def _imports_extension(frame: FrameType | None) -> bool:
    """Returns whether this code runs within the import of a C extension. Extensions seldom check whether their own
    imports succeeded, so that an exception there ended the process with SIGSEGV or SIGABRT (onnx 1.23)."""
    while frame is not None:
        if frame.f_code.co_name in ("create_module", "exec_module"):
            if isinstance(frame.f_locals.get("self"), ExtensionFileLoader):
                return True
        frame = frame.f_back
    return False


def stop_repeating() -> None:
    """Has KeyboardInterrupt not raised again. Code that catches it calls this before it cleans up and says what is
    left."""
    _set_alarm(0)


def _set_alarm(seconds: float) -> bool:
    """Has SIGALRM sent after this time; 0 cancels it. Returns False on Windows, which has no such signal."""
    set_timer = getattr(signal, "setitimer", None)
    if set_timer is None:
        return False
    set_timer(getattr(signal, "ITIMER_REAL", 0), seconds)
    return True
