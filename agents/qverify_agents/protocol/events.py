"""Checks the events of one run as they come: each index once, each tensor once per iteration, none not asked for
(PROTOCOL.md)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from qverify_agents.errors import Contradiction
from qverify_agents.printable import one_line
from qverify_agents.protocol.messages import Done, NodeEvent

MOST_EVENTS = 1 << 20


@dataclass(slots=True)
class Events:
    """The events of one run. names: all the model's tensors, empty if not known. wanted: the tensors of one iteration
    in running order, None if not known. lossy: a frame may come twice on this link, so that a repeated event is not a
    contradiction."""

    names: frozenset[str] = frozenset()
    wanted: Sequence[str] | None = None
    repeat: int = 1
    lossy: bool = True
    _seen: dict[int, NodeEvent] = field(default_factory=dict)
    _connection: dict[int, int] = field(default_factory=dict)  # the last that an event came over
    _places: dict[tuple[int, str], int] = field(default_factory=dict)

    @property
    def most(self) -> int:
        """The largest number of events this run can have."""
        known = self.wanted if self.wanted is not None else self.names
        return min(MOST_EVENTS, max(self.repeat, 1) * len(known)) if known or self.wanted is not None else MOST_EVENTS

    def add(self, index: int, event: NodeEvent, connection: int, asked: bool = False) -> tuple[bool, bool]:
        """Adds an event and returns (whether it is new on this connection, whether it is new at all). Raises
        Contradiction for an event that this run cannot have or that contradicts others. asked: it answers EVENTS."""
        self._check(index, event)
        before = self._seen.get(index)
        if before is not None:
            self._same(index, before, event)
            if not (self.lossy or asked or self._connection[index] != connection):
                raise Contradiction(f"the board sent event {index} ({_shown(event.tensor)}) twice")
            fresh, self._connection[index] = self._connection[index] != connection, connection
            return fresh, False
        at = self._places.setdefault((event.iteration, event.tensor), index)
        if at != index:
            raise Contradiction(
                f"the board sent two events of {_shown(event.tensor)} in iteration {event.iteration}: {at} and {index}"
            )
        self._seen[index], self._connection[index] = event, connection
        return True, True

    def _check(self, index: int, event: NodeEvent) -> None:
        if self.names and event.tensor not in self.names:
            raise Contradiction(
                f"the board sent an event of {_shown(event.tensor)}, which is not a tensor of this model"
            )
        if index >= self.most:
            raise Contradiction(f"the board sent event {index}; this run has at most {self.most}")
        if event.iteration >= max(self.repeat, 1):
            raise Contradiction(
                f"the board sent an event of iteration {event.iteration}; this run has {self.repeat}, counted from 0"
            )
        if self.wanted is None:
            return
        turn, place = divmod(index, len(self.wanted))
        if (event.iteration, event.tensor) != (turn, self.wanted[place]):
            raise Contradiction(
                f"the board sent event {index} as {_shown(event.tensor)} of iteration {event.iteration}; "
                f"in this run it is {_shown(self.wanted[place])} of iteration {turn}"
            )

    @staticmethod
    def _same(index: int, before: NodeEvent, event: NodeEvent) -> None:
        if (before.tensor, before.digest, before.iteration) != (event.tensor, event.digest, event.iteration):
            raise Contradiction(
                f"the board sent event {index} twice, as {_shown(before.tensor)} with digest {before.digest} and as "
                f"{_shown(event.tensor)} with {event.digest}"
            )

    def first_lacking(self, done: Done) -> int | None:
        """Returns the index of the first event that was announced and did not come, or None. Raises Contradiction if a
        successful run announces other events than it sent or was asked for."""
        if done.status == 0:
            if self.wanted is not None and done.events != self.most:
                raise Contradiction(
                    f"the board ended its run with {done.events} event{'s' * (done.events != 1)}; this run has {self.most}"
                )
            if self._seen and max(self._seen) >= done.events:
                raise Contradiction(
                    f"the board sent event {max(self._seen)} and then ended its run with {done.events} event{'s' * (done.events != 1)}"
                )
        return next((i for i in range(done.events) if i not in self._seen), None)

    def in_order(self) -> list[NodeEvent]:
        """Returns the events by index."""
        return [self._seen[i] for i in sorted(self._seen)]


def _shown(tensor: str) -> str:
    return repr(one_line(tensor[:60]))
