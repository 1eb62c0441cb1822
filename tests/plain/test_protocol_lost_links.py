"""A link that was lost and is made again, and requests sent ahead of the answers before (PROTOCOL.md)."""

from __future__ import annotations

import struct
from typing import Any

import pytest
from qverify_agents.deadline import Deadline
from qverify_agents.errors import AgentError, BoardBusy, BoardUnreachable, LinkClosed, LinkTimeout, ProtocolError
from qverify_agents.interfaces import ALL_FEATURES
from qverify_agents.protocol import frames, messages
from qverify_agents.protocol.client import Agent
from qverify_agents.protocol.frames import Frame, FrameReader

from tests.plain.scripted_agent import (
    A,
    Handler,
    Reply,
    ScriptedAgent,
    ScriptedLink,
    damaged,
    echoes,
    in_turn,
    kinds,
    nothing,
    opened,
    says,
)


class Links:
    """Hands out links to one script. ends: after how many requests each of them closes."""

    def __init__(self, script: ScriptedAgent, *ends: int | None, error: Exception | None = None, **traits: Any):
        self.script, self.ends, self.error, self.traits = script, list(ends), error, traits
        self.made: list[ScriptedLink] = []

    def __call__(self) -> ScriptedLink:
        if not self.ends and self.error is not None:
            raise self.error
        self.made.append(ScriptedLink(self.script, self.ends.pop(0), **self.traits))
        return self.made[-1]

    def opened(self, deadline_s: float = 60.0) -> Agent:
        return Agent(self(), ALL_FEATURES, deadline_s, reopen=self)


def test_a_lost_link_is_made_again() -> None:
    links = Links(ScriptedAgent(), 2, 2, None)
    with links.opened() as agent:
        for _ in range(3):
            agent.ping()
        assert agent.generation == 2 and agent.shared
        assert [link.closed for link in links.made] == [1, 1, 0]
    assert [link.closed for link in links.made] == [1, 1, 1]
    assert kinds(links.script, ()) == [frames.HELLO, frames.PING] * 3  # each answered once


def test_at_most_three_times() -> None:
    links = Links(ScriptedAgent({frames.PING: echoes}), 1, 1, 1, 1, None)
    with links.opened() as agent:
        for _ in range(2):
            with pytest.raises(LinkClosed, match=r"^the board was unplugged$"):
                agent.ping()
        assert agent.generation == 3 and len(links.made) == 4


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (BoardBusy("Ann has it"), BoardBusy),
        (BoardUnreachable("no route"), LinkClosed),
        (LinkTimeout("late"), LinkClosed),
    ],
)
def test_a_link_that_cannot_be_made_again(error: Exception, kind: type[Exception]) -> None:
    links = Links(ScriptedAgent(), 1, error=error)
    with links.opened() as agent:
        for _ in range(2):
            with pytest.raises(kind, match=f"^the board was unplugged; connecting again failed: {error}$") as caught:
                agent.ping()
            assert type(caught.value) is kind
        assert len(links.made) == 1


def test_without_a_way_to_make_it_again() -> None:
    script = ScriptedAgent()
    agent = Agent(ScriptedLink(script, ends=2), ALL_FEATURES, 60)
    agent.ping()
    for _ in range(2):
        with pytest.raises(LinkClosed, match=r"^the board was unplugged$"):
            agent.ping()
    assert not agent.shared and agent.generation == 0
    agent.close()


def test_the_values_of_a_run_go_with_the_connection() -> None:
    links = Links(ScriptedAgent(), 1, None)
    with links.opened() as agent:
        with pytest.raises(AgentError, match="the run's values are gone") as caught:
            agent.get("t", 4)
        assert caught.value.status == -9 and agent.generation == 1
        agent.ping()


def test_a_run_that_is_asked_for_again_has_its_events_one_by_one() -> None:
    """Should the board die at the same node again, every event up to it has come."""
    script = ScriptedAgent()
    script.events = [(0, 0, 5, "t")]
    links = Links(script, 1, None, packs=True)
    with links.opened() as agent:
        assert [e.tensor for e in agent.run(A, [], names=["t"])] == ["t"]
        (again,) = (f for f in script.asked if f.type == frames.RUN)
        sent = [f for f in every_frame(links.made[0].sent) if f.type == frames.RUN]
    assert (sent[0].payload[32], again.payload[32]) == (7, 3) and sent[0].payload[33:] == again.payload[33:]


