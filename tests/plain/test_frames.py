"""Frames: whatever is lost, flipped or inserted, a wrong frame never comes out, and the stream recovers."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from qverify_agents.protocol.frames import FrameReader, frame_bytes

FRAMES = st.lists(
    st.tuples(st.integers(1, 12), st.integers(0, 2**32 - 1), st.binary(max_size=60)), min_size=1, max_size=5
)


def read_all(data: bytes, step: int) -> list[tuple[int, int, bytes]]:
    reader, found = FrameReader(), []
    for at in range(0, len(data), step):
        reader.feed(data[at : at + step])
        while (frame := reader.next()) is not None:
            found.append((frame.type, frame.sequence, frame.payload))
    return found


@given(FRAMES, st.integers(1, 50))
def test_frames_come_out_as_they_went_in(sent, step):
    assert read_all(b"".join(frame_bytes(*f) for f in sent), step) == sent


@given(FRAMES, st.integers(0, 10**6), st.integers(0, 7), st.binary(max_size=40))
@settings(max_examples=300)
def test_damage_never_makes_a_frame_up(sent, at, bit, noise):
    data = bytearray(b"".join(frame_bytes(*f) for f in sent))
    data[at % len(data)] ^= 1 << bit
    data[at % len(data) : at % len(data)] = noise
    tail = (9, 77, b"the end")
    found = read_all(bytes(data) + frame_bytes(*tail) * 40, 64)
    assert all(f in sent or f == tail for f in found)
    assert tail in found
