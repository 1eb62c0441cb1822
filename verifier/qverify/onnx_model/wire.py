"""Fields of serialized protobuf messages, found without parsing what is in them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from google.protobuf.message import DecodeError

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5  # wire types
MAX_VARINT_BYTES = 10


@dataclass(frozen=True, slots=True)
class Field:
    """A field of a message. number: its number in the schema. start: offset of its tag. at, end: offsets of its value."""

    number: int
    wire_type: int
    start: int
    at: int
    end: int


def fields(data: memoryview, at: int, end: int) -> Iterator[Field]:
    """Yields the fields of the message that `data` has between these offsets. Raises DecodeError if they are none."""
    while at < end:
        start = at
        tag, at = _varint(data, at, end)
        kind = tag & 7
        if kind == VARINT:
            _, last = _varint(data, at, end)
        elif kind in (FIXED64, FIXED32):
            last = at + (8 if kind == FIXED64 else 4)
        elif kind == BYTES:
            size, at = _varint(data, at, end)
            last = at + size
        else:
            raise DecodeError(f"wire type {kind} at {start}")
        if last > end or not tag >> 3:
            raise DecodeError(f"field at {start} ends behind its message")
        yield Field(tag >> 3, kind, start, at, last)
        at = last


def header(number: int, size: int) -> bytes:
    """Returns the tag and the length of a field of bytes."""
    return _encoded(number << 3 | BYTES) + _encoded(size)


def _varint(data: memoryview, at: int, end: int) -> tuple[int, int]:
    """Returns the number at this offset, and the offset behind it."""
    number = 0
    for shift in range(MAX_VARINT_BYTES):
        if at >= end:
            break
        byte = data[at]
        number |= (byte & 127) << 7 * shift
        at += 1
        if byte < 128:
            return number, at
    raise DecodeError("number without end")


def _encoded(number: int) -> bytes:
    encoded = bytearray()
    while number > 127:
        encoded.append(number & 127 | 128)
        number >>= 7
    return bytes([*encoded, number])
