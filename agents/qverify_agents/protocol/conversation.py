"""Requests and their answers over a link (PROTOCOL.md): sent again where they were lost or damaged, a lost link made again."""

from __future__ import annotations

import contextlib
import secrets
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Self

from qverify_agents.capabilities import Link
from qverify_agents.deadline import Deadline
from qverify_agents.errors import AgentError, BoardBusy, LinkClosed, LinkError, LinkTimeout, ProtocolError
from qverify_agents.protocol import frames, messages
from qverify_agents.protocol.keep_alive import PATIENCE_S, in_turn, keep_alive

OnFrame = Callable[[frames.Frame], tuple[bool, bool]]
LONGEST_PATIENCE_S = 8.0
RECONNECTS = 3


class Conversation:
    """Requests and answers over a link, kept up when it is lost. owner: who the board is held for; wait_s: how long to wait where another holds it (BoardBusy then).
    reopen: a new link to the same board after the first was lost; what was going on is asked for again. at_close: called once.
    generation: connections lost and made again. capabilities: what this board offers. counters: bytes over the link, and bytes that need not be sent.
    Every call has deadline_s, a run has it anew with each node; all raise LinkError. turn: held by a call; over a board that
    others may reach, too, PING is sent while none goes on."""

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
        self._link, self._deadline_s = link, deadline_s
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
        if frame is not None:
            raise ProtocolError(f"the agent answered with message {frame.type}, wanted {wanted}")
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

    def messages_between(self) -> list[str]:
        """Lines that came between frames, as a console's kernel messages do, after those it showed before the agent was
        started; printable text only."""
        text = bytes(self._reader.between).decode(errors="replace")
        text = f"{getattr(self._link, 'said_before', '')}\n{text}"
        lines = ("".join(c for c in line if c.isprintable()).strip() for line in text.splitlines())
        return [line[:200] for line in lines if len(line) > 3 and "\ufffd" not in line]

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

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _nothing() -> None:
    return None
