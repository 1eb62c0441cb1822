"""Requests and answers over a link (PROTOCOL.md, "Sending again"): what is lost, damaged, late or answered wrongly."""

from __future__ import annotations

import math
import struct
from collections.abc import Iterator
from typing import Any

import pytest
from qverify_agents.errors import AgentError, BoardBusy, LinkClosed, LinkTimeout, ProtocolError
from qverify_agents.interfaces import ALL_FEATURES
from qverify_agents.protocol import frames, messages
from qverify_agents.protocol.client import Agent
from qverify_agents.protocol.frames import Frame, encode_frame

from tests.plain.scripted_agent import (
    A,
    Handler,
    Reply,
    ScriptedAgent,
    ScriptedLink,
    damaged,
    echoes,
    half,
    in_turn,
    kinds,
    link_of,
    nothing,
    opened,
    says,
)


def of_another_number(f: Frame) -> Iterator[Reply]:
    yield encode_frame(frames.PING, f.sequence + 1, b"not this one")
    yield encode_frame(frames.ERROR, f.sequence - 1, b"")
    yield f.type, f.payload


def test_requests_are_numbered_one_by_one() -> None:
    script = ScriptedAgent()
    with opened(script) as agent:
        for _ in range(3):
            agent.ping()
    numbers = [f.sequence for f in script.asked]
    assert numbers == list(range(numbers[0], numbers[0] + 4)) and kinds(script) == [frames.PING] * 3


def test_numbers_begin_anywhere_below_2_to_the_31(monkeypatch: pytest.MonkeyPatch) -> None:
    below: list[int] = []
    monkeypatch.setattr("secrets.randbelow", lambda n: below.append(n) or 2**32 - 3)
    script = ScriptedAgent()
    with opened(script, ahead=1) as agent:
        agent.ping()
        agent.ping()
        agent.put(A, b"xy")
    assert below == [1 << 31] and [f.sequence for f in script.asked] == [2**32 - 2, 2**32 - 1, 0, 1, 2]


@pytest.mark.parametrize("bad", [nothing, damaged, half, says((frames.AGAIN, b""))])
@pytest.mark.parametrize("times", [1, 3])
def test_a_request_is_sent_again_unchanged(bad: Handler, times: int) -> None:
    script = ScriptedAgent({frames.PING: in_turn(*[bad] * times, echoes)})
    with opened(script) as agent:
        before = len(link_of(agent).sent)
        agent.ping()
        assert len(set(map(repr, script.asked[1:]))) == 1 and len(script.asked) == 2 + times
        assert agent.counters["frames_sent_again"] == times and agent.counters["requests"] == 2
        assert agent.counters["bytes_sent"] == len(link_of(agent).sent) == before + (1 + times) * 27


def test_an_answer_to_another_request_is_passed_over() -> None:
    script = ScriptedAgent({frames.PING: of_another_number})
    with opened(script) as agent:
        agent.ping()
        assert agent.counters["frames_sent_again"] == 0


def test_what_came_is_counted() -> None:
    with opened(ScriptedAgent()) as agent:
        hello = agent.counters["bytes_received"]
        assert hello == 20 + 2 + len('{"protocol": 1, "packs": "lz4"}')
        agent.ping()
        assert agent.counters["bytes_received"] == hello + 20 + 7
        assert agent.counters == {
            "bytes_sent": 20 + 27,
            "bytes_received": hello + 27,
            "cached_bytes": 0,
            "frames_sent_again": 0,
            "requests": 2,
        }


def test_patience_grows_by_half_to_eight_seconds() -> None:
    with opened(ScriptedAgent({frames.PING: in_turn(*[nothing] * 4, echoes)})) as agent:
        agent.ping()
        assert [math.ceil(s) for s in link_of(agent).waits] == [4, 6, 8, 8]


def test_no_answer_within_the_deadline() -> None:
    """And every further call says so at once, without asking."""
    script = ScriptedAgent({frames.PING: nothing})
    agent = opened(script, 0.2)
    link_of(agent).patience_s = 0.05
    for _ in range(2):
        with pytest.raises(LinkTimeout, match=r"^the agent: no answer within 0.2 s; give --timeout"):
            agent.ping()
        asked = len(script.asked)
    assert len(script.asked) == asked and link_of(agent).waits
    with pytest.raises(LinkTimeout):
        agent.have([A])
    assert len(script.asked) == asked
    agent.close()