def every_frame(data: bytes | bytearray) -> list[Frame]:
    reader = FrameReader()
    reader.feed(bytes(data))
    return list(iter(reader.next, None))


@pytest.mark.parametrize("ahead", [0, 1, 2, 5])
def test_as_many_requests_are_sent_ahead_as_the_link_allows(ahead: int) -> None:
    """How many pieces the agent was sent when it gave its first answer."""
    script, sent = ScriptedAgent(), list[int]()
    with opened(script, ahead=ahead, piece_bytes=10) as agent:
        agent.put(A, bytes(40), lambda held, whole: sent.append(kinds(script).count(frames.PUT)))
    assert sent == [min(4, ahead + 1 + i) for i in range(4)] and script.contents[A] == bytes(40)
    assert agent.counters["requests"] == 1 + 1 + 4


@pytest.mark.parametrize("bad", [nothing, damaged, says((frames.AGAIN, b""))])
@pytest.mark.parametrize("place", range(4))
def test_an_answer_lost_among_requests_sent_ahead(bad: Handler, place: int) -> None:
    script = ScriptedAgent()
    script.handlers[frames.PUT] = in_turn(*[script.honest] * place, bad, script.honest)
    data = bytes(range(40))
    with opened(script, ahead=2, piece_bytes=10) as agent:
        agent.put(A, data)
    assert script.contents[A] == data


@pytest.mark.parametrize(
    "reply", [(frames.ERROR, struct.pack("<i", -12) + messages.encode_text("full")), (frames.PING, b"")]
)
def test_an_answer_to_one_sent_ahead_that_is_an_error(reply: Reply) -> None:
    script = ScriptedAgent()
    script.handlers[frames.PUT] = in_turn(script.honest, says(reply), script.honest)
    with opened(script, ahead=3, piece_bytes=10) as agent:
        said = "full .status -12" if reply[0] == frames.ERROR else "answered with message 10, wanted 3"
        with pytest.raises(AgentError if reply[0] == frames.ERROR else ProtocolError, match=said):
            agent.put(A, bytes(40))
        agent.ping()  # the answers to those behind it are passed over


@pytest.mark.parametrize("ahead", [0, 2])
def test_packed_answers(ahead: int) -> None:
    script = ScriptedAgent()
    script.tensors["t"] = bytes(25)
    script.handlers[frames.GET] = lambda f: iter([(frames.PACKED, packed(script.data(f)))])
    with opened(script, ahead=ahead, piece_bytes=10) as agent:
        assert agent.get("t", 25) == bytes(25)
        script.handlers[frames.PUT] = lambda f: iter([(frames.PACKED, packed(bytes(20)))])
        with pytest.raises(ProtocolError, match="answered with message 16, wanted 3"):
            agent.put(A, b"x")


def packed(data: bytes) -> bytes:
    from lz4.block import compress

    return data[:16] + struct.pack("<I", len(data) - 16) + compress(data[16:], store_size=False)


def test_a_link_lost_under_requests_sent_ahead() -> None:
    script = ScriptedAgent()
    links = Links(script, 4, None, ahead=3, piece_bytes=10)
    data = bytes(range(60))
    with links.opened() as agent:
        agent.put(A, data)
        assert agent.generation == 1
    assert script.contents[A] == data


def test_a_request_that_cannot_even_be_sent_ahead() -> None:
    """The other end has closed, and writing says so before reading does."""

    class Deaf(ScriptedLink):
        def write(self, data: bytes, deadline: Deadline) -> None:
            if self.ends == 0:
                raise LinkClosed("broken pipe")
            super().write(data, deadline)

    script, data = ScriptedAgent(), bytes(range(60))
    first = Deaf(script, ends=4, ahead=3, piece_bytes=10)
    with Agent(first, ALL_FEATURES, 60, reopen=lambda: ScriptedLink(script, ahead=3, piece_bytes=10)) as agent:
        agent.put(A, data)
        assert agent.generation == 1 and first.closed == 1
    assert script.contents[A] == data
