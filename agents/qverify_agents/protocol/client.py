"""Speaks PROTOCOL.md to an agent over a link."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from qverify_agents.capabilities import Link
from qverify_agents.deadline import Deadline
from qverify_agents.errors import AgentError, LinkClosed, ProtocolError
from qverify_agents.protocol import frames

PIECE = 1_000_000


@dataclass(frozen=True, slots=True)
class NodeEvent:
    """tensor: its ONNX name. digest: 16 hex digits of XXH64. elapsed_ns: of the node."""

    tensor: str
    digest: str
    elapsed_ns: int


def _text(value: str) -> bytes:
    data = value.encode()
    return struct.pack("<H", len(data)) + data


def _read_text(payload: bytes, at: int = 0) -> tuple[str, int]:
    if len(payload) < at + 2:
        raise ProtocolError("a text is cut short")
    end = at + 2 + struct.unpack_from("<H", payload, at)[0]
    if len(payload) < end:
        raise ProtocolError("a text is cut short")
    return payload[at + 2 : end].decode(errors="replace"), end


class Agent:
    """One agent. capabilities: what this board offers. counters: bytes over the link, and bytes that need not be sent."""

    def __init__(self, link: Link, capabilities: frozenset[str], deadline_s: float):
        self._link, self.capabilities, self._deadline_s = link, capabilities, deadline_s
        self._reader, self._sequence = frames.FrameReader(), 0
        self.counters = {"bytes_sent": 0, "bytes_received": 0, "cached_bytes": 0}
        payload = self._ask(frames.HELLO, b"", frames.HELLO)
        try:
            hello = json.loads(_read_text(payload)[0])
        except ValueError as error:
            raise ProtocolError("HELLO is not JSON") from error
        if not isinstance(hello, dict) or hello.get("protocol") != 1:
            raise ProtocolError(
                f"the agent speaks protocol {hello.get('protocol') if isinstance(hello, dict) else '?'}, wanted 1"
            )
        self.hello: dict[str, Any] = hello

    def _deadline(self, what: str) -> Deadline:
        return Deadline(self._deadline_s, what)

    def _send(self, kind: int, payload: bytes, deadline: Deadline) -> None:
        self._sequence += 1
        data = frames.frame_bytes(kind, self._sequence, payload)
        self._link.write(data, deadline)
        self.counters["bytes_sent"] += len(data)

    def _receive(self, deadline: Deadline) -> frames.Frame:
        while True:
            frame = self._reader.next()
            if frame is not None and frame.sequence == self._sequence:
                if frame.type == frames.ERROR:
                    raise self._failure(frame.payload)
                return frame
            if frame is not None:
                continue
            if self._reader.damaged:
                raise ProtocolError("a reply was damaged on the link")
            data = self._link.read(deadline)
            if not data:
                raise LinkClosed(self._link.why_closed())
            self.counters["bytes_received"] += len(data)
            self._reader.feed(data)

    @staticmethod
    def _failure(payload: bytes) -> AgentError:
        if len(payload) < 4:
            raise ProtocolError("an ERROR is cut short")
        return AgentError(struct.unpack_from("<i", payload)[0], _read_text(payload, 4)[0])

    def _ask(self, kind: int, payload: bytes, wanted: int) -> bytes:
        deadline = self._deadline("the agent")
        self._send(kind, payload, deadline)
        frame = self._receive(deadline)
        if frame.type != wanted:
            raise ProtocolError(f"the agent answered with message {frame.type}, wanted {wanted}")
        return frame.payload

    def have(self, hashes: list[str]) -> dict[str, int]:
        """Bytes the board holds of each content."""
        answer = self._ask(frames.HAVE, b"".join(map(bytes.fromhex, hashes)), frames.HAVE)
        if len(answer) != 8 * len(hashes):
            raise ProtocolError("HAVE: wrong number of answers")
        return dict(zip(hashes, struct.unpack(f"<{len(hashes)}Q", answer), strict=True))

    def put(self, sha256: str, data: bytes, progress: Callable[[int, int], None] | None = None) -> None:
        """Sends what the board does not hold yet; resumes a partial content."""
        held = self.have([sha256])[sha256]
        if held > len(data):
            raise ProtocolError(f"the board holds {held} bytes of a content of {len(data)}")
        self.counters["cached_bytes"] += held
        while held < len(data) or not data:
            piece = data[held : held + PIECE]
            answer = self._ask(
                frames.PUT, bytes.fromhex(sha256) + struct.pack("<QQ", len(data), held) + piece, frames.PUT
            )
            if len(answer) != 8 or struct.unpack("<Q", answer)[0] != held + len(piece):
                raise ProtocolError("PUT: the board holds another size than was sent")
            held += len(piece)
            if progress is not None:
                progress(held, len(data))
            if not data:
                break

    def _events(self, on_node: Callable[[NodeEvent], None] | None) -> Iterator[NodeEvent]:
        while True:
            frame = self._receive(self._deadline("the board's next node"))
            if frame.type == frames.DONE:
                if len(frame.payload) < 4:
                    raise ProtocolError("DONE is cut short")
                status = struct.unpack_from("<i", frame.payload)[0]
                if status:
                    raise AgentError(status, _read_text(frame.payload, 4)[0])
                return
            if frame.type != frames.NODE:
                raise ProtocolError(f"the agent sent message {frame.type} during a run")
            name, at = _read_text(frame.payload)
            if len(frame.payload) != at + 16:
                raise ProtocolError("NODE has a wrong size")
            digest, elapsed = struct.unpack_from("<QQ", frame.payload, at)
            event = NodeEvent(name, f"{digest:016x}", elapsed)
            if on_node is not None:
                on_node(event)
            yield event

    def run(self, model: str, inputs: list[str], on_node: Callable[[NodeEvent], None] | None = None) -> list[NodeEvent]:
        """Runs the model (content hash) on inputs (content hashes of aligned bytes, in graph input order)."""
        payload = bytes.fromhex(model) + struct.pack("<BH", 1, len(inputs)) + b"".join(map(bytes.fromhex, inputs))
        self._send(frames.RUN, payload, self._deadline("the agent"))
        return list(self._events(on_node))

    def run_unit(self, model: str, nodes: list[str], inputs: Mapping[str, str]) -> list[NodeEvent]:
        """Runs only these nodes, on injected tensors (content hashes of dense bytes)."""
        payload = bytes.fromhex(model) + struct.pack("<H", len(nodes)) + b"".join(map(_text, nodes))
        payload += struct.pack("<H", len(inputs)) + b"".join(_text(n) + bytes.fromhex(h) for n, h in inputs.items())
        self._send(frames.UNIT, payload, self._deadline("the agent"))
        return list(self._events(None))

    def get(self, tensor: str, size_bytes: int) -> bytes:
        """The tensor's dense valid bytes after the last run. ProtocolError when it is not size_bytes long."""
        data = bytearray()
        while True:
            answer = self._ask(frames.GET, _text(tensor) + struct.pack("<QI", len(data), PIECE), frames.DATA)
            if len(answer) < 8 or struct.unpack_from("<Q", answer)[0] != size_bytes:
                raise ProtocolError(f"{tensor}: the board's tensor has another size than the {size_bytes} bytes wanted")
            data += answer[8:]
            if len(data) >= size_bytes:
                return bytes(data[:size_bytes])
            if len(answer) == 8:
                raise ProtocolError(f"{tensor}: the board sent {len(data)} of {size_bytes} bytes")

    def close(self) -> None:
        self._link.close()
