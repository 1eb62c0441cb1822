"""Requests and answers over a link (PROTOCOL.md): sent again if they were lost or damaged; a lost link is connected
again."""

from __future__ import annotations

import contextlib
import math
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
    """Requests and answers over a link, continued over a new link if it is lost.

    owner: who locks the board; wait_s: how long to wait while another has locked it, then BoardBusy is raised. reopen:
    opens a new link to the same board after the first was lost; an unanswered request is sent again. at_close: called
    once. generation: number of reconnections. capabilities: what this board offers. counters: bytes over the link, and
    bytes that need not be sent. Every call has deadline_s, and a run has it again for each node; all raise LinkError.
    turn: a lock held by a call; to a board that others may reach, too, PING is sent while no call runs."""

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
        self._bound: tuple[float, str] | None = None  # on time.monotonic()'s clock, and what gives more time
        self._gone: BoardBusy | LinkClosed | LinkTimeout | None = None
        self.shared = reopen is not None  # others may reach the board, too
        self._reader, self._sequence = frames.FrameReader(), secrets.randbelow(1 << 31)
        self.counters = {"bytes_sent": 0, "bytes_received": 0, "cached_bytes": 0, "frames_sent_again": 0, "requests": 0}
        try:
            self.hello: dict[str, Any] = self._hello(wait_s)
        except BaseException:
            with contextlib.suppress(Exception):  # the first error is raised
                self._link.close()  # perhaps a reopened one
            raise
        features = self.hello.get("features")
        self.capabilities = offers & frozenset(map(str, features)) if isinstance(features, list) else offers
        if self.shared:
            self._silence = keep_alive(self._ping_unasked)

    @property
    def packs(self) -> bool:
        """Whether the link is so slow that contents are compressed."""
        return self._link.packs

    def _hello(self, wait_s: float) -> dict[str, Any]:
        """Sends HELLO until this connection has locked the board. Returns the answer; raises BoardBusy with the
        holder."""
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
        """Sends HELLO again for values that change while a board runs (temperature_c, uptime_s) and returns the
        answer."""
        self.hello = self._hello(0.0)
        return self.hello

    def _write(self, data: bytes, deadline: Deadline) -> None:
        self._link.write(data, deadline)
        self.counters["bytes_sent"] += len(data)

    def _next(self, sequence: int, deadline: Deadline, patience_s: float) -> frames.Frame | None:
        """Returns the next frame that answers `sequence`; None if it was damaged or did not come within patience_s."""
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
        """Returns the answer's payload. NODE frames before it are passed to on_node, which returns (whether it was new,
        whether to cancel). Once the link is finally lost or the agent is silent, every further call raises the same
        error at once."""
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
                messages.NOT_FOUND, "the connection was lost and made again; the run's values are gone; run again"
            )
        if kind == frames.RUN:  # if it dies there again, every event up to that node has come
            payload = messages.unbatched(payload)
        return self._ask(kind, payload, wanted, on_node)

    def _again(self, lost: LinkClosed) -> None:
        """Opens a new link after one was lost, at most RECONNECTS times. Raises the reason if that fails, now and at
        every further call."""
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
        """Yields the answers in order, while later requests are sent before earlier answers came, as many as the link
        allows. After an error the unanswered requests are sent again one by one, as each may safely arrive twice."""
        waiting: deque[tuple[int | None, int, bytes]] = deque()
        for kind, payload in requests:
            waiting.append((self._send_ahead(kind, payload), kind, payload))
            if len(waiting) > self._link.ahead:
                yield self._oldest(waiting, wanted)
        while waiting:
            yield self._oldest(waiting, wanted)

    def _send_ahead(self, kind: int, payload: bytes) -> int | None:
        """Sends a request and returns its sequence number; None if it could not be sent or the link does not send
        ahead."""
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
        for _ in range(len(waiting)):  # answers that still come for them are ignored
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
        left = self._bound[0] - time.monotonic() if self._bound is not None else math.inf
        if self._bound is None or left >= self._deadline_s:
            return Deadline(self._deadline_s, what)
        return Deadline(max(0.0, left), what, self._bound[1])

    @contextlib.contextmanager
    def bounded(self, seconds: float, longer: str) -> Iterator[None]:
        """Ends every call within at the latest so many seconds from now, by LinkTimeout; an agent that was silent until
        then is asked again afterwards. longer: the option that gives more time."""
        before, end, gone = self._bound, time.monotonic() + seconds, self._gone
        self._bound = (end, longer) if before is None or end < before[0] else before
        try:
            yield
        finally:
            if gone is None and isinstance(self._gone, LinkTimeout) and time.monotonic() >= self._bound[0]:
                self._gone = None
            self._bound = before

    def messages_between(self) -> list[str]:
        """Returns printable lines received between frames, such as a console's kernel messages, after the lines shown
        before the agent was started."""
        text = bytes(self._reader.between).decode(errors="replace")
        text = f"{getattr(self._link, 'output_before', '')}\n{text}"
        lines = ("".join(c for c in line if c.isprintable()).strip() for line in text.splitlines())
        return [line[:200] for line in lines if len(line) > 3 and "\ufffd" not in line]

    def _ping_unasked(self) -> None:
        """Sends PING if no call is running. Errors are ignored: the next call will meet them."""
        if not self.turn.acquire(blocking=False):
            return
        try:
            with contextlib.suppress(Exception):  # whatever a link raises
                if self._gone is None:
                    self._exchange(frames.PING, b"", frames.PING, None, Deadline(PATIENCE_S, "the agent"))
        finally:
            self.turn.release()

    def close(self) -> None:
        """Closes the link and calls every at_close action. Errors are ignored, as they do not change what the board
        computed."""
        self._silence()
        if self.turn.acquire(timeout=2 * PATIENCE_S):  # not under a PING that goes on
            self.turn.release()
        ends, self._ends = [*self._ends, self._link.close], []
        with contextlib.ExitStack() as stack:
            for end in ends:
                stack.enter_context(contextlib.suppress(Exception))
                stack.callback(end)

    def at_close(self, action: Callable[[], None]) -> None:
        """Registers an action that is called once after the link was closed; the last one is called first."""
        self._ends.append(action)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _nothing() -> None:
    return None
