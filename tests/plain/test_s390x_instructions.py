"""QEMU before 8.1 multiplies wrongly by the instruction that widens two floats and multiplies them: no shipped runtime has it."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path

import pytest

BINARIES = Path(__file__).resolve().parents[2] / "agents" / "qverify_agents" / "bin"
MDEBR, MDEB, MDBR = b"\xb3\x0c", b"\xed\x0c", b"\xb3\x1c"  # the first two widen


def opcodes(code: bytes) -> Iterator[bytes]:
    """The opcodes of two bytes, instruction by instruction; the length of each is in its first two bits."""
    at = 0
    while at < len(code):
        size = (2, 4, 4, 6)[code[at] >> 6]
        yield code[at : at + 1] + (code[at + 5 : at + 6] if size == 6 else code[at + 1 : at + 2])
        at += size


def text(elf: bytes) -> bytes:
    """The .text section of a big-endian 64-bit ELF file."""
    start, entry, count, names = (
        struct.unpack_from(f, elf, at)[0] for f, at in ((">Q", 40), (">H", 58), (">H", 60), (">H", 62))
    )
    rows = [struct.unpack_from(">IIQQQQ", elf, start + k * entry) for k in range(count)]
    of_name = {elf[rows[names][4] + r[0] :].split(b"\0", 1)[0]: elf[r[4] : r[4] + r[5]] for r in rows if r[1] == 1}
    return of_name[b".text"]


def test_the_instruction_is_found_where_it_begins_and_nowhere_else():
    within = b"\xc0\x01\xb3\x0c\x00\x00"  # LGFI with these bytes in its immediate
    assert MDEBR not in set(opcodes(within + b"\x07\x07"))
    assert list(opcodes(within + b"\xb3\x0c\x00\x02\xed\x00\x00\x00\x00\x0c"))[1:] == [MDEBR, MDEB]


@pytest.mark.parametrize("name", ["qvrt-s390x", "qvrt-faulty-s390x"])
def test_no_product_widens_by_itself(name: str):
    found = list(opcodes(text((BINARIES / name).read_bytes())))
    assert found.count(MDBR) > 30 and not {MDEBR, MDEB} & set(found)
