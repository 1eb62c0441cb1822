"""Payloads as the table of PROTOCOL.md has them: made byte for byte, and read within every bound."""

from __future__ import annotations

import json
import random
import struct
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lz4.block import compress
from qverify_agents.errors import AgentError, Contradiction, ProtocolError
from qverify_agents.protocol import messages
from qverify_agents.protocol.messages import Done, NodeEvent

A, B, C = ("a1" * 32, "b2" * 32, "c3" * 32)
A_, B_, C_ = (bytes.fromhex(h) for h in (A, B, C))


def u16(*values: int) -> bytes:
    return struct.pack(f"<{len(values)}H", *values)


def hello(**fields: Any) -> dict[str, Any]:
    return messages.read_hello(messages.encode_text(json.dumps({"protocol": 1, **fields})))


def raw_hello(text: str) -> dict[str, Any]:
    return messages.read_hello(messages.encode_text(text))


def test_a_text() -> None:
    assert messages.encode_text("é") == b"\2\0\xc3\xa9" and messages.encode_text("") == b"\0\0"
    assert messages.encode_text("x" * 1023) == b"\xff\3" + b"x" * 1023
    for wrong in ("x" * 1024, "é" * 512, "a\0b"):
        with pytest.raises(ProtocolError, match="a name longer than 1023 bytes, or with a NUL, cannot be sent"):
            messages.encode_text(wrong)
    with pytest.raises(ProtocolError, match=r"^y{60}\.\.\.: "):
        messages.encode_text("y" * 2000)


@settings(deadline=None)
@given(st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=200), st.binary(max_size=9), st.binary())
def test_a_text_is_read_where_it_stands(text: str, before: bytes, behind: bytes) -> None:
    payload = messages.encode_text(text)
    assert messages.read_text(before + payload + behind, len(before)) == (text, len(before) + len(payload))


@pytest.mark.parametrize(
    ("payload", "at", "message"),
    [
        (b"", 0, "cut short"),
        (b"\0", 0, "cut short"),
        (b"\0\0\0", 2, "cut short"),
        (b"\2\0a", 0, "cut short"),
        (u16(1024) + b"x" * 1024, 0, "a text of 1024 bytes; wanted at most 1023, none of them NUL"),
        (u16(3) + b"a\0b", 0, "a text of 3 bytes; wanted at most 1023, none of them NUL"),
    ],
)
def test_a_text_that_cannot_be_read(payload: bytes, at: int, message: str) -> None:
    with pytest.raises(ProtocolError, match=message):
        messages.read_text(payload, at)


def test_the_bounds_of_a_text() -> None:
    assert messages.read_text(u16(1023) + b"x" * 1023) == ("x" * 1023, 1025)
    assert messages.read_text(b"\0\0") == ("", 2)
    assert messages.read_text(b"\1\0\xff") == ("\ufffd", 3)


def test_a_hello_holds_what_the_protocol_gives_it() -> None:
    fields = {
        **{n: f"a {n}" for n in ("version", "arch", "system", "endian", "packs", "lock", "instructions")},
        **{n: 7 for n in ("memory_bytes", "uptime_s", "idle_s")},
        "temperature_c": 41.5,
        "frequency_mhz": 1200,
        "features": ["finals", 3, "a\nb", None],
        "holder": {"owner": "me\x1b", "boot_id": "x", "pid": 3, "since_uptime_s": 1, "heard_uptime_s": 2, "running": 0},
    }
    told = {**fields, "features": ["finals", "a b"], "holder": {**fields["holder"], "owner": "me?"}}
    assert hello(**fields, more=1) == {"protocol": 1, **told}


