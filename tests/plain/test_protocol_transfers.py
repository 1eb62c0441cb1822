"""Contents sent and resumed, values got in pieces (PROTOCOL.md); and an agent that says what cannot be."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from qverify_agents.errors import AgentError, ProtocolError
from qverify_agents.protocol import frames, messages
from qverify_agents.protocol.frames import Frame

from tests.plain.scripted_agent import A, B, Reply, ScriptedAgent, opened

DATA = bytes(i * 7 % 251 for i in range(95))


def pieces(script: ScriptedAgent) -> list[tuple[int, int, int]]:
    """Returns, for every PUT and PUT_PACKED, type, offset, and bytes of payload behind the offset."""
    asked = [f for f in script.asked if f.type in (frames.PUT, frames.PUT_PACKED)]
    return [(f.type, struct.unpack_from("<Q", f.payload, 40)[0], len(f.payload) - 48) for f in asked]


def test_what_a_board_holds() -> None:
    script = ScriptedAgent()
    script.contents[A] = bytearray(9)
    with opened(script) as agent:
        assert agent.have([A, B]) == {A: 9, B: 0} and agent.have([]) == {}
        for answer in (b"", bytes(7), bytes(16)):
            script.handlers[frames.HAVE] = lambda f, answer=answer: iter([(f.type, answer)])
            with pytest.raises(ProtocolError, match=f"HAVE: the answer has {len(answer)} bytes, wanted 8"):
                agent.have([A])


@settings(deadline=None)
@given(st.binary(max_size=120), st.integers(0, 130), st.integers(1, 50), st.sampled_from([0, 1, 3]))
def test_a_content_arrives_whole(data: bytes, held: int, piece: int, ahead: int) -> None:
    script, progress = ScriptedAgent(), list[tuple[int, int]]()
    held = min(held, len(data))
    script.contents[A] = bytearray(data[:held])
    with opened(script, piece_bytes=piece, ahead=ahead) as agent:
        agent.put(A, data, lambda at, whole: progress.append((at, whole)))
        assert agent.counters["cached_bytes"] == held
    assert script.contents[A] == data
    ends = [min(at + piece, len(data)) for at in range(held, max(len(data), 1), piece)]
    assert progress == [(end, len(data)) for end in ends]


def test_pieces_follow_one_another() -> None:
    script = ScriptedAgent()
    script.contents[A] = bytearray(DATA[:30])
    with opened(script, piece_bytes=20) as agent:
        agent.put(A, DATA)
        agent.put(A, DATA)
    wanted = [(frames.PUT, at, min(20, 95 - at)) for at in range(30, 95, 20)]
    assert pieces(script) == wanted  # and none of what is there already
    assert all(struct.unpack_from("<Q", f.payload, 32) == (95,) for f in script.asked if f.type == frames.PUT)


@pytest.mark.parametrize(
    ("packs", "offered", "ahead", "wanted"),
    [
        (True, "lz4", 0, [frames.PUT_PACKED, frames.PUT, frames.PUT_PACKED]),
        (True, "lz4", 1, [frames.PUT_PACKED, frames.PUT, frames.PUT]),
        (True, None, 0, [frames.PUT] * 3),
        (True, "zip", 0, [frames.PUT] * 3),
        (False, "lz4", 0, [frames.PUT] * 3),
    ],
)
def test_pieces_are_packed_where_that_pays(packs: bool, offered: str | None, ahead: int, wanted: list[int]) -> None:
    """Only over a slow link; where requests go ahead no longer than it makes them smaller."""
    script = ScriptedAgent(hello={"packs": offered})
    data = bytes(200) + bytes(range(200)) + bytes(200)
    with opened(script, packs=packs, ahead=ahead, piece_bytes=200) as agent:
        agent.put(A, data)
    assert script.contents[A] == data and [kind for kind, *_ in pieces(script)] == wanted


def test_a_content_that_went_bad_is_sent_anew_once() -> None:
    script = ScriptedAgent()
    script.contents[A] = bytearray(b"?" * 50)

    def refuse(f: Frame) -> Iterator[Reply]:
        script.contents.pop(A)
        script.handlers.pop(frames.PUT)
        yield frames.ERROR, struct.pack("<i", -3) + messages.encode_text("damaged")

    script.handlers[frames.PUT] = refuse
    with opened(script, piece_bytes=60) as agent:
        agent.put(A, DATA)
        assert agent.counters["cached_bytes"] == 0
    assert script.contents[A] == DATA and [at for _, at, _ in pieces(script)] == [50, 0, 60]


@pytest.mark.parametrize(("status", "held"), [(-12, 50), (-3, 0)])
def test_an_error_that_sending_anew_does_not_mend(status: int, held: int) -> None:
    script = ScriptedAgent()
    script.contents[A] = bytearray(held)
    script.handlers[frames.PUT] = lambda f: iter(
        [(frames.ERROR, struct.pack("<i", status) + messages.encode_text("no"))]
    )
    with opened(script, piece_bytes=100) as agent, pytest.raises(AgentError) as caught:
        agent.put(A, DATA)
    assert caught.value.status == status and len(pieces(script)) == 1


def holds(*counts: int) -> Any:
    """Answers PUT with these numbers of bytes, the last one for ever."""
    left = list(counts)
    return lambda f: iter([(frames.PUT, struct.pack("<Q", left.pop(0) if len(left) > 1 else left[0]))])


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (holds(96), "PUT: the board answered 96 of 95 bytes after the piece at 0"),
        (holds(20, 2**63), r"answered 9223372036854775808 of 95 bytes after the piece at 20"),
        (lambda f: iter([(frames.PUT, b"")]), "PUT: the board answered -1 of 95 bytes after the piece at 0"),
        (lambda f: iter([(frames.PUT, bytes(9))]), "PUT: the board answered -1 of 95"),
        (holds(20), "PUT: the board has 20 of 95 bytes and accepts no more"),
        (holds(0), "PUT: the board has 0 of 95 bytes and accepts no more"),
    ],
)
def test_a_board_that_holds_what_it_was_not_sent(answer: Any, message: str) -> None:
    script = ScriptedAgent({frames.PUT: answer})
    with opened(script, piece_bytes=20) as agent, pytest.raises(ProtocolError, match=message):
        agent.put(A, DATA)


def test_how_often_a_board_may_take_nothing() -> None:
    """Four times in a row it may not; three times, and then a piece more, again and again, it may."""
    stuck = ScriptedAgent({frames.PUT: holds(20)})
    with opened(stuck, piece_bytes=20) as agent, pytest.raises(ProtocolError):
        agent.put(A, DATA)
    assert len(pieces(stuck)) == 1 + 1 + 4  # 20 comes first, then twice 20 more
    slow = ScriptedAgent({frames.PUT: holds(20, 20, 20, 20, 40, 40, 40, 40, 95)})
    with opened(slow, piece_bytes=20) as agent:
        agent.put(A, DATA)
    assert [at for _, at, _ in pieces(slow)] == [0, 20, 20, 20, 20, 40, 40, 40, 40]


def test_a_board_that_goes_to_and_fro_is_not_believed_for_ever() -> None:
    turns = [20, 0] * 100
    script = ScriptedAgent({frames.PUT: holds(*turns)})
    with opened(script, piece_bytes=20) as agent, pytest.raises(ProtocolError, match="accepts no more"):
        agent.put(A, DATA)
    assert len(pieces(script)) <= 40


def test_an_empty_content() -> None:
    script = ScriptedAgent()
    with opened(script) as agent:
        agent.put(A, b"")
    assert pieces(script) == [(frames.PUT, 0, 0)] and script.contents[A] == b""


def gets(script: ScriptedAgent) -> list[tuple[int, int, bytes]]:
    """Returns, for every GET, offset, length, and what is behind them."""
    asked = [f.payload for f in script.asked if f.type == frames.GET]
    return [(*struct.unpack_from("<QI", p, 3), p[15:]) for p in asked]


@settings(deadline=None)
@given(st.integers(0, 95), st.integers(0, 95), st.integers(1, 40), st.integers(1, 40), st.sampled_from([0, 1, 3]))
def test_a_range_arrives_whole(start: int, end: int, piece: int, most: int, ahead: int) -> None:
    """piece: what is asked for at once. most: what the agent gives of it."""
    start, end, script = min(start, end), max(start, end), ScriptedAgent()
    script.tensors["t"] = DATA
    most = max(most, piece // 2 + 1)
    script.handlers[frames.GET] = lambda f: iter([(frames.DATA, script.data(f, most))])
    with opened(script, piece_bytes=piece, ahead=ahead) as agent:
        assert agent.get_range("t", 95, start, end - start) == DATA[start:end]


@pytest.mark.parametrize(
    ("packs", "offered", "flag"), [(True, "lz4", b"\1"), (False, "lz4", b""), (True, None, b""), (False, None, b"")]
)
def test_what_is_asked_for(packs: bool, offered: str | None, flag: bytes) -> None:
    script = ScriptedAgent(hello={"packs": offered})
    script.tensors |= {"t": DATA, "e": b""}
    with opened(script, packs=packs, piece_bytes=40) as agent:
        assert agent.get("t", 95) == DATA and agent.get_range("t", 95, 80, 15) == DATA[80:]
        assert agent.get("e", 0) == b""
    assert gets(script) == [(0, 40, flag), (40, 40, flag), (80, 15, flag), (80, 15, flag), (0, 0, flag)]


def data(size: int, offset: int, body: bytes) -> Any:
    return lambda f: iter([(frames.DATA, struct.pack("<QQ", size, offset) + body)])


SIZE, RANGE = "t: the board's tensor has another size than the 95 bytes wanted", "t: the board sent another range"


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (lambda f: iter([(frames.DATA, struct.pack("<Q", 95) + bytes(7))]), SIZE),
        (data(94, 0, bytes(40)), SIZE),
        (data(95, 1, bytes(40)), RANGE),
        (data(95, 0, bytes(41)), RANGE),
        (data(95, 0, b""), RANGE),
    ],
)
def test_an_answer_to_get_that_cannot_be(answer: Any, message: str) -> None:
    script = ScriptedAgent({frames.GET: answer})
    with opened(script, piece_bytes=40) as agent, pytest.raises(ProtocolError, match=message):
        agent.get("t", 95)


def test_an_empty_range_has_no_bytes() -> None:
    script = ScriptedAgent({frames.GET: data(95, 5, b"x")})
    with opened(script) as agent:
        with pytest.raises(ProtocolError, match=RANGE):
            agent.get_range("t", 95, 5, 0)
        script.handlers[frames.GET] = data(95, 5, b"")
        assert agent.get_range("t", 95, 5, 0) == b""


def test_a_value_in_ever_smaller_pieces_is_given_up() -> None:
    """Each time it begins anew; 8 times, and twice for every piece, it may."""
    for size, rounds in ((40, 10), (95, 12)):
        script = ScriptedAgent()
        script.tensors["t"] = DATA[:size]
        script.handlers[frames.GET] = lambda f, script=script: iter([(frames.DATA, script.data(f, 1))])
        with opened(script, piece_bytes=40) as agent:
            said = rf"t: the board sends it in ever smaller pieces \({rounds} of {size} bytes\)"
            with pytest.raises(ProtocolError, match=said):
                agent.get("t", size)
            assert agent.get_range("t", size, 0, 8) == DATA[:8]


def test_several_contents_are_asked_for_at_once() -> None:
    script = ScriptedAgent(hello={"max_payload": 160})  # has room for five hashes
    contents = {f"{n:064x}": DATA[n:] for n in range(7)}
    script.contents = {f"{n:064x}": bytearray(DATA[n : n + 40 * n]) for n in range(3)}
    with opened(script) as agent:
        agent.put_all(contents)
        assert agent.counters["cached_bytes"] == 40 + 80
    assert {n: bytes(held) for n, held in script.contents.items()} == contents
    assert [len(f.payload) // 32 for f in script.asked if f.type == frames.HAVE] == [5, 2]
