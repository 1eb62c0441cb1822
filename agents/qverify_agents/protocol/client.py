"""The requests to an agent: contents it has and is sent, runs, values (PROTOCOL.md)."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Literal

from qverify_agents.errors import AgentError, ProtocolError
from qverify_agents.protocol import frames, messages
from qverify_agents.protocol.conversation import Conversation
from qverify_agents.protocol.events import Events
from qverify_agents.protocol.keep_alive import in_turn
from qverify_agents.protocol.messages import NodeEvent

OnNode = Callable[[NodeEvent], Any]


class Agent(Conversation):
    """An agent. kept: whether every tensor of the last run can be fetched (else only final outputs and those the run
    named). said: the text of its DONE. place: which board it is, where the address leaves that open."""

    kept = True  # until a run says otherwise
    place = ""
    said = ""  # what the last run's DONE says, which is nothing where qvrt ran it

    @in_turn
    def have(self, hashes: list[str]) -> dict[str, int]:
        """Returns how many bytes of each content the board has."""
        answer = self._ask(frames.HAVE, b"".join(map(bytes.fromhex, hashes)), frames.HAVE)
        if len(answer) != 8 * len(hashes):
            raise ProtocolError(f"HAVE: the answer has {len(answer)} bytes, wanted {8 * len(hashes)}")
        return dict(zip(hashes, struct.unpack(f"<{len(hashes)}Q", answer), strict=True))

    @in_turn
    def put(self, sha256: str, data: bytes, progress: Callable[[int, int], None] | None = None) -> None:
        """Sends what the board does not have yet; resumes a partial content; starts over once if that is damaged."""
        present = self.have([sha256])[sha256]
        self.counters["cached_bytes"] += min(present, len(data))
        try:
            self._put_from(present, sha256, data, progress)
        except AgentError as error:
            if error.status != messages.DAMAGED_CONTENT or not present:
                raise
            self.counters["cached_bytes"] -= min(present, len(data))
            self._put_from(0, sha256, data, progress)

    def _put_from(self, present: int, sha256: str, data: bytes, progress: Callable[[int, int], None] | None) -> None:
        idle, rounds = 0, self._rounds(len(data))
        while present < len(data) or not data:
            before, rounds = present, rounds - 1
            for answer in self._ask_ahead(self._pieces(present, sha256, data), frames.PUT):
                now, wanted = _bytes_of_put(answer), min(present + self._link.piece_bytes, len(data))
                if not 0 <= now <= len(data):
                    raise ProtocolError(
                        f"PUT: the board answered {now} of {len(data)} bytes after the piece at {present}"
                    )
                present = now
                if progress is not None:
                    progress(present, len(data))
                if present != wanted:
                    break  # what was sent ahead does not follow; from there anew
            idle = 0 if present > before else idle + 1
            if not data:
                return
            if idle > 3 or rounds < 0:
                raise ProtocolError(f"PUT: the board has {present} of {len(data)} bytes and accepts no more")

    def _pieces(self, start: int, sha256: str, data: bytes) -> Iterator[tuple[int, bytes]]:
        """Yields PUT or PUT_PACKED payloads from `start` to the end. On a link that sends ahead, packing ends with the
        first piece that it does not make smaller."""
        packs, whole = self._link.packs and self.hello.get("packs") == "lz4", memoryview(data)
        for at in range(start, max(len(data), 1), self._link.piece_bytes):
            piece = whole[at : at + self._link.piece_bytes]
            packed = messages.put_packed(sha256, len(data), at, piece) if packs else None
            if packed is not None:
                yield frames.PUT_PACKED, packed
                continue
            packs = packs and not self._link.ahead
            yield frames.PUT, messages.put(sha256, len(data), at, piece)

    @in_turn
    def run(
        self,
        model: str,
        inputs: list[str],
        on_node: OnNode | None = None,
        *,
        nodes: Literal["all"] | Sequence[str] = "all",
        digests: bool = True,
        repeat: int = 1,
        injected: Mapping[str, str] | None = None,
        names: Sequence[str] = (),
        events: Sequence[str] | None = None,
    ) -> list[NodeEvent]:
        """Runs the model (content hash) on inputs (content hashes of aligned bytes, in graph input order) and returns
        its events.

        nodes: tensors to report. injected: tensor to content hash of the dense bytes that replace it once its node ran.
        on_node: called with each event as it comes; True cancels the run (AgentError). names: the model's tensors in
        their order in model.bin; if given, an event of another tensor is refused, and a slow link collects events.
        events: the tensors of one iteration's events, in running order; if given, other events raise Contradiction."""
        every = nodes == "all"
        flags = (messages.DIGESTS if digests else 0) | (messages.EVERY_TENSOR if every else 0)
        flags |= messages.BATCHED if names and self._link.packs else 0
        payload = messages.run(model, inputs, [] if every else nodes, injected or {}, flags, repeat)
        ledger = Events(frozenset(names), events, repeat, self._link.ahead == 0)
        return self._events(frames.RUN, payload, on_node, names, ledger)

    @in_turn
    def run_unit(
        self,
        model: str,
        nodes: list[str],
        inputs: Mapping[str, str],
        names: Sequence[str] = (),
        events: Sequence[str] | None = None,
    ) -> list[NodeEvent]:
        """Runs only these nodes on injected tensors (content hashes of dense bytes) and returns the events. names,
        events: as for run."""
        ledger = Events(frozenset(names), events, lossy=self._link.ahead == 0)
        return self._events(frames.UNIT, messages.unit(model, nodes, inputs), None, names, ledger)

    def _events(
        self, kind: int, payload: bytes, on_node: OnNode | None, names: Sequence[str], ledger: Events
    ) -> list[NodeEvent]:
        """Returns all events of a run, each once, in order; requests events that were lost. names: of all tensors that
        can occur."""

        def add(index: int, event: NodeEvent, asked: bool = False) -> tuple[bool, bool]:
            fresh, first = ledger.add(index, event, self.generation, asked)
            return fresh, first and on_node is not None and on_node(event) is True

        def add_frame(frame: frames.Frame) -> tuple[bool, bool]:
            if frame.type == frames.NODES:
                added = [add(i, event) for i, event in messages.read_events(frame.payload, names)]
                return any(new for new, _ in added), any(cancel for _, cancel in added)
            return add(*messages.read_node(frame.payload))

        done = messages.read_done(self._ask(kind, payload, frames.DONE, add_frame))
        self.kept, self.said = done.kept, done.text
        while (first := ledger.first_lacking(done)) is not None:
            answer = messages.read_events_from(
                first, done.events, self._ask(frames.EVENTS, struct.pack("<I", first), frames.EVENTS)
            )
            if not answer:
                raise ProtocolError(f"the board lost event {first} of {done.events}")
            for index, event in answer:
                add(index, event, asked=True)
        if done.status:
            raise AgentError(done.status, done.text)
        return ledger.in_order()

    def get(self, tensor: str, size_bytes: int) -> bytes:
        """Returns the tensor's dense valid bytes after the last run. Raises ProtocolError if it is not size_bytes
        long."""
        return self.get_range(tensor, size_bytes, 0, size_bytes)

    @in_turn
    def get_range(self, tensor: str, size_bytes: int, offset: int, length: int) -> bytes:
        """Returns `length` bytes, from offset, of a tensor of size_bytes."""
        data, name = bytearray(), messages.text(tensor)
        packed = b"\1" if self._link.packs and self.hello.get("packs") == "lz4" else b""
        for _ in range(self._rounds(length)):
            start = offset + len(data)
            places = range(start, max(offset + length, start + 1), self._link.piece_bytes)
            lengths = [min(self._link.piece_bytes, offset + length - at) for at in places]
            requests = (
                (frames.GET, name + struct.pack("<QI", at, n) + packed) for at, n in zip(places, lengths, strict=True)
            )
            for at, n, answer in zip(places, lengths, self._ask_ahead(requests, frames.DATA), strict=False):
                if len(answer) < 16 or struct.unpack_from("<Q", answer)[0] != size_bytes:
                    raise ProtocolError(
                        f"{tensor}: the board's tensor has another size than the {size_bytes} bytes wanted"
                    )
                if struct.unpack_from("<Q", answer, 8)[0] != at or not (
                    len(answer) == 16 if n == 0 else 0 < len(answer) - 16 <= n
                ):
                    raise ProtocolError(f"{tensor}: the board sent another range than the one asked for")
                data += memoryview(answer)[16:]
                if len(answer) - 16 < n:
                    break
            if len(data) >= length:
                return bytes(data)
        raise ProtocolError(f"{tensor}: the board sends it in ever smaller pieces ({len(data)} of {length} bytes)")

    def _rounds(self, size_bytes: int) -> int:
        """Returns how often a transfer may be continued before it is given up."""
        return 8 + 2 * (size_bytes // self._link.piece_bytes)

    @in_turn
    def ping(self) -> None:
        """Raises LinkError if the agent does not answer."""
        if self._ask(frames.PING, b"qverify", frames.PING) != b"qverify":
            raise ProtocolError("PING came back changed")


def _bytes_of_put(answer: bytes) -> int:
    """Returns the number of bytes in PUT's answer; -1 for an answer of another size."""
    return int(struct.unpack("<Q", answer)[0]) if len(answer) == 8 else -1
