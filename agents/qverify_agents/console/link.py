"""A console's agent as a Link, and the search for an agent that already uses the console."""

from __future__ import annotations

from qverify_agents.console.line import Port
from qverify_agents.deadline import Deadline
from qverify_agents.errors import LinkClosed, LinkError, LinkTimeout, ProtocolError
from qverify_agents.protocol.frames import AGAIN, BYE, HELLO, FrameReader, encode_frame
from qverify_agents.protocol.messages import read_hello

# Printed before the agent, after it, and when the shell has the terminal again.
GO, END, BACK = b"<qvgo", b"<qvend", b"<qvback"
LOST, FAREWELL_S = 3, 0.6  # unanswered readings after which an agent is given up, and the limit of closing then
AGENT_S, ECHO_S = (
    0.8,
    0.15,
)  # an agent answers within the first; a line's other output has no gaps as long as the second


class ConsoleLink:
    """A Link to the agent on a console's terminal. output_before: what the console printed before."""

    piece_bytes = 3000
    patience_s = 1.5
    packs = True
    ahead = 0

    def __init__(self, port: Port, where: str, output_before: str = ""):
        self._port, self._where, self._tail, self.output_before = port, where, b"", output_before
        self._unanswered, self._answers = 0, True  # readings in a row that ended without what they waited for
        self._over = self._back = self._closed = False  # the agent has ended; the shell has the terminal again

    def _taken(self, seconds: float) -> bytes:
        """Returns what came from the agent, up to the end mark. A mark may be spread over readings."""
        data, before, over = self._port.read(seconds), len(self._tail), self._over
        window = self._tail + data
        self._back = self._back or BACK in window
        self._over = over or self._back or END in window
        self._tail = window[-len(BACK) :]
        marks = [at for at in (window.find(END), window.find(BACK)) if at >= 0]
        return b"" if over else window[before : min(marks, default=len(window))]

    def read(self, deadline: Deadline) -> bytes:
        try:
            while not self._over:
                data = self._taken(min(0.5, deadline.left()))
                if data:
                    return data
        except LinkTimeout:
            self._unanswered, self._answers = self._unanswered + 1, False
            raise
        return b""

    def write(self, data: bytes, deadline: Deadline) -> None:
        if self._over:
            raise LinkClosed(self.why_closed())  # the shell would take it for commands
        self._unanswered, self._answers = self._unanswered if not self._answers else 0, True
        self._port.write(data, deadline)

    def why_closed(self) -> str:
        return "the agent ended on the console"

    def close(self) -> None:
        """Asks the agent to end and waits until the shell has restored the terminal."""
        if self._closed:
            return
        self._closed, deadline = True, Deadline(6.0 if self._unanswered < LOST else FAREWELL_S, self._where)
        try:
            if not self._over:
                self._port.write(encode_frame(BYE, 0, b""), deadline)
            while not self._back:
                self._taken(min(0.3, deadline.left()))
        except LinkError:
            pass  # nothing answers any more


def agent_there(port: Port, deadline: Deadline) -> dict[str, object] | None:
    """Returns the HELLO of an agent that already uses the line, or None. A shell, which echoes what is sent, is
    recognized at once."""
    reader, end, heard, request = FrameReader(), deadline.part(AGENT_S), False, _harmless_hello()
    try:
        port.write(request, deadline)
        while True:
            data = port.read(min(ECHO_S if heard else 0.1, end.left()))
            reader.feed(data)
            frame = reader.next()
            if frame is not None and frame.type == HELLO:
                return _hello(frame.payload)
            if frame is not None and frame.type == AGAIN:
                port.write(request, deadline)
            elif heard and not data:
                return None
            heard = heard or bool(data)
    except LinkTimeout:
        deadline.left()
        return None


def _harmless_hello() -> bytes:
    """Returns a HELLO frame without bytes that a terminal takes for a line end or an interrupt."""
    numbered = (encode_frame(HELLO, number, b"") for number in range(1, 1000))
    return next(frame for frame in numbered if not set(frame) & set(b"\r\n\x03\x04\x11\x13\x1a\x1c"))


def _hello(payload: bytes) -> dict[str, object]:
    try:
        return dict(read_hello(payload))
    except ProtocolError:
        return {"idle_s": 1}  # of another protocol version, which cannot be used
