"""Work that goes on while the caller waits for a board."""

from __future__ import annotations

import threading
from collections.abc import Callable
from types import TracebackType
from typing import Generic, Self, TypeVar

from qverify.session.host_sides import Watch

T = TypeVar("T")


class _Stopped(BaseException):
    """Ends the work at its next step; never leaves this file."""


class Background(Generic[T]):
    """Calls work(watch) in a thread while the `with` block runs. watch: told of its steps, but not inside the block, where
    the caller has a watch of its own. If the block is left by an exception, the work ends at its next step."""

    def __init__(self, work: Callable[[Watch], T], watch: Watch | None):
        self._work, self._watch = work, watch
        self._made: list[T] = []
        self._error: BaseException | None = None
        self._shown, self._stopped = False, False
        self._thread = threading.Thread(target=self._run, name="qverify-meanwhile")

    def result(self) -> T:
        """Waits for the work and returns its result, or raises its error."""
        self._shown = True
        self._thread.join()
        if self._error is not None:
            raise self._error
        return self._made[0]

    def _run(self) -> None:
        try:
            self._made.append(self._work(self._step))
        except BaseException as error:
            self._error = error

    def _step(self, name: str, done: int, total: int) -> None:
        if self._stopped:
            raise _Stopped
        if self._shown and self._watch is not None:
            self._watch(name, done, total)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stopped = kind is not None
        self._thread.join()
