"""Frames: no damage ever yields a frame that was not sent, and the reader finds its way back."""

from __future__ import annotations

import json
import struct
from pathlib import Path

import pytest
from google_crc32c import value as crc32c
from hypothesis import given, settings
from hypothesis import strategies as st
from qverify_agents.errors import ProtocolError
from qverify_agents.protocol import messages
from qverify_agents.protocol.frames import PING, Frame, FrameReader, encode_frame

VECTORS = json.loads((Path(__file__).parent / "frame_vectors.json").read_text())
FRAMES = st.lists(
    st.tuples(st.integers(1, 15), st.integers(0, 2**32 - 1), st.binary(max_size=120)), min_size=1, max_size=6
)
# kind of damage, place (0..1 of the stream), amount
DAMAGE = st.lists(
    st.tuples(st.sampled_from(["flip", "lose", "insert", "repeat"]), st.floats(0, 1), st.integers(1, 60)), max_size=5
)


def read_all(stream: bytes, step: int) -> list[Frame]:
    reader, found = FrameReader(), []
    for at in range(0, len(stream), step):
        reader.feed(stream[at : at + step])
        while (frame := reader.next()) is not None:
            found.append(frame)
    for _ in range(len(stream)):
        reader.give_up()
        while (frame := reader.next()) is not None:
            found.append(frame)
    return found


def damaged(stream: bytes, damage: list[tuple[str, float, int]]) -> bytes:
    for kind, place, amount in damage:
        at = min(int(place * len(stream)), max(0, len(stream) - 1))
        if kind == "flip" and stream:
            stream = stream[:at] + bytes([stream[at] ^ 1 << amount % 8]) + stream[at + 1 :]
        elif kind == "lose":
            stream = stream[:at] + stream[at + amount :]
        elif kind == "insert":
            stream = stream[:at] + (b"QV\1\x05" * 20)[:amount] + stream[at:]
        elif kind == "repeat":
            stream = stream[: at + amount] + stream[at:]
    return stream


@settings(max_examples=300, deadline=None)
@given(FRAMES, DAMAGE, st.integers(1, 200))
def test_damage_never_yields_a_wrong_frame(
    sent: list[tuple[int, int, bytes]], damage: list[tuple[str, float, int]], step: int
) -> None:
    stream = b"".join(encode_frame(*f) for f in sent)
    found = read_all(damaged(stream, damage), step)
    assert {(f.type, f.sequence, f.payload) for f in found} <= set(sent)


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=300), FRAMES, st.integers(1, 200))
def test_frames_after_junk_are_found(junk: bytes, sent: list[tuple[int, int, bytes]], step: int) -> None:
    found = read_all(junk + b"".join(encode_frame(*f) for f in sent), step)
    assert [(f.type, f.sequence, f.payload) for f in found][-len(sent) :] == sent


@settings(max_examples=100, deadline=None)
@given(st.binary(min_size=30, max_size=300), st.data())
def test_a_frame_that_lost_bytes_does_not_swallow_the_next(payload: bytes, data: st.DataObject) -> None:
    first, second = encode_frame(3, 1, payload), encode_frame(3, 2, payload)
    at = data.draw(st.integers(16, len(first) - 2))
    found = read_all(first[:at] + first[at + 1 :] + second, 64)
    assert [f.sequence for f in found if f.payload == payload][-1] == 2


@pytest.mark.parametrize("vector", VECTORS, ids=lambda v: str(v["sequence"]))
def test_vectors(vector: dict[str, object]) -> None:
    stream, payload = bytes.fromhex(str(vector["frame"])), bytes.fromhex(str(vector["payload"]))
    assert isinstance(vector["sequence"], int)
    assert encode_frame(PING, vector["sequence"], payload) == stream
    assert read_all(stream, 3) == [Frame(PING, vector["sequence"], payload)]


def test_the_longest_frame() -> None:
    payload = bytes(1_048_576)  # PROTOCOL.md, "Frame"
    assert read_all(encode_frame(3, 9, payload), 65536)[0].payload == payload
    with pytest.raises(ValueError, match="at most"):
        encode_frame(3, 9, payload + b"\0")


def test_what_stood_between_frames_is_kept_to_its_last_64_kib() -> None:
    reader, junk = FrameReader(), bytes(range(256)) * 300
    reader.feed(junk + encode_frame(PING, 7, b"x"))
    assert reader.next() == Frame(PING, 7, b"x")
    assert reader.between == junk[-65536:] and (reader.skipped, reader.damaged) == (len(junk), 0)


def test_of_a_damaged_frame_only_the_first_byte_is_dropped() -> None:
    """The rest may hold frames that bytes lost on the way had merged with it."""
    inner = encode_frame(PING, 7, b"x")
    outer = bytearray(encode_frame(PING, 6, b"Q" + inner))
    outer[-1] ^= 1
    reader = FrameReader()
    reader.feed(bytes(outer))
    assert reader.next() == Frame(PING, 7, b"x") and (reader.damaged, reader.skipped) == (1, 17)
    half = FrameReader()
    half.feed(b"QV")
    half.give_up()
    assert half.skipped == 1 and half.between == b"Q"
    half.feed(inner[:-1])
    assert half.next() is None
    for _ in range(len(inner) + 1):
        half.give_up()
    assert half.between == b"QV" + inner[:-1] and half.next() is None


@pytest.mark.parametrize(("version", "length"), [(2, 1), (0, 1), (1, 1_048_577)])
def test_a_header_of_another_version_or_too_long_is_none(version: int, length: int) -> None:
    """Though its own CRC holds."""
    head = struct.pack("<2sBBII", b"QV", version, PING, 5, length)
    reader = FrameReader()
    reader.feed(head + struct.pack("<I", crc32c(head)) + b"x" * 9 + encode_frame(PING, 7, b"x"))
    assert reader.next() == Frame(PING, 7, b"x")
    assert reader.next() is None and reader.damaged == 0 and reader.skipped == 25


@settings(max_examples=300, deadline=None)
@given(st.binary(max_size=80))
def test_payloads_are_read_within_their_bounds(payload: bytes) -> None:
    for read in (messages.read_hello, messages.read_error, messages.read_event, messages.read_done, messages.read_text):
        try:
            read(payload)
        except ProtocolError as error:
            assert "\n" not in str(error)
