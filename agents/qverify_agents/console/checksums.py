"""Computes the checksums that programs of a board (cksum, md5sum ...) print."""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Callable


def cksum(data: bytes) -> int:
    """Returns the checksum of POSIX cksum: the CRC-32 (polynomial 04C11DB7, most significant bit first) of the bytes
    followed by their number."""
    length, length_bytes = len(data), bytearray()
    while length:
        length_bytes.append(length & 255)
        length >>= 8
    return _forward_crc(bytes(data) + bytes(length_bytes))


_MIRROR = bytes(int(f"{i:08b}"[::-1], 2) for i in range(256))


def _forward_crc(data: bytes) -> int:
    """Returns the CRC of cksum, computed with zlib. zlib's CRC mirrors the bits of every byte and of the result and,
    unlike that of cksum, starts with all bits set."""
    crc = zlib.crc32(data.translate(_MIRROR), 0xFFFFFFFF) ^ 0xFFFFFFFF
    return int(f"{crc:032b}"[::-1], 2) ^ 0xFFFFFFFF


CHECKERS: dict[str, Callable[[bytes], str]] = {
    "cksum": lambda data: f"{cksum(data)} {len(data)}",
    "md5sum": lambda data: hashlib.md5(data, usedforsecurity=False).hexdigest(),
    "sha256sum": lambda data: hashlib.sha256(data).hexdigest(),
    "sha1sum": lambda data: hashlib.sha1(data, usedforsecurity=False).hexdigest(),
}