@pytest.mark.parametrize(
    ("replies", "error", "message"),
    [
        ([(frames.ERROR, struct.pack("<i", -6) + messages.encode_text("wrong"))], AgentError, "wrong .status -6"),
        ([(frames.HAVE, b"")], ProtocolError, "the agent answered with message 2, wanted 10"),
        ([(frames.NODE, b"")], ProtocolError, "the agent answered with message 5, wanted 10"),
        ([(frames.PACKED, b"")], ProtocolError, "the agent answered with message 16, wanted 10"),
        ([(frames.PING, b"other")], ProtocolError, "PING came back changed"),
    ],
)
def test_an_answer_that_is_an_error(replies: list[Reply], error: type[Exception], message: str) -> None:
    with opened(ScriptedAgent({frames.PING: in_turn(says(*replies), echoes)})) as agent:
        with pytest.raises(error, match=message):
            agent.ping()
        agent.ping()  # the link is as good as before


@pytest.mark.parametrize(
    ("features", "offered"),
    [
        (["finals", "digests", "flying"], {"finals", "digests"}),
        ([], set()),
        (None, ALL_FEATURES),
        ("finals", ALL_FEATURES),
    ],
)
def test_what_a_board_offers(features: Any, offered: set[str]) -> None:
    hello = {} if features is None else {"features": features}
    with opened(ScriptedAgent(hello=hello)) as agent:
        assert agent.capabilities == offered


@pytest.mark.parametrize(("owner", "payload"), [("", b""), ("Ann #12", messages.encode_text("Ann #12"))])
def test_who_asks(owner: str, payload: bytes) -> None:
    script = ScriptedAgent()
    with Agent(ScriptedLink(script), ALL_FEATURES, 60, owner) as agent:
        assert agent.refresh_hello()["protocol"] == 1
    assert [(f.type, f.payload) for f in script.asked] == [(frames.HELLO, payload)] * 2


BUSY = messages.encode_text('{"protocol": 1, "lock": "busy", "uptime_s": 50, "holder": {"owner": "Ann"}}')


OURS = messages.encode_text('{"protocol": 1, "lock": "held", "uptime_s": 51}')


def test_a_board_that_another_holds() -> None:
    link = ScriptedLink(ScriptedAgent({frames.HELLO: says((frames.HELLO, BUSY))}))
    with pytest.raises(BoardBusy, match="the board is in use by Ann"):
        Agent(link, ALL_FEATURES, 60)
    assert link.closed == 1 and len(link.agent.asked) == 1


def test_a_board_is_waited_for() -> None:
    script = ScriptedAgent({frames.HELLO: in_turn(says((frames.HELLO, BUSY)), says((frames.HELLO, OURS)))})
    with Agent(ScriptedLink(script), ALL_FEATURES, 60, wait_s=30) as agent:
        assert agent.hello == {"protocol": 1, "lock": "held", "uptime_s": 51}
    assert len(script.asked) == 2


def test_a_board_is_waited_for_no_longer_than_was_said() -> None:
    script = ScriptedAgent({frames.HELLO: says((frames.HELLO, BUSY))})
    with pytest.raises(BoardBusy):
        Agent(ScriptedLink(script), ALL_FEATURES, 60, wait_s=0.05)
    assert len(script.asked) >= 2


def test_a_link_is_closed_where_nothing_can_be_asked_over_it() -> None:
    link = ScriptedLink(ScriptedAgent(), ends=0)
    with pytest.raises(LinkClosed, match="the board was unplugged"):
        Agent(link, ALL_FEATURES, 60)
    assert link.closed == 1


def test_a_run_has_the_deadline_anew_with_each_node() -> None:
    one = struct.pack("<IIQQ", 0, 0, 1, 1) + messages.encode_text("t")
    for replies, what in (([], "the agent"), ([(frames.NODE, one)], "the board's next node")):
        script = ScriptedAgent({frames.RUN: in_turn(says(*replies), nothing)})
        agent = opened(script, 0.3)
        link_of(agent).patience_s = 0.05
        with pytest.raises(LinkTimeout, match=f"^{what}: no answer within 0.3 s"):
            agent.run(A, [])
        agent.close()


def test_a_run_is_cancelled_under_another_number() -> None:
    script = ScriptedAgent()
    script.events, script.done = [(0, 0, 1, "t"), (1, 0, 1, "u")], (-7, "cancelled", 0, 1)
    with opened(script) as agent:
        with pytest.raises(AgentError, match="cancelled") as caught:
            agent.run(A, [], on_node=lambda event: event.tensor == "t")
        assert caught.value.status == -7
    run, cancel = [f for f in script.asked if f.type in (frames.RUN, frames.CANCEL)]
    assert (cancel.type, cancel.payload, cancel.sequence) == (frames.CANCEL, b"", (run.sequence - 1) & 0xFFFFFFFF)


def test_the_number_before_the_first_is_the_last(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("secrets.randbelow", lambda n: 2**32 - 2)
    script = ScriptedAgent()
    script.events = [(0, 0, 1, "t")]
    with opened(script) as agent:  # HELLO has the last number of all
        agent.run(A, [], on_node=lambda event: True)
    run, cancel = [f.sequence for f in script.asked if f.type in (frames.RUN, frames.CANCEL)]
    assert (run, cancel) == (0, 2**32 - 1)
