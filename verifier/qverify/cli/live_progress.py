"""One line of progress at the bottom of a terminal, for steps longer than a second; silent in a pipe."""

from __future__ import annotations

import shutil
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import click

from qverify.renderers.shortened_names import shorten
from qverify.session.host_sides import Watch

DELAY_S, PAUSE_S = 1.0, 0.1  # before the first line; between two
BAR, FEWEST = 24, 12  # characters of the bar; of a step's name at least
ERASE = "\r\x1b[K"


class LiveProgress:
    """The line, on stderr. watch: is told of every step, None where stderr is no terminal. What is printed by say()
    stands above the line and stays; anything else that is printed meanwhile begins at the line's first column."""

    def __init__(self) -> None:
        self.watch: Watch | None = self._update if sys.stderr.isatty() else None
        self._begin, self._last, self._drawn = time.monotonic(), 0.0, False
        self._about, self._step = "", ""
        self._lock = threading.Lock()

    def say(self, text: str) -> None:
        """Prints the text on stdout."""
        with self._lock:
            self._erase()
            click.echo(text)
            self._draw()

    def about(self, text: str) -> None:
        """Sets what stands before the step: how many frames are done."""
        with self._lock:
            self._about, self._step = text, ""
            self._draw()

    def close(self) -> None:
        """Removes the line."""
        with self._lock:
            self._erase()
            self.watch = None

    def _update(self, name: str, done: int, total: int) -> None:
        with self._lock:
            if done < total and time.monotonic() - self._last < PAUSE_S:
                return  # drawing costs more than many a step
            full = BAR * done // max(total, 1)
            bar = f" [{'#' * full}{'.' * (BAR - full)}] {done} of {total}"
            room = shutil.get_terminal_size().columns - 1 - len(bar) - len(f"{self._about}; " if self._about else "")
            self._step = shorten(name, max(room, FEWEST)) + bar
            self._draw()

    def _draw(self) -> None:
        now = time.monotonic()
        if self.watch is None or now - self._begin < DELAY_S:
            return
        text = "; ".join(part for part in (self._about, self._step) if part)
        width = shutil.get_terminal_size().columns
        sys.stderr.write(f"{ERASE}{text[: width - 1]}\r")
        sys.stderr.flush()
        self._drawn, self._last = True, now

    def _erase(self) -> None:
        if self._drawn:
            sys.stderr.write(ERASE)
            sys.stderr.flush()
        self._drawn = False


@contextmanager
def live_progress() -> Iterator[LiveProgress]:
    """Yields the line, which is gone at the end, however that comes."""
    progress = LiveProgress()
    try:
        yield progress
    finally:
        progress.close()


@contextmanager
def progress_bars() -> Iterator[Watch | None]:
    """Yields a watch function; None when stderr is not a terminal."""
    with live_progress() as progress:
        yield progress.watch
