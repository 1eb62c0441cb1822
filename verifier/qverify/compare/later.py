"""What is measured of a tensor only if a report shows it, so that a step of a sequence whose tensors are left out costs less."""

from __future__ import annotations

from collections.abc import Callable

# Metrics that verdicts, ranks and findings read. A gate reads its own, too.
JUDGED = frozenset({"mismatched", "max_lsb", "max_abs", "norm_ratio", "cosine"})


class Later:
    """Work on the rows of one step. It keeps the arrays until it is done or left out."""

    def __init__(self) -> None:
        self._work: list[Callable[[], None]] = []

    def add(self, work: Callable[[], None]) -> None:
        """Adds what fills a row."""
        self._work.append(work)

    def finish(self, is_shown: bool) -> None:
        """Fills the rows, in the order in which they were measured, if the report shows them."""
        work, self._work = self._work, []
        for fill in work if is_shown else ():
            fill()