@pytest.mark.parametrize(
    ("field", "values"),
    [
        *[
            (n, [1, True, None, [], {}])
            for n in ("version", "arch", "system", "endian", "packs", "lock", "instructions")
        ],
        *[(n, ["1", 1.5, True, None]) for n in ("memory_bytes", "uptime_s", "idle_s")],
        *[(n, ["1", True, None]) for n in ("temperature_c", "frequency_mhz")],
        ("features", ["finals", {}, None]),
        ("holder", ["me", [], None]),
    ],
)
def test_a_hello_field_of_another_type_is_left_away(field: str, values: list[Any]) -> None:
    for value in values:
        assert hello(**{field: value}) == {"protocol": 1}


@pytest.mark.parametrize(
    ("field", "value"), [("owner", 1), ("boot_id", 1), ("pid", "3"), ("since_uptime_s", 1.5), ("running", True)]
)
def test_a_holder_field_of_another_type_is_left_away(field: str, value: Any) -> None:
    assert hello(holder={field: value, "more": 1})["holder"] == {}


def test_texts_of_a_hello_are_cut() -> None:
    assert hello(arch="x" * 501)["arch"] == "x" * 500


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "HELLO is not JSON"),
        ('{"protocol": 1, "uptime_s": Infinity}', "not JSON: the number Infinity"),
        ('{"protocol": 1, "uptime_s": -NaN}', "not JSON"),
        ('{"protocol": 1, "uptime_s": 18446744073709555712}', "not JSON: the number 18446744073709555712"),
        ('{"protocol": 1, "uptime_s": -18446744073709555712}', "not JSON: the number -18446744073709555712"),
        ('{"protocol": 1, "uptime_s": 1.9e19}', "not JSON: the number 1.9e19"),
        (f'{{"protocol": 1, "uptime_s": {"9" * 80}}}', "the number 9{40}$"),
        ('{"protocol": 2}', "the agent speaks protocol 2, wanted 1"),
        ("{}", "the agent speaks protocol None, wanted 1"),
        ("[1]", r"the agent speaks protocol \?, wanted 1"),
        ('{"protocol": 1, "x": ' + "[" * 8 + "]" * 8 + "}", "HELLO has lists or objects nested more than 8 deep"),
        ('{"protocol": 1, "x": ' + '{"x": ' * 8 + "1" + "}" * 8 + "}", "HELLO has lists or objects nested more than 8"),
        ('{"protocol": 1, "x": [1, ' + "[" * 7 + "]" * 7 + ", 2]}", "HELLO has lists or objects nested more than 8"),
    ],
)
def test_a_hello_that_is_refused(text: str, message: str) -> None:
    with pytest.raises(ProtocolError, match=message):
        raw_hello(text)


def test_the_bounds_of_a_hello() -> None:
    assert raw_hello('{"protocol": 1, "x": ' + "[" * 7 + "]" * 7 + "}") == {"protocol": 1}
    assert raw_hello('{"protocol": 1, "uptime_s": 18446744073709551616}')["uptime_s"] == 1 << 64
    assert raw_hello('{"protocol": 1, "uptime_s": -9007199254740993}')["uptime_s"] == -9007199254740993
    for written in ("1e3", "1E3", "1000.0"):
        found = raw_hello(f'{{"protocol": 1, "temperature_c": {written}}}')["temperature_c"]
        assert found == 1000.0 and isinstance(found, float)


HOLDER = {"owner": "Ann #12ab", "since_uptime_s": 60, "heard_uptime_s": 90}
UNNAMED = "the board is in use by an unnamed holder; --wait SECONDS waits for it"


@pytest.mark.parametrize(
    ("told", "said"),
    [
        (
            {"uptime_s": 100, "holder": HOLDER},
            "the board is in use by Ann since 40 s ago, last heard 10 s ago; --wait SECONDS waits for it",
        ),
        (
            {"uptime_s": 100, "holder": {}},
            "the board is in use by ? since ?, last heard ?; --wait SECONDS waits for it",
        ),
        ({"uptime_s": 100}, UNNAMED),
        ({"holder": HOLDER}, UNNAMED),
        ({}, UNNAMED),
    ],
)
def test_who_holds_a_board(told: dict[str, Any], said: str) -> None:
    assert messages.format_busy(told) == said


