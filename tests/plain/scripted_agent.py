"""An agent of PROTOCOL.md in Python, in this process, which a test makes lose, repeat, damage or say what the real one never does."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from qverify_agents.deadline import Deadline
from qverify_agents.errors import LinkClosed, LinkTimeout
from qverify_agents.interfaces import ALL_FEATURES
from qverify_agents.protocol import frames, messages
from qverify_agents.protocol.client import Agent
from qverify_agents.protocol.frames import Frame, FrameReader, encode_frame

Reply = bytes | tuple[int, bytes]  # bytes as they go over the link, or a message with the request's number
Handler = Callable[[Frame], Iterable[Reply]]


class ScriptedAgent:
    """Holds contents and tensors. handlers: message type to what answers it instead. asked: every request that came."""

    def __init__(self, handlers: dict[int, Handler] | None = None, hello: dict[str, Any] | None = None):
        self.handlers, self.asked = handlers or {}, list[Frame]()
        self.hello: dict[str, Any] = {"protocol": 1, "packs": "lz4", **(hello or {})}
        self.contents, self.tensors = dict[str, bytearray](), dict[str, bytes]()
        self.events: list[tuple[int, int, int, str]] = []  # of every run: index, iteration, digest, tensor
        self.done = (0, "", 64, 1)  # status, text, arena bytes, kept

    def answer(self, request: Frame) -> bytes:
        self.asked.append(request)
        replies = self.handlers.get(request.type, self.honest)(request)
        return b"".join(r if isinstance(r, bytes) else encode_frame(r[0], request.sequence, r[1]) for r in replies)

    def honest(self, f: Frame) -> list[Reply]:
        match f.type:
            case frames.HELLO:
                return [(f.type, messages.encode_text(json.dumps(self.hello)))]
            case frames.HAVE:
                names = [f.payload[i : i + 32].hex() for i in range(0, len(f.payload), 32)]
                return [(f.type, b"".join(struct.pack("<Q", len(self.contents.get(n, b""))) for n in names))]
            case frames.PUT | frames.PUT_PACKED:
                return [(frames.PUT, struct.pack("<Q", self.put(f)))]
            case frames.GET:
                return [(frames.DATA, self.data(f))]
            case frames.RUN | frames.UNIT:
                return [*map(node, self.events), (frames.DONE, self.end())]
            case frames.EVENTS:
                (first,) = struct.unpack("<I", f.payload)
                return [(f.type, b"".join(node(e)[1] for e in self.events if e[0] >= first))]
        return [(f.type, f.payload)]

    def put(self, f: Frame) -> int:
        """Bytes held after a piece, which counts only where it follows those held."""
        held = self.contents.setdefault(f.payload[:32].hex(), bytearray())
        _, offset = struct.unpack_from("<QQ", f.payload, 32)
        piece = f.payload[48:] if f.type == frames.PUT else messages.read_packed(f.payload[32:])[16:]
        if offset == len(held):
            held += piece
        return len(held)

    def data(self, f: Frame, most: int = 1 << 20) -> bytes:
        name, at = messages.read_text(f.payload)
        offset, length = struct.unpack_from("<QI", f.payload, at)
        whole = self.tensors[name]
        return struct.pack("<QQ", len(whole), offset) + whole[offset : offset + min(length, most)]

    def end(self, events: int | None = None) -> bytes:
        status, text, arena, kept = self.done
        count = len(self.events) if events is None else events
        return struct.pack("<i", status) + messages.encode_text(text) + struct.pack("<QIB", arena, count, kept)


def node(event: tuple[int, int, int, str]) -> tuple[int, bytes]:
    index, iteration, digest, tensor = event
    return frames.NODE, struct.pack("<IIQQ", index, iteration, digest, 7) + messages.encode_text(tensor)


class ScriptedLink:
    """A link to a ScriptedAgent. waits: the seconds left of each read for which nothing was there; it does not wait them.
    ends: nothing more comes after so many requests (the other end has closed)."""

    piece_bytes, patience_s, packs, ahead = 1000, 4.0, False, 0

    def __init__(self, agent: ScriptedAgent, ends: int | None = None, **traits: Any):
        self.agent, self.ends, self.closed = agent, ends, 0
        self.sent, self.waits, self.reads = bytearray(), list[float](), 0
        self._reader, self._coming = FrameReader(), list[bytes]()
        for name, value in traits.items():
            setattr(self, name, value)

    def write(self, data: bytes, deadline: Deadline) -> None:
        deadline.left()
        if self.closed:
            raise LinkClosed("closed already")
        self.sent += data
        self._reader.feed(data)
        while (request := self._reader.next()) is not None:
            if self.ends != 0:
                self._coming.append(self.agent.answer(request))
            self.ends = None if self.ends is None else self.ends - (self.ends > 0)

    def read(self, deadline: Deadline) -> bytes:
        self.reads += 1
        while self._coming:
            if came := self._coming.pop(0):
                return came
        if self.ends == 0:
            return b""
        self.waits.append(deadline.left())
        raise LinkTimeout("nothing came")

    def close(self) -> None:
        self.closed += 1

    def why_closed(self) -> str:
        return "the board was unplugged"


def opened(agent: ScriptedAgent, deadline_s: float = 60.0, **traits: Any) -> Agent:
    return Agent(ScriptedLink(agent, **traits), ALL_FEATURES, deadline_s)


def kinds(agent: ScriptedAgent, but: Sequence[int] = (frames.HELLO,)) -> list[int]:
    """Types of the requests that came."""
    return [f.type for f in agent.asked if f.type not in but]


def echoes(f: Frame) -> Iterator[Reply]:
    yield f.type, f.payload


def in_turn(*handlers: Handler) -> Handler:
    """The first request is answered by the first of them, and so on; the last one answers all that follow."""
    left = list(handlers)
    return lambda f: (left.pop(0) if len(left) > 1 else left[0])(f)


def nothing(f: Frame) -> Iterator[Reply]:
    yield from ()


def says(*replies: Reply) -> Handler:
    return lambda f: iter(replies)


def damaged(f: Frame) -> Iterator[Reply]:
    whole = encode_frame(f.type, f.sequence, f.payload)
    yield whole[:-1] + bytes([whole[-1] ^ 1])


def half(f: Frame) -> Iterator[Reply]:
    yield encode_frame(f.type, f.sequence, f.payload)[:-9]


def link_of(agent: Agent) -> ScriptedLink:
    return agent._link  # type: ignore[return-value]


A, B = "a1" * 32, "b2" * 32
