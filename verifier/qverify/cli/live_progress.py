"""Progress bars on a terminal for steps longer than a second; silent in a pipe."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

from qverify.session.host_sides import Watch


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

    def watch(name: str, done: int, total: int) -> None:
        if time.monotonic() - start < 1.0:
            return
        if not tasks:
            progress.start()
        if name not in tasks:
            tasks[name] = int(progress.add_task(name, total=total))
        progress.update(tasks[name], completed=done)  # type: ignore[arg-type]

    try:
        yield watch
    finally:
        progress.stop()
