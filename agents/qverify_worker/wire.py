"""Frames of PROTOCOL.md over two file descriptors, and the values within payloads."""

from __future__ import annotations

import os
import select
import struct
import sys
import time
from dataclasses import dataclass

from qverify_worker.checksums import crc32c
from qverify_worker.errors import PROTOCOL, RequestError

SYNC, VERSION, HEADER, MOST = b"QV", 1, 16, 1 << 20
HELLO, HAVE, PUT, RUN, NODE, DONE, UNIT, GET, DATA, PING, BYE, ERROR, EVENTS, CANCEL, AGAIN = range(1, 16)
REST_S = 0.4  # within which the rest of a frame arrives
LONGEST_TEXT = 1023
_HEAD, _U32 = struct.Struct("<2sBBII"), struct.Struct("<I")


@dataclass(frozen=True)
class Frame:
    """One request. kind: a message number. sequence: its number, which the answers carry, too."""

    kind: int
    sequence: int
    payload: bytes


class EndOfInput(Exception):
    """Raised where the host closed the connection, or sent nothing for too long."""


class Wire:
    """Reads requests and writes answers. idle_s: EndOfInput is raised where nothing comes for so long; 0: never."""

    def __init__(self, source: int, sink: int, idle_s: float = 0.0):
        self._source, self._sink, self._idle_s = source, sink, idle_s
        self._buffer = bytearray()

    def next(self) -> Frame:
        """Returns the next request. A damaged one is answered with AGAIN, and its bytes are searched for others. Raises
        EndOfInput."""
        while True:
            frame, whole = self._parse()
            if frame is not None:
                return frame
            if not whole:
                self._receive()

    def _parse(self) -> tuple[Frame | None, bool]:
        """Returns a frame, and whether the buffer is to be searched again."""
        if not self._find_header():
            return None, False
        head = bytes(self._buffer[:HEADER])
        _, _, kind, sequence, length = _HEAD.unpack_from(head)
        end = HEADER + length + 4
        if len(self._buffer) < end:
            return None, False
        payload = bytes(self._buffer[HEADER : HEADER + length])
        if crc32c(payload, crc32c(head)) == _U32.unpack_from(self._buffer, HEADER + length)[0]:
            del self._buffer[:end]
            return Frame(kind, sequence, payload), False
        del self._buffer[:1]
        self.send(AGAIN, sequence, b"")
        return None, True

    def _find_header(self) -> bool:
        at = 0
        while (at := self._buffer.find(SYNC, at)) >= 0 and len(self._buffer) - at >= HEADER:
            _, version, _, _, length = _HEAD.unpack_from(self._buffer, at)
            if (
                version == VERSION
                and length <= MOST
                and crc32c(bytes(self._buffer[at : at + 12])) == _U32.unpack_from(self._buffer, at + 12)[0]
            ):
                del self._buffer[:at]
                return True
            at += 1
        del self._buffer[: at if at >= 0 else max(0, len(self._buffer) - 1)]
        return False

    def _receive(self) -> None:
        partial = len(self._buffer) >= HEADER
        patience = REST_S if partial else self._idle_s or None
        ready, _, _ = select.select([self._source], [], [], patience)
        if not ready and partial:
            del self._buffer[:1]  # the rest was lost
            return
        data = os.read(self._source, 1 << 18) if ready else b""
        if not data:
            raise EndOfInput
        self._buffer += data

    def waiting(self) -> bool:
        """Returns whether something was received, or the host closed the connection."""
        return bool(self._buffer) or bool(select.select([self._source], [], [], 0)[0])

    def send(self, kind: int, sequence: int, payload: bytes) -> None:
        """Writes one frame. Raises EndOfInput where nobody reads."""
        head = _HEAD.pack(SYNC, VERSION, kind, sequence, len(payload))
        head += _U32.pack(crc32c(head))
        left = memoryview(b"".join((head, payload, _U32.pack(crc32c(payload, crc32c(head))))))
        try:
            while left:
                left = left[os.write(self._sink, left) :]
        except OSError as error:
            raise EndOfInput from error


class Reader:
    """Takes values from a payload. Each raises RequestError where the payload is too short."""

    def __init__(self, payload: bytes):
        self.payload, self.at = payload, 0

    def take(self, form: str) -> tuple[int, ...]:
        """Returns numbers of a struct format, little-endian."""
        size = struct.calcsize("<" + form)
        return struct.unpack("<" + form, self.bytes(size))

    def bytes(self, size: int) -> bytes:
        """Returns the next `size` bytes."""
        end = self.at + size
        if end > len(self.payload):
            raise RequestError(PROTOCOL, f"a request of {len(self.payload)} bytes, wanted at least {end}")
        start, self.at = self.at, end
        return self.payload[start:end]

    def hash(self) -> str:
        """Returns a content's SHA-256 as hex digits."""
        return self.bytes(32).hex()

    def text(self) -> str:
        """Returns a text."""
        (size,) = self.take("H")
        data = self.bytes(size)
        try:
            if size <= LONGEST_TEXT and b"\0" not in data:
                return data.decode()
        except UnicodeDecodeError:
            pass
        raise RequestError(PROTOCOL, f"a text of {size} bytes; wanted at most {LONGEST_TEXT} of UTF-8 without NUL")

    def end(self) -> None:
        """Raises RequestError where anything follows."""
        if self.at != len(self.payload):
            raise RequestError(PROTOCOL, f"a request of {len(self.payload)} bytes, wanted {self.at}")


def text(value: str) -> bytes:
    """Returns a text as payload bytes, cut to the longest that is allowed."""
    data = value.replace("\0", "").encode(errors="replace")[:LONGEST_TEXT]
    data = data.decode(errors="ignore").encode()
    return struct.pack("<H", len(data)) + data


def log(line: str) -> None:
    """Writes a line to stderr, which the host quotes where the agent ends unexpectedly."""
    print(f"qverify worker: {line}", file=sys.stderr, flush=True)


def seconds() -> float:
    """Returns the time of a clock that never goes back."""
    return time.monotonic()
