"""Equal shares of one board's time: who used it least, by start tags as in start-time fair queueing."""

from __future__ import annotations

from collections.abc import Iterable

MOST_KEPT = 1000  # submitters of whom a board remembers anything


class FairShare:
    """The virtual time of one board. A submitter's tag grows by the seconds that his jobs held the board; the smallest
    tag is next. Who comes (back) starts at the tag of the job that was served last, so that he neither owes for the time
    when nobody waited nor takes the board for all the time that he was away."""

    def __init__(self) -> None:
        self._tags: dict[str, float] = {}
        self._now = 0.0

    def tag_of(self, submitter: str) -> float:
        return max(self._tags.get(submitter, 0.0), self._now)

    def next_of(self, waiting: Iterable[str]) -> str:
        """Returns whose job is next, of those who wait (at least one): the smallest tag, then the name."""
        return min(waiting, key=lambda submitter: (self.tag_of(submitter), submitter))

    def begin(self, submitter: str) -> None:
        """Notes that a job of his has the board."""
        self._now = self.tag_of(submitter)

    def end(self, submitter: str, seconds: float) -> None:
        """Notes that his job held the board for so long."""
        self._tags[submitter] = self.tag_of(submitter) + max(0.0, seconds)
        if len(self._tags) > MOST_KEPT:
            self._tags = {name: tag for name, tag in self._tags.items() if tag > self._now}
