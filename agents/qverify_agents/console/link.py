"""The Link to an agent on a console, and the search for an agent that already uses the console."""

from __future__ import annotations

from qverify_agents.console.line import Port
from qverify_agents.deadline import Deadline
from qverify_agents.errors import LinkClosed, LinkError, LinkTimeout, ProtocolError
from qverify_agents.protocol.frames import AGAIN, BYE, HELLO, FrameReader, encode_frame
from qverify_agents.protocol.messages import read_hello

# Marks that are printed before the agent starts, after it has ended, and when the shell has the terminal again.
START_MARK, END_MARK, SHELL_MARK = b"<qvgo", b"<qvend", b"<qvback"
MAX_UNANSWERED = 3  # requests in a row, after which an agent is given up
FAREWELL_S = 0.6  # time limit of close() then
AGENT_ANSWER_S = 0.8  # within which an agent answers
ECHO_GAP_S = 0.15  # without a byte, after which any other output of the line has ended


class ConsoleLink:
    """A Link to the agent on the terminal of a console. output_before: what the console printed before the agent
    started."""

    piece_bytes = 3000
    patience_s = 1.5
    packs = True
    ahead = 0

    def __init__(self, port: Port, where: str, output_before: str = ""):
        self._port, self._where, self._tail, self.output_before = port, where, b"", output_before
        self._unanswered, self._was_answered = 0, True  # timed out reads in a row, each after a request
        self._agent_ended = self._shell_is_back = self._closed = False

    def _read_agent(self, seconds: float) -> bytes:
        """Returns what arrives from the agent, up to the end mark. A mark may be spread over several reads."""
        data, tail_length, ended_before = self._port.read(seconds), len(self._tail), self._agent_ended
        window = self._tail + data
        self._shell_is_back = self._shell_is_back or SHELL_MARK in window
        self._agent_ended = ended_before or self._shell_is_back or END_MARK in window
        self._tail = window[-len(SHELL_MARK) :]
        marks = [at for at in (window.find(END_MARK), window.find(SHELL_MARK)) if at >= 0]
        return b"" if ended_before else window[tail_length : min(marks, default=len(window))]

    def read(self, deadline: Deadline) -> bytes:
        try:
            while not self._agent_ended:
                data = self._read_agent(min(0.5, deadline.left()))
                if data:
                    return data
        except LinkTimeout:
            self._unanswered, self._was_answered = self._unanswered + 1, False
            raise
        return b""

    def write(self, data: bytes, deadline: Deadline) -> None:
        if self._agent_ended:
            raise LinkClosed(self.why_closed())  # otherwise the shell would run the data as commands
        self._unanswered, self._was_answered = self._unanswered if not self._was_answered else 0, True
        self._port.write(data, deadline)

    def why_closed(self) -> str:
        return "the agent ended on the console"

    def close(self) -> None:
        """Requests the agent to end and waits until the shell has restored the terminal."""
        if self._closed:
            return
        self._closed, deadline = True, Deadline(6.0 if self._unanswered < MAX_UNANSWERED else FAREWELL_S, self._where)
        try:
            if not self._agent_ended:
                self._port.write(encode_frame(BYE, 0, b""), deadline)
            while not self._shell_is_back:
                self._read_agent(min(0.3, deadline.left()))
        except LinkError:
            pass  # nothing answers any longer


def find_running_agent(port: Port, deadline: Deadline) -> dict[str, object] | None:
    """Returns the HELLO of an agent that already uses the line, or None. A shell is recognized at once, because it
    echoes what is sent."""
    reader, agent_deadline = FrameReader(), deadline.part(AGENT_ANSWER_S)
    has_received, request = False, _harmless_hello()
    try:
        port.write(request, deadline)
        while True:
            data = port.read(min(ECHO_GAP_S if has_received else 0.1, agent_deadline.left()))
            reader.feed(data)
            frame = reader.next()
            if frame is not None and frame.type == HELLO:
                return _parse_hello(frame.payload)
            if frame is not None and frame.type == AGAIN:
                port.write(request, deadline)
            elif has_received and not data:
                return None
            has_received = has_received or bool(data)
    except LinkTimeout:
        deadline.left()
        return None


def _harmless_hello() -> bytes:
    """Returns a HELLO frame that contains no line end, interrupt or other control byte to which a terminal reacts."""
    numbered = (encode_frame(HELLO, number, b"") for number in range(1, 1000))
    return next(frame for frame in numbered if not set(frame) & set(b"\r\n\x03\x04\x11\x13\x1a\x1c"))


def _parse_hello(payload: bytes) -> dict[str, object]:
    try:
        return dict(read_hello(payload))
    except ProtocolError:
        return {"idle_s": 1}  # an agent of another protocol version, which cannot be used
