"""Encodes frames of PROTOCOL.md, and finds them in a stream that may be damaged."""

from __future__ import annotations

import struct
from dataclasses import dataclass

from google_crc32c import extend as crc32c_more
from google_crc32c import value as crc32c

SYNC, VERSION, HEADER, MAX_PAYLOAD = b"QV", 1, 16, 1 << 20
HELLO, HAVE, PUT, RUN, NODE, DONE, UNIT, GET, DATA, PING, BYE, ERROR, EVENTS, CANCEL, AGAIN = range(1, 16)
PACKED, PUT_PACKED, NODES = range(16, 19)
BETWEEN = 1 << 16
_HEAD, _U32 = struct.Struct("<2sBBII"), struct.Struct("<I")


@dataclass(frozen=True, slots=True)
class Frame:
    """One frame. type: one of the message numbers of PROTOCOL.md."""

    type: int
    sequence: int
    payload: bytes


def frame_bytes(kind: int, sequence: int, payload: bytes) -> bytes:
    """Returns the bytes of a frame. Raises ValueError for a payload beyond 1 MiB."""
    if len(payload) > MAX_PAYLOAD:
        raise ValueError(f"a frame of {len(payload)} bytes; at most {MAX_PAYLOAD}")
    head = _HEAD.pack(SYNC, VERSION, kind, sequence, len(payload))
    head += _U32.pack(crc32c(head))
    return b"".join((head, payload, _U32.pack(crc32c_more(crc32c(head), payload))))


class FrameReader:
    """Finds frames: feed() takes bytes, next() returns frames. damaged: number of frames whose payload failed its CRC;
    skipped: number of bytes outside frames."""

    def __init__(self) -> None:
        self._buffer, self.damaged, self.skipped = bytearray(), 0, 0
        self.between = bytearray()  # the last bytes between frames: kernel messages on a console

    def feed(self, data: bytes) -> None:
        """Appends received bytes."""
        self._buffer += data

    def give_up(self) -> None:
        """Gives up an incomplete frame, whose rest will not come, and searches its bytes for frames."""
        self._drop(min(1, len(self._buffer)))

    def next(self) -> Frame | None:
        """Returns the next complete frame, or None until more bytes come. Searches the bytes of a damaged frame for
        frames."""
        while self._find_header():
            head = bytes(self._buffer[:HEADER])
            _, _, kind, sequence, length = _HEAD.unpack_from(head)
            end = HEADER + length + 4
            if len(self._buffer) < end:
                return None
            with memoryview(self._buffer) as view:
                payload = bytes(view[HEADER : HEADER + length])
            if crc32c_more(crc32c(head), payload) == _U32.unpack_from(self._buffer, HEADER + length)[0]:
                del self._buffer[:end]
                return Frame(kind, sequence, payload)
            self.damaged += 1
            self._drop(1)
        return None

    def _find_header(self) -> bool:
        """Drops the bytes before a header with a valid CRC; returns False if there is none yet."""
        at = 0
        while (at := self._buffer.find(SYNC, at)) >= 0 and len(self._buffer) - at >= HEADER:
            _, version, _, _, length = _HEAD.unpack_from(self._buffer, at)
            if (
                version == VERSION
                and length <= MAX_PAYLOAD
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
            del self.between[:-BETWEEN]
            del self._buffer[:count]
