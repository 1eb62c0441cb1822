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

SYNC, VERSION, HEADER_BYTES, MAX_PAYLOAD_BYTES = b"QV", 1, 16, 1 << 20
HELLO, HAVE, PUT, RUN, NODE, DONE, UNIT, GET, DATA, PING, BYE, ERROR, EVENTS, CANCEL, AGAIN = range(1, 16)
REST_S = 0.4  # seconds within which the rest of a frame must arrive
MAX_TEXT_BYTES = 1023
_HEADER, _U32 = struct.Struct("<2sBBII"), struct.Struct("<I")


@dataclass(frozen=True)
class Frame:
    """The frame of one request. kind: the message number. sequence: the request's number, which its answers repeat."""

    kind: int
    sequence: int
    payload: bytes


class EndOfInput(Exception):
    """Raised if the host has closed the connection, or sent nothing for too long."""


class Wire:
    """Reads requests from one descriptor and writes answers to another. idle_s: seconds without input after which
    EndOfInput is raised, 0 for never."""

    def __init__(self, source: int, sink: int, idle_s: float = 0.0):
        self._source, self._sink, self._idle_s = source, sink, idle_s
        self._buffer = bytearray()

    def next(self) -> Frame:
        """Returns the next request. Answers a damaged one with AGAIN and searches its bytes for other frames. Raises
        EndOfInput."""
        while True:
            frame, search_again = self._take_frame()
            if frame is not None:
                return frame
            if not search_again:
                self._read_bytes()

    def _take_frame(self) -> tuple[Frame | None, bool]:
        """Returns the first complete frame of the buffer, or None and whether the buffer must be searched again at
        once."""
        if not self._find_header():
            return None, False
        header = bytes(self._buffer[:HEADER_BYTES])
        _, _, kind, sequence, length = _HEADER.unpack_from(header)
        end = HEADER_BYTES + length + 4
        if len(self._buffer) < end:
            return None, False
        payload = bytes(self._buffer[HEADER_BYTES : HEADER_BYTES + length])
        if crc32c(payload, crc32c(header)) == _U32.unpack_from(self._buffer, HEADER_BYTES + length)[0]:
            del self._buffer[:end]
            return Frame(kind, sequence, payload), False
        del self._buffer[:1]
        self.send(AGAIN, sequence, b"")
        return None, True

    def _find_header(self) -> bool:
        """Drops all bytes before the next header with a valid CRC. Returns False if none has arrived yet."""
        at = 0
        while (at := self._buffer.find(SYNC, at)) >= 0 and len(self._buffer) - at >= HEADER_BYTES:
            _, version, _, _, length = _HEADER.unpack_from(self._buffer, at)
            if (
                version == VERSION
                and length <= MAX_PAYLOAD_BYTES
                and crc32c(bytes(self._buffer[at : at + 12])) == _U32.unpack_from(self._buffer, at + 12)[0]
            ):
                del self._buffer[:at]
                return True
            at += 1
        del self._buffer[: at if at >= 0 else max(0, len(self._buffer) - 1)]
        return False

    def _read_bytes(self) -> None:
        partial = len(self._buffer) >= HEADER_BYTES
        patience = REST_S if partial else self._idle_s or None
        ready, _, _ = select.select([self._source], [], [], patience)
        if not ready and partial:
            del self._buffer[:1]  # the rest was lost
            return
        data = os.read(self._source, 1 << 18) if ready else b""
        if not data:
            raise EndOfInput
        self._buffer += data

    def send(self, kind: int, sequence: int, payload: bytes) -> None:
        """Writes one frame. Raises EndOfInput if nobody reads it."""
        header = _HEADER.pack(SYNC, VERSION, kind, sequence, len(payload))
        header += _U32.pack(crc32c(header))
        unwritten = memoryview(b"".join((header, payload, _U32.pack(crc32c(payload, crc32c(header))))))
        try:
            while unwritten:
                unwritten = unwritten[os.write(self._sink, unwritten) :]
        except OSError as error:
            raise EndOfInput from error


class Reader:
    """Reads values from a payload, one after another. Every method raises RequestError if the payload is too short."""

    def __init__(self, payload: bytes):
        self.payload, self.at = payload, 0

    def take(self, form: str) -> tuple[int, ...]:
        """Returns the next numbers, little-endian, in a format of the module struct."""
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
        """Returns the next hash (SHA-256) in hex digits."""
        return self.bytes(32).hex()

    def text(self) -> str:
        """Returns the next text."""
        (size,) = self.take("H")
        data = self.bytes(size)
        try:
            if size <= MAX_TEXT_BYTES and b"\0" not in data:
                return data.decode()
        except UnicodeDecodeError:
            pass
        raise RequestError(PROTOCOL, f"a text of {size} bytes; wanted at most {MAX_TEXT_BYTES} of UTF-8 without NUL")

    def end(self) -> None:
        """Raises RequestError if the payload has more bytes."""
        if self.at != len(self.payload):
            raise RequestError(PROTOCOL, f"a request of {len(self.payload)} bytes, wanted {self.at}")


def encode_text(value: str) -> bytes:
    """Returns the bytes of a text in a payload, cut to the permitted length."""
    data = value.replace("\0", "").encode(errors="replace")[:MAX_TEXT_BYTES]
    data = data.decode(errors="ignore").encode()
    return struct.pack("<H", len(data)) + data


def log(line: str) -> None:
    """Writes a line to standard error, which the host quotes if the agent ends unexpectedly."""
    print(f"qverify worker: {line}", file=sys.stderr, flush=True)


def monotonic_seconds() -> float:
    """Returns the time of a monotonic clock in seconds."""
    return time.monotonic()
