"""Equal shares of one board's time among submitters, by start tags as in start-time fair queueing."""

from __future__ import annotations

from collections.abc import Iterable

MAX_SUBMITTERS = 1000  # number of submitters after which old tags are forgotten


class FairShare:
    """The virtual time of one board.

    A submitter's tag grows by the seconds for which their jobs held the board, and the submitter with the smallest tag is
    next. A new or returning submitter starts at the tag of the job that was served last. So nobody pays for time in which
    no one else was waiting, and nobody gets extra time for having been away.
    """

    def __init__(self) -> None:
        self._tags: dict[str, float] = {}
        self._now = 0.0

    def tag_of(self, submitter: str) -> float:
        return max(self._tags.get(submitter, 0.0), self._now)

    def next_of(self, waiting: Iterable[str]) -> str:
        """Returns the submitter whose job is next, out of at least one: by the smallest tag, then by name."""
        return min(waiting, key=lambda submitter: (self.tag_of(submitter), submitter))

    def begin(self, submitter: str) -> None:
        """Notes that a job of this submitter now has the board."""
        self._now = self.tag_of(submitter)

    def end(self, submitter: str, seconds: float) -> None:
        """Notes that a job of this submitter held the board for these seconds."""
        self._tags[submitter] = self.tag_of(submitter) + max(0.0, seconds)
        if len(self._tags) > MAX_SUBMITTERS:
            self._tags = {name: tag for name, tag in self._tags.items() if tag > self._now}
