"""Progress bars on a terminal for steps longer than a second; silent in a pipe."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

from qverify.session.host_sides import Watch

EVERY_S = 0.05  # moving a bar costs more than many a step


@contextmanager
def progress_bars() -> Iterator[Watch | None]:
    """Yields a watch function; None when stderr is not a terminal."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import Progress

    start, progress = time.monotonic(), Progress(console=Console(stderr=True), transient=True)
    tasks: dict[str, int] = {}
    shown: dict[str, float] = {}  # by step: when its bar was last moved

    def watch(name: str, done: int, total: int) -> None:
        now = time.monotonic()
        if now - start < 1.0 or (done < total and now - shown.get(name, 0.0) < EVERY_S):
            return
        shown[name] = now
        if not tasks:
            progress.start()
        if name not in tasks:
            tasks[name] = int(progress.add_task(name, total=total))
        progress.update(tasks[name], completed=done)  # type: ignore[arg-type]

    try:
        yield watch
    finally:
        progress.stop()
