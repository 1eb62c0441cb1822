"""The container of model.bin: each rule of its header and its section table, broken behind good checksums (FORMAT.md)."""

from __future__ import annotations

import struct

import pytest
from google_crc32c import value as crc32c
from qverify.errors import BadFileError
from qverify.model_bin.container import KINDS, pack, pack_pieces, unpack

SECTIONS = {kind: bytes(range(10 + i)) for i, kind in enumerate(KINDS)}
START = 64 + 8 * 32  # of the first section


def sealed(data: bytes | bytearray) -> bytes:
    """The same with the header's own CRC made right."""
    data = bytes(data)
    return data[:12] + struct.pack("<I", crc32c(data[:12] + bytes(4) + data[16:START])) + data[16:]


def changed(layout: str, at: int, value: int | bytes) -> bytes:
    data = bytearray(pack(SECTIONS))
    struct.pack_into(layout, data, at, value)
    return sealed(data)


def refused(data: bytes, message: str) -> None:
    with pytest.raises(BadFileError, match=message):
        unpack(data)


def test_sections_come_back() -> None:
    assert {k: bytes(v) for k, v in unpack(pack(SECTIONS)).items()} == SECTIONS
    aligned = {kind: bytes([i]) * 64 * (i % 3) for i, kind in enumerate(KINDS)}  # nothing between some of them
    assert {k: bytes(v) for k, v in unpack(pack(aligned)).items()} == aligned
    assert len(pack(aligned)) == START + 64 * (0 + 1 + 2 + 0 + 1 + 2 + 0 + 1)


@pytest.mark.parametrize(
    ("layout", "at", "value", "message"),
    [
        ("<8s", 0, b"QVMODEM\0", "not a model.bin: it starts with"),
        ("<I", 8, 2, "format version 2; this qverify reads 1"),
        ("<Q", 16, 10**6, "its header says 1000000"),
        ("<I", 24, 7, "7 sections, wanted 8, and 36 zero"),
        ("<B", 28, 1, "and 36 zero bytes"),
        ("<B", 63, 1, "and 36 zero bytes"),
    ],
)
def test_a_header_that_breaks_a_rule(layout: str, at: int, value: int | bytes, message: str) -> None:
    refused(changed(layout, at, value), message)


@pytest.mark.parametrize("index", [0, 1, 7])
@pytest.mark.parametrize(
    ("layout", "at", "value", "message"),
    [
        ("<4s", 0, b"XXXX", "its table entry has kind b'XXXX'"),
        ("<I", 4, 0, "CRC-32C differs"),
        ("<Q", 8, START + 64 * 20, "its table entry has"),
        ("<Q", 16, 10**6, "its table entry has"),
        ("<Q", 24, 1, "its table entry has"),
    ],
)
def test_an_entry_that_breaks_a_rule(index: int, layout: str, at: int, value: int | bytes, message: str) -> None:
    name = KINDS[index].decode()
    refused(changed(layout, 64 + 32 * index + at, value), f"section {name}: {message}")


def test_the_header_has_a_checksum() -> None:
    data = bytearray(pack(SECTIONS))
    data[12] ^= 1
    refused(bytes(data), "header: CRC-32C differs")


def test_a_header_cut_short() -> None:
    whole = pack(SECTIONS)
    refused(whole[: START - 1], f"{START - 1} bytes, the header alone needs {START}")
    refused(whole[:START], "truncated or grown")
    refused(whole[:7], "not a model.bin")


def test_bytes_between_sections_are_zero() -> None:
    """The first and the last byte between two, and nothing behind the last section."""
    whole = pack(SECTIONS)
    for at in (START + 10, START + 63):
        refused(whole[:at] + b"\1" + whole[at + 1 :], "section GRPH: bytes after it are not zero")
    grown = bytearray(whole + b"\1")
    struct.pack_into("<Q", grown, 16, len(grown))
    refused(sealed(grown), "section META: bytes after it are not zero")


def test_a_section_whose_padding_is_missing() -> None:
    """DATA ends with the file; META, which is empty, would begin behind its end."""
    whole = bytearray(pack({**SECTIONS, b"META": b""}))
    _, _, offset, size, _ = struct.unpack_from("<4sIQQQ", whole, 64 + 32 * 6)
    short = whole[: offset + size]
    struct.pack_into("<Q", short, 16, len(short))
    refused(sealed(short), "section DATA: bytes after it are not zero")


def test_a_file_beyond_a_tebibyte_is_never_made() -> None:
    """Nothing of it is touched: the same bytes, many times."""
    part = memoryview(bytes(2**20))
    with pytest.raises(
        BadFileError, match=r"model\.bin would be 1099511628497 bytes; it may have at most 1099511627776"
    ):
        pack_pieces({**{kind: [data] for kind, data in SECTIONS.items()}, b"DATA": [part] * 2**20})
