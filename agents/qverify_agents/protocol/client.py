"""The requests to an agent (PROTOCOL.md): to store contents, to run a model, and to return values."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Literal

from qverify_agents.errors import AgentError, ProtocolError
from qverify_agents.pieces import Pieces
from qverify_agents.protocol import frames, messages
from qverify_agents.protocol.conversation import Conversation
from qverify_agents.protocol.events import EventLedger
from qverify_agents.protocol.keep_alive import in_turn
from qverify_agents.protocol.messages import NodeEvent

Content = bytes | memoryview | Pieces
OnNode = Callable[[NodeEvent], Any]


class Agent(Conversation):
    """A connected agent.

    Attributes:
        kept: whether every tensor of the last run can be fetched; if not, only the final outputs and the tensors that
            the run named can.
        done_text: the text of the last run's DONE, "" for a run of qvrt that succeeded.
        place: name of the board that was chosen if the address matches several, otherwise "".
    """

    kept = True
    place = ""
    done_text = ""

    @in_turn
    def have(self, hashes: list[str]) -> dict[str, int]:
        """Returns, for each of these hashes, the number of bytes that the board has of the content."""
        answer = self._request(frames.HAVE, b"".join(map(bytes.fromhex, hashes)), frames.HAVE)
        if len(answer) != 8 * len(hashes):
            raise ProtocolError(f"HAVE: the answer has {len(answer)} bytes, wanted {8 * len(hashes)}")
        return dict(zip(hashes, struct.unpack(f"<{len(hashes)}Q", answer), strict=True))

    @in_turn
    def put(self, sha256: str, data: Content, progress: Callable[[int, int], None] | None = None) -> None:
        """Sends the part of a content that the board does not have. If the part that it has proves damaged, sends the
        whole content once more. progress: called with the bytes stored so far and the total."""
        self._put_rest(self.have([sha256])[sha256], sha256, data, progress)

    @in_turn
    def put_all(self, contents: Mapping[str, Content]) -> None:
        """Sends contents, given by their SHA-256, as put() does each; what the board has of them is asked in as few requests as
        it takes, and again if the connection was made again meanwhile."""
        hashes, most = list(contents), min(messages.MAX_HASHES, self.max_payload // messages.HASH_BYTES)
        generation = self.generation
        for at in range(0, len(hashes), most):
            for sha256, present in self.have(hashes[at : at + most]).items():
                self._put_rest(present, sha256, contents[sha256])
        if self.generation != generation:
            self.put_all(contents)

    def _put_rest(
        self, present: int, sha256: str, data: Content, progress: Callable[[int, int], None] | None = None
    ) -> None:
        """Sends what follows the bytes that the board has; all, once more, if these prove damaged."""
        self.counters["cached_bytes"] += min(present, len(data))
        try:
            self._put_from(present, sha256, data, progress)
        except AgentError as error:
            if error.status != messages.DAMAGED_CONTENT or not present:
                raise
            self.counters["cached_bytes"] -= min(present, len(data))
            self._put_from(0, sha256, data, progress)

    def _put_from(self, present: int, sha256: str, data: Content, progress: Callable[[int, int], None] | None) -> None:
        rounds_without_progress, rounds_left = 0, self._max_rounds(len(data))
        while present < len(data) or not len(data):
            present_before, rounds_left = present, rounds_left - 1
            for answer in self._request_ahead(self._encode_pieces(present, sha256, data), frames.PUT):
                stored, expected = _stored_bytes(answer), min(present + self.piece_bytes, len(data))
                if not 0 <= stored <= len(data):
                    raise ProtocolError(
                        f"PUT: the board answered {stored} of {len(data)} bytes after the piece at {present}"
                    )
                present = stored
                if progress is not None:
                    progress(present, len(data))
                if present != expected:
                    break  # pieces that were sent ahead do not follow this one: continue after what is stored
            rounds_without_progress = 0 if present > present_before else rounds_without_progress + 1
            if not len(data):
                return
            if rounds_without_progress > 3 or rounds_left < 0:
                raise ProtocolError(f"PUT: the board has {present} of {len(data)} bytes and accepts no more")

    def _encode_pieces(self, start: int, sha256: str, data: Content) -> Iterator[tuple[int, bytes]]:
        """Yields (message type, payload) of PUT or PUT_PACKED from `start` to the end. On a link that sends requests
        ahead, packing stops after the first piece that does not become smaller."""
        pack, view = (
            self._link.packs and self.hello.get("packs") == "lz4",
            data if isinstance(data, Pieces) else memoryview(data),
        )
        for at in range(start, max(len(data), 1), self.piece_bytes):
            piece = view[at : at + self.piece_bytes]
            packed = messages.encode_put_packed(sha256, len(data), at, piece) if pack else None
            if packed is not None:
                yield frames.PUT_PACKED, packed
                continue
            pack = pack and not self._link.ahead
            yield frames.PUT, messages.encode_put(sha256, len(data), at, piece)

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
        keep: Sequence[str] = (),
    ) -> list[NodeEvent]:
        """Runs a model and returns its events.

        Args:
            model: content hash of the model.
            inputs: content hashes of the inputs' aligned bytes, in graph input order.
            on_node: called with each event as it arrives; if it returns True, the run is cancelled (AgentError).
            nodes: names of the tensors to report, or "all".
            digests: whether the events contain digests.
            repeat: number of iterations.
            injected: by tensor, the content hash of the dense bytes that replace it once its node has run.
            names: the model's tensors in their order in model.bin. If given, an event of another tensor is refused, and
                a slow link sends several events in one frame.
            events: the tensors that one iteration reports, in running order. If given, other events raise
                Contradiction.
            keep: final outputs whose dense bytes become contents of the board's store, if the agent can do that.
        """
        all_nodes = nodes == "all"
        flags = (messages.DIGESTS if digests else 0) | (messages.EVERY_TENSOR if all_nodes else 0)
        flags |= messages.BATCHED if names and self._link.packs else 0
        kept = tuple(keep)[: messages.MAX_KEPT] if self.hello.get("keeps") == 1 else ()
        flags |= messages.KEEPS if kept else 0
        payload = messages.encode_run(model, inputs, [] if all_nodes else nodes, injected or {}, flags, repeat, kept)
        ledger = EventLedger(frozenset(names), events, repeat, self._link.ahead == 0)
        return self._collect_events(frames.RUN, payload, on_node, names, ledger)

    @in_turn
    def run_unit(
        self,
        model: str,
        nodes: list[str],
        inputs: Mapping[str, str],
        names: Sequence[str] = (),
        events: Sequence[str] | None = None,
    ) -> list[NodeEvent]:
        """Runs only these nodes, on inputs given as content hashes of their dense bytes by tensor, and returns the
        events. names, events: as for run()."""
        ledger = EventLedger(frozenset(names), events, lossy=self._link.ahead == 0)
        return self._collect_events(frames.UNIT, messages.encode_unit(model, nodes, inputs), None, names, ledger)

    def _collect_events(
        self, kind: int, payload: bytes, on_node: OnNode | None, names: Sequence[str], ledger: EventLedger
    ) -> list[NodeEvent]:
        """Sends RUN or UNIT and returns all events of the run, each once, in order. Requests lost events again. names:
        the model's tensors in their order in model.bin, or () if NODES is not used."""

        def add(index: int, event: NodeEvent, requested: bool = False) -> tuple[bool, bool]:
            fresh, first = ledger.add(index, event, self.generation, requested)
            return fresh, first and on_node is not None and on_node(event) is True

        def add_frame(frame: frames.Frame) -> tuple[bool, bool]:
            if frame.type == frames.NODES:
                added = [add(i, event) for i, event in messages.read_events(frame.payload, names)]
                return any(new for new, _ in added), any(cancel for _, cancel in added)
            return add(*messages.read_node(frame.payload))

        done = messages.read_done(self._request(kind, payload, frames.DONE, add_frame))
        self.kept, self.done_text = done.kept, done.text
        while (first := ledger.first_lacking(done)) is not None:
            answer = messages.read_events_from(
                first, done.events, self._request(frames.EVENTS, struct.pack("<I", first), frames.EVENTS)
            )
            if not answer:
                raise ProtocolError(f"the board lost event {first} of {done.events}")
            for index, event in answer:
                add(index, event, requested=True)
        if done.status:
            raise AgentError(done.status, done.text)
        return ledger.in_order()

    def get(self, tensor: str, size_bytes: int) -> bytes:
        """Returns the dense valid bytes that a tensor has after the last run. Raises ProtocolError if it does not have
        size_bytes bytes."""
        return self.get_range(tensor, size_bytes, 0, size_bytes)

    @in_turn
    def size_of(self, tensor: str) -> int:
        """Returns the number of bytes that a tensor has after the last run."""
        answer = self._request(frames.GET, messages.encode_text(tensor) + struct.pack("<QI", 0, 0), frames.DATA)
        if len(answer) < 8:
            raise ProtocolError(f"{tensor}: DATA of {len(answer)} bytes, wanted at least 8")
        return int(struct.unpack_from("<Q", answer)[0])

    @in_turn
    def get_range(self, tensor: str, size_bytes: int, offset: int, length: int) -> bytes:
        """Returns `length` bytes, beginning at `offset`, of a tensor of size_bytes bytes."""
        data, name = bytearray(), messages.encode_text(tensor)
        packed_flag = b"\1" if self._link.packs and self.hello.get("packs") == "lz4" else b""
        for _ in range(self._max_rounds(length)):
            start = offset + len(data)
            offsets = range(start, max(offset + length, start + 1), self.answer_bytes)
            lengths = [min(self.answer_bytes, offset + length - piece_offset) for piece_offset in offsets]
            requests = (
                (frames.GET, name + struct.pack("<QI", piece_offset, piece_length) + packed_flag)
                for piece_offset, piece_length in zip(offsets, lengths, strict=True)
            )
            for piece_offset, piece_length, answer in zip(
                offsets, lengths, self._request_ahead(requests, frames.DATA), strict=False
            ):
                if len(answer) < 16 or struct.unpack_from("<Q", answer)[0] != size_bytes:
                    raise ProtocolError(
                        f"{tensor}: the board's tensor has another size than the {size_bytes} bytes wanted"
                    )
                if struct.unpack_from("<Q", answer, 8)[0] != piece_offset or not (
                    len(answer) == 16 if piece_length == 0 else 0 < len(answer) - 16 <= piece_length
                ):
                    raise ProtocolError(f"{tensor}: the board sent another range than the one asked for")
                data += memoryview(answer)[16:]
                if len(answer) - 16 < piece_length:
                    break
            if len(data) >= length:
                return bytes(data)
        raise ProtocolError(f"{tensor}: the board sends it in ever smaller pieces ({len(data)} of {length} bytes)")

    def _max_rounds(self, size_bytes: int) -> int:
        """Returns how often the rest of a transfer is requested before it is given up."""
        return 8 + 2 * (size_bytes // self.piece_bytes)

    @in_turn
    def ping(self) -> None:
        """Raises LinkError if the agent does not answer."""
        if self._request(frames.PING, b"qverify", frames.PING) != b"qverify":
            raise ProtocolError("PING came back changed")


def _stored_bytes(answer: bytes) -> int:
    """Returns the number of stored bytes in the answer to PUT, or -1 if the answer has the wrong size."""
    return int(struct.unpack("<Q", answer)[0]) if len(answer) == 8 else -1
