"""Checks the events of one run as they arrive: each index once, each tensor once per iteration, and no event that the
request does not ask for (PROTOCOL.md)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from qverify_agents.errors import Contradiction
from qverify_agents.printable import one_line
from qverify_agents.protocol.messages import Done, NodeEvent

MAX_EVENTS = 1 << 20  # of a run, by PROTOCOL.md


@dataclass(slots=True)
class EventLedger:
    """The events of one run.

    Attributes:
        names: all tensors of the model, or empty if they are not known.
        wanted: the tensors that one iteration reports, in running order, or None if they are not known.
        repeat: number of iterations.
        lossy: whether a frame may arrive twice on this link, so that a repeated event is no contradiction.
    """

    names: frozenset[str] = frozenset()
    wanted: Sequence[str] | None = None
    repeat: int = 1
    lossy: bool = True
    _received: dict[int, NodeEvent] = field(default_factory=dict)
    _last_connection: dict[int, int] = field(default_factory=dict)  # over which an event last arrived, by index
    _index_of: dict[tuple[int, str], int] = field(default_factory=dict)  # by iteration and tensor

    @property
    def most(self) -> int:
        """The largest number of events that this run can have."""
        tensors = self.wanted if self.wanted is not None else self.names
        return min(MAX_EVENTS, max(self.repeat, 1) * len(tensors)) if tensors or self.wanted is not None else MAX_EVENTS

    def add(self, index: int, event: NodeEvent, connection: int, requested: bool = False) -> tuple[bool, bool]:
        """Adds an event. Returns whether it is new on this connection, and whether it is new at all. connection: number
        of the connection over which it arrived. requested: whether it answers EVENTS. Raises Contradiction for an event
        that this run cannot have, or that contradicts others."""
        self._check(index, event)
        earlier = self._received.get(index)
        if earlier is not None:
            self._check_repeated(index, earlier, event)
            if not (self.lossy or requested or self._last_connection[index] != connection):
                raise Contradiction(f"the board sent event {index} ({_quote(event.tensor)}) twice")
            new_here, self._last_connection[index] = self._last_connection[index] != connection, connection
            return new_here, False
        first_index = self._index_of.setdefault((event.iteration, event.tensor), index)
        if first_index != index:
            raise Contradiction(
                f"the board sent two events of {_quote(event.tensor)} in iteration {event.iteration}: {first_index} and {index}"
            )
        self._received[index], self._last_connection[index] = event, connection
        return True, True

    def _check(self, index: int, event: NodeEvent) -> None:
        if self.names and event.tensor not in self.names:
            raise Contradiction(
                f"the board sent an event of {_quote(event.tensor)}, which is not a tensor of this model"
            )
        if index >= self.most:
            raise Contradiction(f"the board sent event {index}; this run has at most {self.most}")
        if event.iteration >= max(self.repeat, 1):
            raise Contradiction(
                f"the board sent an event of iteration {event.iteration}; this run has {self.repeat}, counted from 0"
            )
        if self.wanted is None:
            return
        iteration, position = divmod(index, len(self.wanted))
        if (event.iteration, event.tensor) != (iteration, self.wanted[position]):
            raise Contradiction(
                f"the board sent event {index} as {_quote(event.tensor)} of iteration {event.iteration}; "
                f"in this run it is {_quote(self.wanted[position])} of iteration {iteration}"
            )

    @staticmethod
    def _check_repeated(index: int, earlier: NodeEvent, event: NodeEvent) -> None:
        if (earlier.tensor, earlier.digest, earlier.iteration) != (event.tensor, event.digest, event.iteration):
            raise Contradiction(
                f"the board sent event {index} twice, as {_quote(earlier.tensor)} with digest {earlier.digest} and as "
                f"{_quote(event.tensor)} with {event.digest}"
            )

    def first_lacking(self, done: Done) -> int | None:
        """Returns the index of the first event that DONE announces and that has not arrived, or None. Raises
        Contradiction if a successful run announces another number of events than the request demands or than it
        sent."""
        if done.status == 0:
            if self.wanted is not None and done.events != self.most:
                raise Contradiction(
                    f"the board ended its run with {done.events} event{'s' * (done.events != 1)}; this run has {self.most}"
                )
            if self._received and max(self._received) >= done.events:
                raise Contradiction(
                    f"the board sent event {max(self._received)} and then ended its run with {done.events} event{'s' * (done.events != 1)}"
                )
        return next((i for i in range(done.events) if i not in self._received), None)

    def in_order(self) -> list[NodeEvent]:
        """Returns the events in the order of their indices."""
        return [self._received[i] for i in sorted(self._received)]


def _quote(tensor: str) -> str:
    return repr(one_line(tensor[:60]))
