"""Packs and unpacks the sections of a model.bin: header, table, alignment, CRC-32C (normative: board_runtime/FORMAT.md,
"Container")."""

from __future__ import annotations

import struct

from google_crc32c import extend
from google_crc32c import value as crc32c

from qverify.errors import BadFileError

MAGIC, VERSION = b"QVMODEL\0", 1
KINDS = (b"GRPH", b"STRS", b"TNSR", b"NODE", b"WORD", b"SCAL", b"DATA", b"META")
HEADER, ENTRY, ALIGN = 64, 32, 64
START = HEADER + ENTRY * len(KINDS)  # offset of the first section, a multiple of ALIGN
MAX_BYTES = 2**40
CRC_BYTES = 1 << 16  # bytes that are added to a CRC at once
Piece = bytes | memoryview


def _round_up(size: int) -> int:
    return -(-size // ALIGN) * ALIGN


def pack(sections: dict[bytes, bytes]) -> bytes:
    """Returns the bytes of the whole file. sections: the content of each section, by kind. Raises BadFileError if the
    file would be larger than MAX_BYTES."""
    return b"".join(pack_pieces({kind: [data] for kind, data in sections.items()}))


def pack_pieces(sections: dict[bytes, list[Piece]]) -> list[Piece]:
    """Returns the bytes of the whole file in pieces. sections: the pieces of each section, by kind. Raises BadFileError
    if the file would be larger than MAX_BYTES."""
    at, table = START, b""
    last = len(KINDS) - 1
    sizes = {kind: sum(map(len, sections[kind])) for kind in KINDS}
    total = at + sum(_round_up(sizes[kind]) for kind in KINDS[:last]) + sizes[KINDS[last]]
    if total > MAX_BYTES:
        raise BadFileError(f"model.bin would be {total} bytes; it may have at most {MAX_BYTES}. Cut the model in two")
    body: list[Piece] = []
    for i, kind in enumerate(KINDS):
        table += struct.pack("<4sIQQQ", kind, _compute_crc(sections[kind]), at, sizes[kind], 0)
        size = _round_up(sizes[kind]) if i < last else sizes[kind]
        body += [*sections[kind], bytes(size - sizes[kind])]
        at += size
    head = struct.pack("<8sIIQI36x", MAGIC, VERSION, 0, total, len(KINDS))
    crc = crc32c(head + table)
    head = struct.pack("<8sIIQI36x", MAGIC, VERSION, crc, total, len(KINDS))
    return [head + table, *body]


def _compute_crc(pieces: list[Piece]) -> int:
    """Returns the CRC-32C of the concatenated pieces."""
    crc = 0
    for piece in pieces:
        for at in range(0, len(piece), CRC_BYTES):  # in parts, which are copied: the library takes bytes, not views
            crc = extend(crc, bytes(piece[at : at + CRC_BYTES]))
    return crc


def unpack(data: Piece) -> dict[bytes, memoryview]:
    """Returns the sections by kind. Raises BadFileError naming the first rule that the file violates."""
    if data[:8] != MAGIC:
        raise BadFileError(f"not a model.bin: it starts with {bytes(data[:8])!r}, wanted {MAGIC!r}")
    if len(data) < START:
        raise BadFileError(f"model.bin is truncated: {len(data)} bytes, the header alone needs {START}")
    version, crc, size, count = struct.unpack_from("<IIQI", data, 8)
    if version != VERSION:
        raise BadFileError(f"model.bin has format version {version}; this qverify reads {VERSION}. Compile it again")
    if size != len(data):
        raise BadFileError(f"model.bin is truncated or grown: {len(data)} bytes, its header says {size}")
    if count != len(KINDS) or any(data[28:64]):
        raise BadFileError(f"model.bin header: {count} sections, wanted {len(KINDS)}, and 36 zero bytes")
    if crc32c(bytes(data[:12]) + bytes(4) + bytes(data[16:START])) != crc:
        raise BadFileError("model.bin header: CRC-32C differs; the file is damaged")
    return {kind: _read_section(data, i, kind) for i, kind in enumerate(KINDS)}


def _read_section(data: Piece, index: int, wanted: bytes) -> memoryview:
    kind, crc, offset, size, zero = struct.unpack_from("<4sIQQQ", data, HEADER + ENTRY * index)
    expected = START
    if index:
        before, before_size = struct.unpack_from("<QQ", data, HEADER + ENTRY * (index - 1) + 8)
        expected = _round_up(before + before_size)
    name = wanted.decode()
    if kind != wanted or zero or offset != expected or offset + size > len(data):
        raise BadFileError(
            f"model.bin section {name}: its table entry has kind {kind!r}, offset {offset}, size {size}; wanted kind {wanted!r}, offset {expected}, all within {len(data)} bytes"
        )
    end = len(data) if index == len(KINDS) - 1 else _round_up(offset + size)
    if end > len(data) or any(data[offset + size : end]):
        raise BadFileError(f"model.bin section {name}: bytes after it are not zero")
    view = memoryview(data)[offset : offset + size]
    if _compute_crc([view]) != crc:
        raise BadFileError(f"model.bin section {name}: CRC-32C differs; the file is damaged")
    return view
