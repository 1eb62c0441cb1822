"""Shows one line of progress at the bottom of a terminal for steps longer than a second. In a pipe, nothing is
shown."""

from __future__ import annotations

import shutil
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

from qverify.renderers.shortened_names import shorten

if TYPE_CHECKING:
    from qverify.session.host_sides import Watch

DELAY_S = 1.0  # before the line is shown for the first time
PAUSE_S = 0.1  # between two updates
BAR_WIDTH, MIN_NAME_WIDTH = 24, 12  # characters of the bar, and at least of the step's name
ERASE = "\r\x1b[K"


class LiveProgress:
    """The line of progress, on stderr. watch: the function that receives the progress; None if stderr is not a
    terminal.

    Text printed by say() appears above the line and stays. Any other output meanwhile begins in the line's first
    column."""

    def __init__(self) -> None:
        self.watch: Watch | None = self._update if sys.stderr.isatty() else None
        self._begin, self._last_drawn, self._is_drawn = time.monotonic(), 0.0, False
        self._prefix, self._step = "", ""
        self._lock = threading.Lock()

    def say(self, text: str, err: bool = False) -> None:
        """Prints the text to stdout, or to stderr if `err`, above the line."""
        with self._lock:
            self._erase()
            click.echo(text, err=err)
            self._draw()

    def set_prefix(self, text: str) -> None:
        """Sets the text before the step, such as the number of frames that are done."""
        with self._lock:
            self._prefix, self._step = text, ""
            self._draw()

    def close(self) -> None:
        """Removes the line."""
        with self._lock:
            self._erase()
            self.watch = None

    def _update(self, name: str, done: int, total: int) -> None:
        with self._lock:
            if done < total and time.monotonic() - self._last_drawn < PAUSE_S:
                return  # drawing takes longer than many steps
            full = BAR_WIDTH * done // max(total, 1)
            bar = f" [{'#' * full}{'.' * (BAR_WIDTH - full)}] {done} of {total}"
            prefix = f"{self._prefix}; " if self._prefix else ""
            room = shutil.get_terminal_size().columns - 1 - len(bar) - len(prefix)
            self._step = shorten(name, max(room, MIN_NAME_WIDTH)) + bar
            self._draw()

    def _draw(self) -> None:
        now = time.monotonic()
        if self.watch is None or now - self._begin < DELAY_S:
            return
        text = "; ".join(part for part in (self._prefix, self._step) if part)
        width = shutil.get_terminal_size().columns
        sys.stderr.write(f"{ERASE}{text[: width - 1]}\r")
        sys.stderr.flush()
        self._is_drawn, self._last_drawn = True, now

    def _erase(self) -> None:
        if self._is_drawn:
            sys.stderr.write(ERASE)
            sys.stderr.flush()
        self._is_drawn = False


@contextmanager
def live_progress() -> Iterator[LiveProgress]:
    """Yields the line of progress, and removes it at the end of the `with` block, also after an exception."""
    progress = LiveProgress()
    try:
        yield progress
    finally:
        progress.close()


@contextmanager
def progress_bars() -> Iterator[Watch | None]:
    """Yields a function that shows progress (name of the step, how much is done, and of how much); None if stderr is
    not a terminal."""
    with live_progress() as progress:
        yield progress.watch
