"""Frames of PROTOCOL.md: made, and found in a stream that may be damaged."""

from __future__ import annotations

import struct
from dataclasses import dataclass

from google_crc32c import value as crc32c

SYNC, VERSION, HEADER, MAX_PAYLOAD = b"QV", 1, 16, 1 << 20
HELLO, HAVE, PUT, RUN, NODE, DONE, UNIT, GET, DATA, PING, BYE, ERROR = range(1, 13)


@dataclass(frozen=True, slots=True)
class Frame:
    type: int
    sequence: int
    payload: bytes


def frame_bytes(kind: int, sequence: int, payload: bytes) -> bytes:
    """ValueError for a payload beyond 1 MiB."""
    if len(payload) > MAX_PAYLOAD:
        raise ValueError(f"a frame of {len(payload)} bytes; at most {MAX_PAYLOAD}")
    head = struct.pack("<2sBBII", SYNC, VERSION, kind, sequence, len(payload))
    return head + struct.pack("<I", crc32c(head)) + payload + struct.pack("<I", crc32c(payload))


class FrameReader:
    """feed() bytes, next() frames. damaged: payloads dropped because their CRC failed; skipped: bytes that were no frame."""

    def __init__(self) -> None:
        self._buffer, self.damaged, self.skipped = bytearray(), 0, 0

    def feed(self, data: bytes) -> None:
        self._buffer += data

    def next(self) -> Frame | None:
        """The next whole frame, or None until more bytes come."""
        while True:
            at = self._buffer.find(SYNC)
            if at < 0:
                at = max(0, len(self._buffer) - 1)
                self._drop(at)
                return None
            self._drop(at)
            if len(self._buffer) < HEADER:
                return None
            head = bytes(self._buffer[:HEADER])
            _, version, kind, sequence, length, crc = struct.unpack("<2sBBIII", head)
            if version != VERSION or length > MAX_PAYLOAD or crc32c(head[:12]) != crc:
                self._drop(1)
                continue
            end = HEADER + length + 4
            if len(self._buffer) < end:
                return None
            payload = bytes(self._buffer[HEADER : HEADER + length])
            good = crc32c(payload) == struct.unpack_from("<I", self._buffer, HEADER + length)[0]
            del self._buffer[:end]
            if good:
                return Frame(kind, sequence, payload)
            self.damaged += 1

    def _drop(self, count: int) -> None:
        self.skipped += count
        del self._buffer[:count]
