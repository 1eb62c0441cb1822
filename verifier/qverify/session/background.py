"""Runs host work in a thread while the caller waits for a board."""

from __future__ import annotations

import threading
from collections.abc import Callable
from types import TracebackType
from typing import Generic, Self, TypeVar

from qverify.session.host_sides import Watch

T = TypeVar("T")


class _Stopped(BaseException):
    """Raised within the work to end it at its next progress report; never leaves this file."""


class Background(Generic[T]):
    """Calls work(watch) in a thread while the `with` block runs.

    watch: receives the progress of the work once the caller waits for its result; until then it shows the caller's own
    progress. If the block is left by an exception, the work ends at its next progress report."""

    def __init__(self, work: Callable[[Watch], T], watch: Watch | None):
        self._work, self._watch = work, watch
        self._results: list[T] = []  # empty until the work has ended, then its one result
        self._error: BaseException | None = None
        self._is_shown, self._is_stopped = False, False
        self._thread = threading.Thread(target=self._run, name="qverify-meanwhile")

    def result(self) -> T:
        """Waits for the work and returns its result, or raises its error."""
        self._is_shown = True
        self._thread.join()
        if self._error is not None:
            raise self._error
        return self._results[0]

    def _run(self) -> None:
        try:
            self._results.append(self._work(self._report_progress))
        except BaseException as error:
            self._error = error

    def _report_progress(self, name: str, done: int, total: int) -> None:
        if self._is_stopped:
            raise _Stopped
        if self._is_shown and self._watch is not None:
            self._watch(name, done, total)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._is_stopped = kind is not None
        self._thread.join()
