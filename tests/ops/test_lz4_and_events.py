"""LZ4 blocks of board and host unpack each other, hostile ones are refused; gathered events are read within bounds."""

from __future__ import annotations

import ctypes
import struct

import numpy as np
import pytest
from lz4.block import compress, decompress
from qverify_agents.errors import ProtocolError
from qverify_agents.protocol import messages

from tests.ops.runtime_library import COMPILER, library

pytestmark = pytest.mark.skipif(COMPILER is None, reason="no C compiler on this machine")
RNG = np.random.default_rng(11)
DATA = [
    b"",
    b"a",
    b"abc" * 4,
    bytes(5000),
    bytes(range(256)) * 40,
    RNG.integers(0, 256, 3000, np.uint8).tobytes(),
    np.where(RNG.random(200_000) < 0.7, 128, RNG.integers(0, 256, 200_000)).astype(np.uint8).tobytes(),
]


def pack(data: bytes) -> bytes:
    room = len(data) + len(data) // 200 + 64
    out = ctypes.create_string_buffer(room)
    size = library().qv_lz4_pack(data, ctypes.c_uint32(len(data)), out, ctypes.c_uint32(room))
    return out.raw[:size]


def unpack(block: bytes, size: int) -> bytes | None:
    out = ctypes.create_string_buffer(max(size, 1))
    good = library().qv_lz4_unpack(block, ctypes.c_uint32(len(block)), out, ctypes.c_uint32(size))
    return out.raw[:size] if good else None


@pytest.mark.parametrize("data", DATA, ids=lambda d: str(len(d)))
def test_both_ways(data):
    assert decompress(pack(data), uncompressed_size=len(data)) == data
    assert unpack(compress(data, store_size=False), len(data)) == data


def test_activations_shrink_as_they_do_elsewhere():
    assert len(pack(DATA[-1])) < len(compress(DATA[-1], store_size=False)) * 1.15


def test_hostile_blocks_are_refused_and_never_reach_beyond():
    good = compress(DATA[4], store_size=False)
    for _ in range(3000):
        block = bytearray(good[: int(RNG.integers(1, len(good) + 1))])
        for _ in range(int(RNG.integers(0, 4))):
            block[int(RNG.integers(len(block)))] = int(RNG.integers(256))
        size = int(RNG.choice([0, 1, 100, len(DATA[4]), len(DATA[4]) + 1]))
        found = unpack(bytes(block), size)
        assert found is None or len(found) == size


def test_gathered_events():
    payload = struct.pack("<II", 5, 0) + struct.pack("<IQI", 1, 7, 1234) + struct.pack("<IQI", 0, 8, 1)
    (first, a), (second, b) = messages.read_events(payload, ["x", "y"])
    assert (first, second, a.tensor, b.tensor, a.digest, a.elapsed_ns) == (5, 6, "y", "x", f"{7:016x}", 1_234_000)
    for bad in (payload[:-1], payload[:4], struct.pack("<II", 0, 0) + struct.pack("<IQI", 2, 0, 0)):
        with pytest.raises(ProtocolError):
            messages.read_events(bad, ["x", "y"])


@pytest.mark.parametrize(
    "bad", [b"", bytes(19), bytes(16) + struct.pack("<I", 1 << 30), bytes(16) + struct.pack("<I", 9) + b"\xff" * 7]
)
def test_packed_that_is_not(bad):
    with pytest.raises(ProtocolError):
        messages.read_packed(bad)