def test_a_long_name_of_a_holder_is_cut() -> None:
    said = messages.format_busy({"uptime_s": 1, "holder": {"owner": "x" * 200, "since_uptime_s": "?"}})
    assert f"by {'x' * 120} since ?" in said


def test_an_error() -> None:
    error = messages.read_error(struct.pack("<i", -9) + messages.encode_text("no\x1bsuch\ntensor"))
    assert isinstance(error, AgentError) and error.status == -9
    assert str(error) == "the agent says: no?such tensor (status -9)"
    with pytest.raises(ProtocolError, match="an ERROR is cut short"):
        messages.read_error(b"abc")
    with pytest.raises(ProtocolError, match="a text is cut short"):
        messages.read_error(b"abcd")


def test_what_a_host_sends() -> None:
    """Each payload as the table of messages writes it."""
    assert messages.encode_put(A, 9, 4, b"xyz") == A_ + struct.pack("<QQ", 9, 4) + b"xyz"
    run = messages.encode_run(A, [B, C], ["y"], {"t": B, "u": C}, 7, 3)
    texts = u16(1) + b"\1\0y" + u16(2) + b"\1\0t" + B_ + b"\1\0u" + C_
    assert run == A_ + struct.pack("<BI", 7, 3) + u16(2) + B_ + C_ + texts
    assert messages.encode_run(A, [], [], {}, 0, 1) == A_ + struct.pack("<BI", 0, 1) + u16(0, 0, 0)
    assert messages.encode_unit(A, ["y", "z"], {"t": B}) == A_ + u16(2) + b"\1\0y\1\0z" + u16(1) + b"\1\0t" + B_


@pytest.mark.parametrize("flags", range(8))
def test_a_run_whose_events_come_one_by_one(flags: int) -> None:
    found = messages.remove_batching(messages.encode_run(A, [B], ["y"], {"t": C}, flags, 5))
    assert found == messages.encode_run(A, [B], ["y"], {"t": C}, flags & 3, 5)


def event(index: int, name: str = "t", iteration: int = 0, digest: int = 0xAB) -> bytes:
    return struct.pack("<IIQQ", index, iteration, digest, 55) + messages.encode_text(name)


def test_an_event() -> None:
    wanted = NodeEvent("t", "00000000000000ab", 55, 4)
    payload = event(9, iteration=4)
    assert messages.read_event(payload) == (9, wanted, len(payload))
    assert messages.read_event(b"??" + payload + b"more", 2) == (9, wanted, len(payload) + 2)
    assert messages.read_node(payload) == (9, wanted)
    assert messages.read_node(event(0, "")) == (0, NodeEvent("", "00000000000000ab", 55, 0))
    for wrong, message in (
        (payload + b"x", "NODE is .* bytes, wanted"),
        (payload[:23], "NODE is cut short"),
        (payload[:24], "a text is cut"),
    ):
        with pytest.raises(ProtocolError, match=message):
            messages.read_node(wrong)
    with pytest.raises(ProtocolError, match="NODE is cut short"):
        messages.read_event(payload[:24], 1)


def test_events_that_were_asked_for() -> None:
    assert messages.read_events_from(3, 5, b"") == []
    found = messages.read_events_from(3, 5, event(3, "a") + event(4, "b"))
    assert [(i, e.tensor) for i, e in found] == [(3, "a"), (4, "b")]
    for payload, sent in (
        (event(4), 4),
        (event(3) + event(3), 3),
        (event(3) + event(5), 5),
        (event(3) + event(4) + event(5), 5),
        (event(2), 2),
    ):
        with pytest.raises(Contradiction, match=f"asked for its events from 3 of 5 and sent event {sent}$"):
            messages.read_events_from(3, 5, payload)


