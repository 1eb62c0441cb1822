"""Sends requests over a link and receives their answers (PROTOCOL.md). Sends a request again if it or its answer was
lost or damaged, and opens the link again if it was lost."""

from __future__ import annotations

import contextlib
import math
import secrets
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Self

from qverify_agents.deadline import Deadline
from qverify_agents.errors import AgentError, BoardBusy, LinkClosed, LinkError, LinkTimeout, ProtocolError
from qverify_agents.interfaces import Link
from qverify_agents.protocol import frames, messages
from qverify_agents.protocol.keep_alive import PATIENCE_S, in_turn, keep_alive

OnFrame = Callable[[frames.Frame], tuple[bool, bool]]
MAX_PATIENCE_S = 8.0
MAX_RECONNECTS = 3


class Conversation:
    """Requests and answers over a link, continued over a new link if that one is lost. Every call has a deadline of
    deadline_s, a run has it anew for each node; every call may raise LinkError.

    Args:
        link: the link to the agent.
        offers: features that the address allows the board to offer.
        deadline_s: seconds for each call.
        owner: name under which the board is locked, or "" to take no lock.
        wait_s: seconds to wait while somebody else has locked the board; then BoardBusy is raised.
        reopen: opens a new link to the same board after one was lost, or None if that is not possible. An unanswered
            request is then sent again.
        at_close: called once when the conversation is closed.

    Attributes:
        hello: the agent's last answer to HELLO.
        capabilities: features that this board offers.
        generation: number of times that a lost link was opened again.
        counters: bytes sent and received, bytes of contents that the board already had, requests, and requests sent
            again.
        shared: whether others may reach the board, too; PING is then sent while no call runs.
        turn: the lock that each call takes while it runs.
    """

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
        self.turn, self._stop_keep_alive = threading.RLock(), _do_nothing
        self._close_actions: list[Callable[[], None]] = [at_close] if at_close is not None else []
        self._link, self._deadline_s = link, deadline_s
        self._owner, self._reopen, self.generation = owner, reopen, 0
        # Set by bounded(): the end by time.monotonic(), and the option that gives more time.
        self._time_bound: tuple[float, str] | None = None
        self._fatal_error: BoardBusy | LinkClosed | LinkTimeout | None = None
        self.shared = reopen is not None
        self._reader, self._sequence = frames.FrameReader(), secrets.randbelow(1 << 31)
        self.counters = {"bytes_sent": 0, "bytes_received": 0, "cached_bytes": 0, "frames_sent_again": 0, "requests": 0}
        try:
            self.hello: dict[str, Any] = self._take_board(wait_s)
        except BaseException:
            with contextlib.suppress(Exception):  # the first error is the one to raise
                self._link.close()  # it may be a reopened one
            raise
        features = self.hello.get("features")
        self.capabilities = offers & frozenset(map(str, features)) if isinstance(features, list) else offers
        if self.shared:
            self._stop_keep_alive = keep_alive(self._ping_unasked)

    @property
    def packs(self) -> bool:
        """True if the link is so slow that contents are compressed."""
        return self._link.packs

    @property
    def piece_bytes(self) -> int:
        """The most bytes of a content that one frame carries on this link to this agent."""
        return min(self._link.piece_bytes, self.max_payload - messages.PUT_HEADER_BYTES)

    @property
    def answer_bytes(self) -> int:
        """The most bytes of a tensor that one request asks for. A firmware with a model of its own sends values as they
        are computed, so that its answers are not bounded by what it receives."""
        return self._link.piece_bytes if self.has_own_model else self.piece_bytes

    @property
    def has_own_model(self) -> bool:
        """True for a firmware that runs a model of its own, and takes inputs only."""
        return "own_model" in self.hello

    @property
    def max_payload(self) -> int:
        """The most bytes of a payload that this agent receives."""
        return int(self.hello.get("max_payload", messages.MAX_PIECE_BYTES))

    def _take_board(self, wait_s: float) -> dict[str, Any]:
        """Sends HELLO until this connection has locked the board, and returns the answer. Raises BoardBusy, which names
        the holder, after wait_s seconds."""
        give_up_at = time.monotonic() + wait_s
        while True:
            hello = messages.read_hello(
                self._request(frames.HELLO, messages.encode_text(self._owner) if self._owner else b"", frames.HELLO)
            )
            if hello.get("lock") != "busy":
                return hello
            if time.monotonic() >= give_up_at:
                raise BoardBusy(messages.format_busy(hello))
            time.sleep(min(0.5, max(0.0, give_up_at - time.monotonic())))

    @in_turn
    def refresh_hello(self) -> dict[str, Any]:
        """Sends HELLO again and returns the answer, for values that change while a board runs (temperature_c,
        uptime_s)."""
        self.hello = self._take_board(0.0)
        return self.hello

    def _write(self, data: bytes, deadline: Deadline) -> None:
        self._link.write(data, deadline)
        self.counters["bytes_sent"] += len(data)

    def _receive_answer(self, sequence: int, deadline: Deadline, patience_s: float) -> frames.Frame | None:
        """Returns the next frame that answers request `sequence`, or None if it must be sent again: a frame was
        damaged, or none arrived within patience_s."""
        damaged_before, answer_deadline = self._reader.damaged, deadline.part(patience_s)
        while True:
            frame = self._reader.next()
            if frame is not None and frame.sequence == sequence:
                return None if frame.type == frames.AGAIN else frame
            if frame is not None:
                continue
            if self._reader.damaged > damaged_before:
                return None
            try:
                data = self._link.read(answer_deadline)
            except LinkTimeout:
                deadline.left()
                self._reader.give_up()
                return None
            if not data:
                raise LinkClosed(self._link.why_closed())
            self.counters["bytes_received"] += len(data)
            self._reader.feed(data)

    def _request(self, kind: int, payload: bytes, answer_type: int, on_node: OnFrame | None = None) -> bytes:
        """Sends a request and returns the payload of its answer. NODE and NODES frames before the answer are passed to
        on_node, which returns whether they were new and whether to cancel the run. Once the link is lost for good or
        the agent does not answer, every further call raises the same error at once."""
        if self._fatal_error is not None:
            raise type(self._fatal_error)(str(self._fatal_error))
        try:
            return self._exchange(kind, payload, answer_type, on_node)
        except LinkClosed as error:
            self._reconnect(error)
        except LinkTimeout as error:
            self._fatal_error = error
            raise
        if kind == frames.GET:
            raise AgentError(
                messages.NOT_FOUND, "the connection was lost and made again; the run's values are gone; run again"
            )
        if kind == frames.RUN:  # if the agent ends at the same node again, every event before it has arrived
            payload = messages.remove_batching(payload)
        return self._request(kind, payload, answer_type, on_node)

    def _reconnect(self, lost: LinkClosed) -> None:
        """Opens a new link after one was lost, at most MAX_RECONNECTS times. If that fails, raises the reason, now and
        at every further call."""
        self._fatal_error = lost  # also for calls after a Ctrl-C during the attempt
        if self._reopen is None or self.generation >= MAX_RECONNECTS:
            raise lost
        self.generation += 1
        self._link.close()
        try:
            self._link = self._reopen()
            self._reader, self._fatal_error = frames.FrameReader(), None
            self._take_board(10.0)
        except LinkError as error:
            error_type = BoardBusy if isinstance(error, BoardBusy) else LinkClosed
            self._fatal_error = error_type(f"{lost}; connecting again failed: {error}")
            raise self._fatal_error from error

    def _request_ahead(self, requests: Iterable[tuple[int, bytes]], answer_type: int) -> Iterator[bytes]:
        """Yields the payloads of the answers in order. Sends as many requests as the link allows before earlier ones
        are answered. After an error, sends the unanswered requests again one by one, as each may safely arrive
        twice."""
        unanswered: deque[tuple[int | None, int, bytes]] = deque()
        for kind, payload in requests:
            unanswered.append((self._send_ahead(kind, payload), kind, payload))
            if len(unanswered) > self._link.ahead:
                yield self._take_oldest_answer(unanswered, answer_type)
        while unanswered:
            yield self._take_oldest_answer(unanswered, answer_type)

    def _send_ahead(self, kind: int, payload: bytes) -> int | None:
        """Sends a request and returns its sequence number, or None if it cannot be sent or the link does not send
        requests ahead."""
        if self._fatal_error is not None or self._link.ahead == 0:
            return None
        self._sequence = (self._sequence + 1) & 0xFFFFFFFF
        self.counters["requests"] += 1
        try:
            self._write(frames.encode_frame(kind, self._sequence, payload), self._new_deadline())
        except (LinkClosed, LinkTimeout):
            return None
        return self._sequence

    def _take_oldest_answer(self, unanswered: deque[tuple[int | None, int, bytes]], answer_type: int) -> bytes:
        sequence, kind, payload = unanswered.popleft()
        frame = None
        if sequence is not None:
            with contextlib.suppress(LinkClosed, LinkTimeout):
                frame = self._receive_answer(sequence, self._new_deadline(), self._link.patience_s)
        if frame is not None and frame.type == frames.ERROR:
            raise messages.read_error(frame.payload)
        if frame is not None and frame.type == answer_type:
            return frame.payload
        if frame is not None and frame.type == frames.PACKED and answer_type == frames.DATA:
            return messages.read_packed(frame.payload)
        if frame is not None:
            raise ProtocolError(f"the agent answered with message {frame.type}, wanted {answer_type}")
        for _ in range(len(unanswered)):  # forget their numbers: answers that still arrive are ignored
            unanswered.append((None, *unanswered.popleft()[1:]))
        return self._request(kind, payload, answer_type)

    def _exchange(
        self, kind: int, payload: bytes, answer_type: int, on_node: OnFrame | None, deadline: Deadline | None = None
    ) -> bytes:
        self._sequence = sequence = (self._sequence + 1) & 0xFFFFFFFF
        request, deadline, patience_s = (
            frames.encode_frame(kind, sequence, payload),
            deadline or self._new_deadline(),
            self._link.patience_s,
        )
        self._write(request, deadline)
        self.counters["requests"] += 1
        while True:
            frame = self._receive_answer(sequence, deadline, patience_s)
            if frame is None:
                patience_s = min(patience_s * 1.5, MAX_PATIENCE_S)
                self._write(request, deadline)
                self.counters["frames_sent_again"] += 1
            elif frame.type == frames.ERROR:
                raise messages.read_error(frame.payload)
            elif frame.type == answer_type:
                return frame.payload
            elif frame.type == frames.PACKED and answer_type == frames.DATA:
                return messages.read_packed(frame.payload)
            elif frame.type in (frames.NODE, frames.NODES) and on_node is not None:
                is_new, cancel = on_node(frame)
                deadline = self._new_deadline("the board's next node") if is_new else deadline
                if cancel:
                    self._write(frames.encode_frame(frames.CANCEL, (sequence - 1) & 0xFFFFFFFF, b""), deadline)
            else:
                raise ProtocolError(f"the agent answered with message {frame.type}, wanted {answer_type}")

    def _new_deadline(self, operation: str = "the agent") -> Deadline:
        seconds_left = self._time_bound[0] - time.monotonic() if self._time_bound is not None else math.inf
        if self._time_bound is None or seconds_left >= self._deadline_s:
            return Deadline(self._deadline_s, operation)
        return Deadline(max(0.0, seconds_left), operation, self._time_bound[1])

    @contextlib.contextmanager
    def bounded(self, seconds: float, longer: str) -> Iterator[None]:
        """A context whose calls end at the latest `seconds` from now, by LinkTimeout. An agent that did not answer
        until then may be called again afterwards. longer: the option that gives more time, for the message."""
        outer_bound, end, error_before = self._time_bound, time.monotonic() + seconds, self._fatal_error
        self._time_bound = (end, longer) if outer_bound is None or end < outer_bound[0] else outer_bound
        try:
            yield
        finally:
            if (
                error_before is None
                and isinstance(self._fatal_error, LinkTimeout)
                and time.monotonic() >= self._time_bound[0]
            ):
                self._fatal_error = None
            self._time_bound = outer_bound

    def messages_between(self) -> list[str]:
        """Returns the printable lines that a console showed before the agent was started and those that arrived between
        frames, such as kernel messages."""
        text = bytes(self._reader.between).decode(errors="replace")
        text = f"{getattr(self._link, 'output_before', '')}\n{text}"
        lines = ("".join(c for c in line if c.isprintable()).strip() for line in text.splitlines())
        return [line[:200] for line in lines if len(line) > 3 and "\ufffd" not in line]

    def _ping_unasked(self) -> None:
        """Sends PING if no call is running. Ignores errors, which the next call will raise."""
        if not self.turn.acquire(blocking=False):
            return
        try:
            with contextlib.suppress(Exception):  # a link may raise any error
                if self._fatal_error is None:
                    self._exchange(frames.PING, b"", frames.PING, None, Deadline(PATIENCE_S, "the agent"))
        finally:
            self.turn.release()

    def close(self) -> None:
        """Closes the link and runs every at_close action. Ignores errors, as they do not change what the board
        computed."""
        self._stop_keep_alive()
        if self.turn.acquire(timeout=2 * PATIENCE_S):  # do not close the link while a PING is on its way
            self.turn.release()
        actions, self._close_actions = [*self._close_actions, self._link.close], []
        with contextlib.ExitStack() as stack:
            for action in actions:
                stack.enter_context(contextlib.suppress(Exception))
                stack.callback(action)

    def at_close(self, action: Callable[[], None]) -> None:
        """Registers an action that runs once after the link is closed; the last one registered runs first."""
        self._close_actions.append(action)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _do_nothing() -> None:
    return None
