"""Speaks PROTOCOL.md to an agent over a link; sends again what was lost or damaged."""

from __future__ import annotations

import contextlib
import secrets
import struct
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal

from qverify_agents.capabilities import Link
from qverify_agents.deadline import Deadline
from qverify_agents.errors import AgentError, BoardBusy, LinkClosed, LinkError, LinkTimeout, ProtocolError
from qverify_agents.printable import one_line
from qverify_agents.protocol import frames, messages
from qverify_agents.protocol.keep_alive import PATIENCE_S, in_turn, keep_alive
from qverify_agents.protocol.messages import NodeEvent

__all__ = ["Agent", "NodeEvent"]

OnNode = Callable[[NodeEvent], Any]
OnFrame = Callable[[frames.Frame], tuple[bool, bool]]
MOST_EVENTS = 1 << 20
LONGEST_PATIENCE_S = 8.0
RECONNECTS = 3


class Agent:
    """One agent. owner: who the board is held for; wait_s: how long to wait where another holds it (BoardBusy then).
    reopen: a new link to the same board after the first was lost; what was going on is asked for again. at_close: called once.
    generation: connections lost and made again. capabilities: what this board offers. counters: bytes over the link, and bytes that need not be sent.
    kept: after the last run, every tensor can be got (else final outputs and those the run named). Every call has
    deadline_s, a run has it anew with each node; all raise LinkError. turn: held by a call; over a board that others may reach,
    too, PING is sent while none goes on."""

    def __init__(
        self,
        link: Link,
        offers: frozenset[str],
        deadline_s: float,
        owner: str = "",
        wait_s: float = 0.0,
        reopen: Callable[[], Link] | None = None,
        at_close: Callable[[], None] | None = None,
    ):
        self.turn, self._silence = threading.RLock(), _nothing
        self._ends: list[Callable[[], None]] = [at_close] if at_close is not None else []
        self._link, self._deadline_s, self.kept = link, deadline_s, True
        self._owner, self._reopen, self.generation = owner, reopen, 0
        self._gone: BoardBusy | LinkClosed | LinkTimeout | None = None
        self.shared = reopen is not None  # others may reach the board, too
        self._reader, self._sequence = frames.FrameReader(), secrets.randbelow(1 << 31)
        self.counters = {"bytes_sent": 0, "bytes_received": 0, "cached_bytes": 0, "frames_sent_again": 0, "requests": 0}
        try:
            self.hello: dict[str, Any] = self._hello(wait_s)
        except BaseException:
            with contextlib.suppress(Exception):  # nor does it hide why
                self._link.close()  # perhaps not the one that was given
            raise
        features = self.hello.get("features")
        self.capabilities = offers & frozenset(map(str, features)) if isinstance(features, list) else offers
        if self.shared:
            self._silence = keep_alive(self._ping_unasked)

    def _hello(self, wait_s: float) -> dict[str, Any]:
        """Until the board is ours, or BoardBusy with its holder."""
        end = time.monotonic() + wait_s
        while True:
            hello = messages.read_hello(
                self._ask(frames.HELLO, messages.text(self._owner) if self._owner else b"", frames.HELLO)
            )
            if hello.get("lock") != "busy":
                return hello
            if time.monotonic() >= end:
                raise BoardBusy(messages.busy(hello))
            time.sleep(min(0.5, max(0.0, end - time.monotonic())))

    @in_turn
    def ask_again(self) -> dict[str, Any]:
        """HELLO once more, for what changes while a board is up (temperature_c, uptime_s); LinkError as every call."""
        self.hello = self._hello(0.0)
        return self.hello

    def _write(self, data: bytes, deadline: Deadline) -> None:
        self._link.write(data, deadline)
        self.counters["bytes_sent"] += len(data)

    def _next(self, sequence: int, deadline: Deadline, patience_s: float) -> frames.Frame | None:
        """The next frame that answers `sequence`; None when it was damaged, or did not come within patience_s."""
        damaged, part = self._reader.damaged, deadline.part(patience_s)
        while True:
            frame = self._reader.next()
            if frame is not None and frame.sequence == sequence:
                return None if frame.type == frames.AGAIN else frame
            if frame is not None:
                continue
            if self._reader.damaged > damaged:
                return None
            try:
                data = self._link.read(part)
            except LinkTimeout:
                deadline.left()
                self._reader.give_up()
                return None
            if not data:
                raise LinkClosed(self._link.why_closed())
            self.counters["bytes_received"] += len(data)
            self._reader.feed(data)

    def _ask(self, kind: int, payload: bytes, wanted: int, on_node: OnFrame | None = None) -> bytes:
        """The answer's payload. NODE frames on the way go to on_node: (whether it brought something new, whether to cancel). Once the other end
        went away or fell silent, every further call says so at once."""
        if self._gone is not None:
            raise type(self._gone)(str(self._gone))
        try:
            return self._exchange(kind, payload, wanted, on_node)
        except LinkClosed as error:
            self._again(error)
        except LinkTimeout as error:
            self._gone = error
            raise
        if kind == frames.GET:
            raise AgentError(
                messages.NOT_FOUND, "the connection was lost and made again; the values of the run went with it"
            )
        if kind == frames.RUN:  # should it die there again, every event up to that node has come
            payload = messages.unbatched(payload)
        return self._ask(kind, payload, wanted, on_node)

    def _again(self, lost: LinkClosed) -> None:
        """A new link after the first was lost, at most RECONNECTS times. Where there is none to be had the error says why, to
        this call and to every further one."""
        self._gone = lost  # also for what comes after Ctrl-C
        if self._reopen is None or self.generation >= RECONNECTS:
            raise lost
        self.generation += 1
        self._link.close()
        try:
            self._link = self._reopen()
            self._reader, self._gone = frames.FrameReader(), None
            self._hello(10.0)
        except LinkError as error:
            kind = BoardBusy if isinstance(error, BoardBusy) else LinkClosed
            self._gone = kind(f"{lost}; connecting again failed: {error}")
            raise self._gone from error

    def _ask_ahead(self, requests: Iterable[tuple[int, bytes]], wanted: int) -> Iterator[bytes]:
        """The answers in order, later requests sent before the earlier ones' answers came, as many as the link allows. Where
        anything goes wrong, the unanswered ones are asked again one by one: each of them may arrive twice."""
        waiting: deque[tuple[int | None, int, bytes]] = deque()
        for kind, payload in requests:
            waiting.append((self._send_ahead(kind, payload), kind, payload))
            if len(waiting) > self._link.ahead:
                yield self._oldest(waiting, wanted)
        while waiting:
            yield self._oldest(waiting, wanted)

    def _send_ahead(self, kind: int, payload: bytes) -> int | None:
        """Its sequence number; None where it could not be sent, or must not be."""
        if self._gone is not None or self._link.ahead == 0:
            return None
        self._sequence = (self._sequence + 1) & 0xFFFFFFFF
        self.counters["requests"] += 1
        try:
            self._write(frames.frame_bytes(kind, self._sequence, payload), self._deadline())
        except (LinkClosed, LinkTimeout):
            return None
        return self._sequence

    def _oldest(self, waiting: deque[tuple[int | None, int, bytes]], wanted: int) -> bytes:
        sequence, kind, payload = waiting.popleft()
        frame = None
        if sequence is not None:
            with contextlib.suppress(LinkClosed, LinkTimeout):
                frame = self._next(sequence, self._deadline(), self._link.patience_s)
        if frame is not None and frame.type == frames.ERROR:
            raise messages.read_error(frame.payload)
        if frame is not None and frame.type == wanted:
            return frame.payload
        if frame is not None and frame.type == frames.PACKED and wanted == frames.DATA:
            return messages.read_packed(frame.payload)
        for _ in range(len(waiting)):  # their answers are passed over by what follows
            waiting.append((None, *waiting.popleft()[1:]))
        return self._ask(kind, payload, wanted)

    def _exchange(
        self, kind: int, payload: bytes, wanted: int, on_node: OnFrame | None, deadline: Deadline | None = None
    ) -> bytes:
        self._sequence = sequence = (self._sequence + 1) & 0xFFFFFFFF
        request, deadline, patience_s = (
            frames.frame_bytes(kind, sequence, payload),
            deadline or self._deadline(),
            self._link.patience_s,
        )
        self._write(request, deadline)
        self.counters["requests"] += 1
        while True:
            frame = self._next(sequence, deadline, patience_s)
            if frame is None:
                patience_s = min(patience_s * 1.5, LONGEST_PATIENCE_S)
                self._write(request, deadline)
                self.counters["frames_sent_again"] += 1
            elif frame.type == frames.ERROR:
                raise messages.read_error(frame.payload)
            elif frame.type == wanted:
                return frame.payload
            elif frame.type == frames.PACKED and wanted == frames.DATA:
                return messages.read_packed(frame.payload)
            elif frame.type in (frames.NODE, frames.NODES) and on_node is not None:
                new, cancel = on_node(frame)
                deadline = self._deadline("the board's next node") if new else deadline
                if cancel:
                    self._write(frames.frame_bytes(frames.CANCEL, (sequence - 1) & 0xFFFFFFFF, b""), deadline)
            else:
                raise ProtocolError(f"the agent answered with message {frame.type}, wanted {wanted}")

    def _deadline(self, what: str = "the agent") -> Deadline:
        return Deadline(self._deadline_s, what)

    @in_turn
    def have(self, hashes: list[str]) -> dict[str, int]:
        """Bytes the board holds of each content."""
        answer = self._ask(frames.HAVE, b"".join(map(bytes.fromhex, hashes)), frames.HAVE)
        if len(answer) != 8 * len(hashes):
            raise ProtocolError("HAVE: wrong number of answers")
        return dict(zip(hashes, struct.unpack(f"<{len(hashes)}Q", answer), strict=True))

    @in_turn
    def put(self, sha256: str, data: bytes, progress: Callable[[int, int], None] | None = None) -> None:
        """Sends what the board does not hold yet; resumes a partial content; starts over once when it went bad."""
        held = self.have([sha256])[sha256]
        self.counters["cached_bytes"] += min(held, len(data))
        try:
            self._put_from(held, sha256, data, progress)
        except AgentError as error:
            if error.status != messages.DAMAGED_CONTENT or not held:
                raise
            self.counters["cached_bytes"] -= min(held, len(data))
            self._put_from(0, sha256, data, progress)

    def _put_from(self, held: int, sha256: str, data: bytes, progress: Callable[[int, int], None] | None) -> None:
        idle, rounds = 0, self._rounds(len(data))
        while held < len(data) or not data:
            before, rounds = held, rounds - 1
            for answer in self._ask_ahead(self._pieces(held, sha256, data), frames.PUT):
                now, wanted = _held(answer), min(held + self._link.piece_bytes, len(data))
                if not 0 <= now <= len(data):
                    raise ProtocolError(f"PUT: the board holds {now} of {len(data)} bytes after piece at {held}")
                held = now
                if progress is not None:
                    progress(held, len(data))
                if held != wanted:
                    break  # what was sent ahead does not follow; from there anew
            idle = 0 if held > before else idle + 1
            if not data:
                return
            if idle > 3 or rounds < 0:
                raise ProtocolError(f"PUT: the board holds {held} of {len(data)} bytes and takes no more")

    def _pieces(self, held: int, sha256: str, data: bytes) -> Iterator[tuple[int, bytes]]:
        """PUT or PUT_PACKED payloads from `held` to the end; packing ends with the first piece that it does not make smaller."""
        packs, whole = self._link.packs and self.hello.get("packs") == "lz4", memoryview(data)
        for at in range(held, max(len(data), 1), self._link.piece_bytes):
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
    ) -> list[NodeEvent]:
        """Runs the model (content hash) on inputs (content hashes of aligned bytes, in graph input order).

        nodes: tensors to report. injected: tensor to content hash of the dense bytes that take its place once its node
        ran. on_node: sees each event as it comes; True cancels the run (AgentError). names: of the model's tensors in their
        order in model.bin; with them no event of another tensor is taken, and events come gathered where the link is slow."""
        every = nodes == "all"
        flags = (messages.DIGESTS if digests else 0) | (messages.EVERY_TENSOR if every else 0)
        flags |= messages.BATCHED if names and self._link.packs else 0
        payload = messages.run(model, inputs, [] if every else nodes, injected or {}, flags, repeat)
        most = min(MOST_EVENTS, repeat * len(names)) if names else MOST_EVENTS
        return self._events(frames.RUN, payload, on_node, names, most)

    @in_turn
    def run_unit(
        self, model: str, nodes: list[str], inputs: Mapping[str, str], names: Sequence[str] = ()
    ) -> list[NodeEvent]:
        """Runs only these nodes, on injected tensors (content hashes of dense bytes). names: as for run."""
        most = len(names) or MOST_EVENTS
        return self._events(frames.UNIT, messages.unit(model, nodes, inputs), None, names, most)

    def _events(
        self,
        kind: int,
        payload: bytes,
        on_node: OnNode | None,
        names: Sequence[str] = (),
        most: int = MOST_EVENTS,
    ) -> list[NodeEvent]:
        """All events of a run, each once, in order, at most `most`; those lost on the way are asked for. names: of all there
        can be."""
        seen: dict[int, NodeEvent] = {}
        known = frozenset(names)

        def add(index: int, event: NodeEvent) -> tuple[bool, bool]:
            if index >= most:
                raise ProtocolError(f"the board sent event {index}; this run has at most {most}")
            if known and event.tensor not in known:
                raise ProtocolError(
                    f"the board sent an event of {one_line(event.tensor[:60])!r}, no tensor of this model"
                )
            if index in seen:
                return False, False
            seen[index] = event
            return True, on_node is not None and on_node(event) is True

        def add_frame(frame: frames.Frame) -> tuple[bool, bool]:
            if frame.type == frames.NODES:
                found = [add(i, event) for i, event in messages.read_events(frame.payload, names)]
                return any(new for new, _ in found), any(cancel for _, cancel in found)
            return add(*messages.read_event(frame.payload)[:2])

        done = messages.read_done(self._ask(kind, payload, frames.DONE, add_frame))
        self.kept = done.kept
        while len(seen) < done.events:
            first = next(i for i in range(done.events) if i not in seen)
            answer, at = self._ask(frames.EVENTS, struct.pack("<I", first), frames.EVENTS), 0
            while at < len(answer):
                index, event, at = messages.read_event(answer, at)
                add(index, event)
            if first not in seen:
                raise ProtocolError(f"the board lost event {first} of {done.events}")
        if done.status:
            raise AgentError(done.status, done.text)
        return [seen[i] for i in range(done.events)]

    def get(self, tensor: str, size_bytes: int) -> bytes:
        """The tensor's dense valid bytes after the last run. ProtocolError when it is not size_bytes long."""
        return self.get_range(tensor, size_bytes, 0, size_bytes)

    @in_turn
    def get_range(self, tensor: str, size_bytes: int, offset: int, length: int) -> bytes:
        """`length` bytes of a tensor of size_bytes, from offset."""
        data, name = bytearray(), messages.text(tensor)
        packed = b"\1" if self._link.packs and self.hello.get("packs") == "lz4" else b""
        for _ in range(self._rounds(length)):
            start = offset + len(data)
            places = range(start, max(offset + length, start + 1), self._link.piece_bytes)
            asked = [min(self._link.piece_bytes, offset + length - at) for at in places]
            requests = (
                (frames.GET, name + struct.pack("<QI", at, n) + packed) for at, n in zip(places, asked, strict=True)
            )
            for at, n, answer in zip(places, asked, self._ask_ahead(requests, frames.DATA), strict=False):
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
        """How often a transfer may begin anew before the other end is not believed any more."""
        return 8 + 2 * (size_bytes // self._link.piece_bytes)

    def messages_between(self) -> list[str]:
        """Lines that came between frames, as a console's kernel messages do, after those it showed before the agent was
        started; printable text only."""
        text = bytes(self._reader.between).decode(errors="replace")
        text = f"{getattr(self._link, 'said_before', '')}\n{text}"
        lines = ("".join(c for c in line if c.isprintable()).strip() for line in text.splitlines())
        return [line[:200] for line in lines if len(line) > 3 and "\ufffd" not in line]

    @in_turn
    def ping(self) -> None:
        if self._ask(frames.PING, b"qverify", frames.PING) != b"qverify":
            raise ProtocolError("PING came back changed")

    def _ping_unasked(self) -> None:
        """Where no call is going on. What fails here is for the next call to find out."""
        if not self.turn.acquire(blocking=False):
            return
        try:
            with contextlib.suppress(Exception):  # whatever a link raises
                if self._gone is None:
                    self._exchange(frames.PING, b"", frames.PING, None, Deadline(PATIENCE_S, "the agent"))
        finally:
            self.turn.release()

    def close(self) -> None:
        """Every way down is gone to its end. What fails there changes nothing of what the board computed, and is not raised."""
        self._silence()
        if self.turn.acquire(timeout=2 * PATIENCE_S):  # not under a PING that goes on
            self.turn.release()
        ends, self._ends = [*self._ends, self._link.close], []
        with contextlib.ExitStack() as stack:
            for end in ends:
                stack.enter_context(contextlib.suppress(Exception))
                stack.callback(end)

    def at_close(self, action: Callable[[], None]) -> None:
        """Called once, after the link was closed; the last one first."""
        self._ends.append(action)

    def __enter__(self) -> Agent:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _nothing() -> None:
    return None


def _held(answer: bytes) -> int:
    """What PUT's answer says the board holds; -1 where it says nothing."""
    return int(struct.unpack("<Q", answer)[0]) if len(answer) == 8 else -1
