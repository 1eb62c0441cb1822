"""Encodes the frames of PROTOCOL.md, and finds frames in a byte stream that may be damaged."""

from __future__ import annotations

import struct
from dataclasses import dataclass

from google_crc32c import extend as crc32c_more
from google_crc32c import value as crc32c

SYNC, VERSION, HEADER_BYTES, MAX_PAYLOAD_BYTES = b"QV", 1, 16, 1 << 20
HELLO, HAVE, PUT, RUN, NODE, DONE, UNIT, GET, DATA, PING, BYE, ERROR, EVENTS, CANCEL, AGAIN = range(1, 16)
PACKED, PUT_PACKED, NODES = range(16, 19)
MAX_BETWEEN_BYTES = 1 << 16  # kept of what arrives between frames
_HEADER, _U32 = struct.Struct("<2sBBII"), struct.Struct("<I")


@dataclass(frozen=True, slots=True)
class Frame:
    """One frame. type: the message number of PROTOCOL.md. sequence: the number of the request that it is or answers."""

    type: int
    sequence: int
    payload: bytes


def encode_frame(kind: int, sequence: int, payload: bytes) -> bytes:
    """Returns the bytes of a frame. Raises ValueError for a payload of more than 1 MiB."""
    if len(payload) > MAX_PAYLOAD_BYTES:
        raise ValueError(f"a frame of {len(payload)} bytes; at most {MAX_PAYLOAD_BYTES}")
    header = _HEADER.pack(SYNC, VERSION, kind, sequence, len(payload))
    header += _U32.pack(crc32c(header))
    return b"".join((header, payload, _U32.pack(crc32c_more(crc32c(header), payload))))


class FrameReader:
    """Finds frames in received bytes: feed() takes the bytes, next() returns the frames.

    Attributes:
        damaged: number of frames so far whose last CRC was wrong.
        skipped: number of bytes so far that belong to no frame.
        between: the last of these bytes, such as kernel messages on a console.
    """

    def __init__(self) -> None:
        self._buffer, self.damaged, self.skipped = bytearray(), 0, 0
        self.between = bytearray()

    def feed(self, data: bytes) -> None:
        """Appends received bytes."""
        self._buffer += data

    def give_up(self) -> None:
        """Gives up an incomplete frame whose rest was lost: next() then searches its bytes for other frames."""
        self._drop(min(1, len(self._buffer)))

    def next(self) -> Frame | None:
        """Returns the next complete frame, or None until more bytes arrive. If a frame is damaged, searches its bytes
        for other frames."""
        while self._find_header():
            header = bytes(self._buffer[:HEADER_BYTES])
            _, _, kind, sequence, length = _HEADER.unpack_from(header)
            end = HEADER_BYTES + length + 4
            if len(self._buffer) < end:
                return None
            with memoryview(self._buffer) as view:
                payload = bytes(view[HEADER_BYTES : HEADER_BYTES + length])
            if crc32c_more(crc32c(header), payload) == _U32.unpack_from(self._buffer, HEADER_BYTES + length)[0]:
                del self._buffer[:end]
                return Frame(kind, sequence, payload)
            self.damaged += 1
            self._drop(1)
        return None

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
                self._drop(at)
                return True
            at += 1
        self._drop(at if at >= 0 else max(0, len(self._buffer) - 1))
        return False

    def _drop(self, count: int) -> None:
        if count:
            self.skipped += count
            self.between += self._buffer[:count]
            del self.between[:-MAX_BETWEEN_BYTES]
            del self._buffer[:count]