def test_gathered_events() -> None:
    payload = struct.pack("<II", 10, 2) + struct.pack("<IQI", 1, 0xFF, 3) + struct.pack("<IQI", 0, 1, 0)
    assert messages.read_events(payload, ["p", "q"]) == [
        (10, NodeEvent("q", "00000000000000ff", 3000, 2)),
        (11, NodeEvent("p", "0000000000000001", 0, 2)),
    ]
    assert messages.read_events(payload[:8], []) == []
    with pytest.raises(ProtocolError, match="NODES names tensor 1 of 1"):
        messages.read_events(payload, ["p"])
    for length in (0, 7, 9, 23, 25, len(payload) - 8):
        with pytest.raises(ProtocolError, match=r"NODES is .* bytes, wanted"):
            messages.read_events(payload[:length], ["p", "q"])


def test_done() -> None:
    payload = struct.pack("<i", -7) + messages.encode_text("stop\x07ped") + struct.pack("<QIB", 1 << 40, 1 << 20, 1)
    assert messages.read_done(payload) == Done(-7, "stop?ped", 1 << 40, 1 << 20, True)
    assert messages.read_done(payload[:-1] + b"\0").kept is False
    for wrong, message in (
        (b"abc", "DONE is cut short"),
        (b"abcd", "a text is cut short"),
        (payload[:-1], "DONE is .* bytes, wanted"),
        (payload + b"x", "DONE is .* bytes, wanted"),
        (
            payload[:-5] + struct.pack("<IB", (1 << 20) + 1, 1),
            "DONE announces 1048577 events; at most 1048576",
        ),
    ):
        with pytest.raises(ProtocolError, match=message):
            messages.read_done(wrong)


def test_a_packed_piece() -> None:
    piece = bytes(5000)
    packed = messages.encode_put_packed(A, 9000, 4000, memoryview(piece))
    assert packed == A_ + struct.pack("<QQI", 9000, 4000, 5000) + compress(piece, store_size=False)
    assert messages.read_packed(packed[32:]) == packed[32:48] + piece
    assert (
        messages.encode_put_packed(A, 256, 0, bytes(range(256))) is None
        and messages.encode_put_packed(A, 0, 0, b"") is None
    )


def test_packing_must_spare_more_than_a_sixteenth() -> None:
    """Pieces of 320 bytes that pack to 299 are packed, those that pack to 300 are not."""
    pieces = [random.Random(1).randbytes(320 - zeros) + bytes(zeros) for zeros in range(8, 60)]
    sizes = {len(compress(piece, store_size=False)): piece for piece in pieces}
    assert {299, 300} <= sizes.keys()
    assert messages.encode_put_packed(A, 320, 0, sizes[299]) is not None
    assert messages.encode_put_packed(A, 320, 0, sizes[300]) is None


def packed_as(size: int, block: bytes) -> bytes:
    return struct.pack("<QQI", 1 << 21, 0, size) + block


@pytest.mark.parametrize(
    ("payload", "message"),
    [
        (packed_as(0, b"")[:19], "PACKED is cut short or too large"),
        (packed_as((1 << 20) + 1, compress(bytes((1 << 20) + 1), store_size=False)), "cut short or too large"),
        (packed_as(9, b"\xff\xff"), "PACKED cannot be unpacked"),
        (packed_as(9, compress(bytes(8), store_size=False)), "PACKED unpacks to 8 bytes, wanted 9"),
        (packed_as(8, compress(bytes(9), store_size=False)), "PACKED cannot be unpacked"),
    ],
)
def test_a_packed_answer_that_is_refused(payload: bytes, message: str) -> None:
    with pytest.raises(ProtocolError, match=message):
        messages.read_packed(payload)


def test_the_largest_packed_answer() -> None:
    plain = bytes(1 << 20)
    assert messages.read_packed(packed_as(1 << 20, compress(plain, store_size=False)))[16:] == plain
