"""Requests and answers over a link (PROTOCOL.md, "Sending again"): what is lost, damaged, late or answered wrongly, and a link that is made anew."""

from __future__ import annotations

import math
import struct
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from qverify_agents.capabilities import ALL
from qverify_agents.deadline import Deadline
from qverify_agents.errors import AgentError, BoardBusy, BoardUnreachable, LinkClosed, LinkTimeout, ProtocolError
from qverify_agents.protocol import conversation, frames, keep_alive, messages
from qverify_agents.protocol.client import Agent
from qverify_agents.protocol.frames import Frame, FrameReader, frame_bytes

from tests.plain.scripted_agent import Handler, Reply, ScriptedAgent, ScriptedLink, kinds, opened

A = "a1" * 32


def echoes(f: Frame) -> Iterator[Reply]:
    yield f.type, f.payload


def in_turn(*handlers: Handler) -> Handler:
    """The first request is answered by the first of them, and so on; the last one answers all that follow."""
    left = list(handlers)
    return lambda f: (left.pop(0) if len(left) > 1 else left[0])(f)


def nothing(f: Frame) -> Iterator[Reply]:
    yield from ()


def says(*replies: Reply) -> Handler:
    return lambda f: iter(replies)


def damaged(f: Frame) -> Iterator[Reply]:
    whole = frame_bytes(f.type, f.sequence, f.payload)
    yield whole[:-1] + bytes([whole[-1] ^ 1])


def half(f: Frame) -> Iterator[Reply]:
    yield frame_bytes(f.type, f.sequence, f.payload)[:-9]


def of_another_number(f: Frame) -> Iterator[Reply]:
    yield frame_bytes(frames.PING, f.sequence + 1, b"not this one")
    yield frame_bytes(frames.ERROR, f.sequence - 1, b"")
    yield f.type, f.payload


def link_of(agent: Agent) -> ScriptedLink:
    return agent._link  # type: ignore[return-value]


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
        ([(frames.ERROR, struct.pack("<i", -6) + messages.text("wrong"))], AgentError, "wrong .status -6"),
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
        (None, ALL),
        ("finals", ALL),
    ],
)
def test_what_a_board_offers(features: Any, offered: set[str]) -> None:
    hello = {} if features is None else {"features": features}
    with opened(ScriptedAgent(hello=hello)) as agent:
        assert agent.capabilities == offered


@pytest.mark.parametrize(("owner", "payload"), [("", b""), ("Ann #12", messages.text("Ann #12"))])
def test_who_asks(owner: str, payload: bytes) -> None:
    script = ScriptedAgent()
    with Agent(ScriptedLink(script), ALL, 60, owner) as agent:
        assert agent.ask_again()["protocol"] == 1
    assert [(f.type, f.payload) for f in script.asked] == [(frames.HELLO, payload)] * 2


BUSY = messages.text('{"protocol": 1, "lock": "busy", "uptime_s": 50, "holder": {"owner": "Ann"}}')
OURS = messages.text('{"protocol": 1, "lock": "held", "uptime_s": 51}')


def test_a_board_that_another_holds() -> None:
    link = ScriptedLink(ScriptedAgent({frames.HELLO: says((frames.HELLO, BUSY))}))
    with pytest.raises(BoardBusy, match="the board is in use by Ann"):
        Agent(link, ALL, 60)
    assert link.closed == 1 and len(link.agent.asked) == 1


def test_a_board_is_waited_for() -> None:
    script = ScriptedAgent({frames.HELLO: in_turn(says((frames.HELLO, BUSY)), says((frames.HELLO, OURS)))})
    with Agent(ScriptedLink(script), ALL, 60, wait_s=30) as agent:
        assert agent.hello == {"protocol": 1, "lock": "held", "uptime_s": 51}
    assert len(script.asked) == 2


def test_a_board_is_waited_for_no_longer_than_was_said() -> None:
    script = ScriptedAgent({frames.HELLO: says((frames.HELLO, BUSY))})
    with pytest.raises(BoardBusy):
        Agent(ScriptedLink(script), ALL, 60, wait_s=0.05)
    assert len(script.asked) >= 2


def test_a_link_is_closed_where_nothing_can_be_asked_over_it() -> None:
    link = ScriptedLink(ScriptedAgent(), ends=0)
    with pytest.raises(LinkClosed, match="the board was unplugged"):
        Agent(link, ALL, 60)
    assert link.closed == 1


# A link that was lost


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
        return Agent(self(), ALL, deadline_s, reopen=self)


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
    agent = Agent(ScriptedLink(script, ends=2), ALL, 60)
    agent.ping()
    for _ in range(2):
        with pytest.raises(LinkClosed, match=r"^the board was unplugged$"):
            agent.ping()
    assert not agent.shared and agent.generation == 0
    agent.close()


def test_the_values_of_a_run_go_with_the_connection() -> None:
    links = Links(ScriptedAgent(), 1, None)
    with links.opened() as agent:
        with pytest.raises(AgentError, match="the run's values are gone; run again") as caught:
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


# Requests sent ahead


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


@pytest.mark.parametrize("reply", [(frames.ERROR, struct.pack("<i", -12) + messages.text("full")), (frames.PING, b"")])
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
    with Agent(first, ALL, 60, reopen=lambda: ScriptedLink(script, ahead=3, piece_bytes=10)) as agent:
        agent.put(A, data)
        assert agent.generation == 1 and first.closed == 1
    assert script.contents[A] == data


def test_closing_waits_for_no_call_that_never_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(conversation, "PATIENCE_S", 0.01)
    agent, done = opened(ScriptedAgent()), list[str]()
    agent.at_close(lambda: done.append("gone"))
    with agent.turn:
        other = threading.Thread(target=agent.close)
        other.start()
        other.join(30)
        assert done == ["gone"]


# A run that goes on


def test_a_run_has_the_deadline_anew_with_each_node() -> None:
    one = struct.pack("<IIQQ", 0, 0, 1, 1) + messages.text("t")
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


# Beside the calls


def test_what_a_console_shows_between_frames() -> None:
    lines = b"one two\r\n  abc\n abcd \n\xff spoilt\nbell\x07 rings\n" + b"x" * 300 + b"\n"
    script = ScriptedAgent({frames.PING: lambda f: iter([lines, (f.type, f.payload)])})
    with opened(script, said_before="Linux boots\n[ok]") as agent:
        assert agent.messages_between() == ["Linux boots", "[ok]"]
        agent.ping()
        assert agent.messages_between() == ["Linux boots", "[ok]", "one two", "abcd", "bell rings", "x" * 200]
    with opened(ScriptedAgent()) as agent:
        assert agent.messages_between() == []


def test_the_way_down_is_gone_once_and_to_its_end() -> None:
    done: list[str] = []

    def note(name: str) -> Callable[[], None]:
        def step() -> None:
            done.append(f"{name} after {link.closed}")
            raise RuntimeError(name)

        return step

    link = ScriptedLink(ScriptedAgent())
    agent = Agent(link, ALL, 60, at_close=note("first"))
    agent.at_close(note("second"))
    with agent as entered:
        assert entered is agent
    agent.close()
    assert done == ["second after 1", "first after 1"]


def test_a_board_held_for_us_is_told_that_we_are_there(monkeypatch: pytest.MonkeyPatch) -> None:
    assert keep_alive.EVERY_S == 15.0  # PROTOCOL.md, "One board, one user"
    monkeypatch.setattr(keep_alive, "EVERY_S", 0.01)
    told = threading.Event()
    script = ScriptedAgent({frames.PING: lambda f: told.set() or iter([(f.type, f.payload)])})
    link = ScriptedLink(script)
    agent = Agent(link, ALL, 60, reopen=lambda: link)
    assert told.wait(30)
    agent.close()
    assert {f.payload for f in script.asked if f.type == frames.PING} == {b""}
    assert not [t for t in threading.enumerate() if t.name == "qverify keep-alive" and t.join(30) and t.is_alive()]


def test_a_board_that_nobody_else_may_reach_is_told_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    before = threading.active_count()
    with opened(ScriptedAgent()) as agent:
        assert threading.active_count() == before and not agent.shared


def test_no_ping_is_sent_under_a_call_or_after_the_end() -> None:
    script = ScriptedAgent()
    agent = opened(script)
    agent._ping_unasked()
    assert kinds(script) == [frames.PING]
    with agent.turn:
        other = threading.Thread(target=agent._ping_unasked)
        other.start()
        other.join(30)
        assert not other.is_alive() and kinds(script) == [frames.PING]
    link_of(agent).ends = 0
    agent._ping_unasked()  # what fails there is for the next call to find out
    agent._ping_unasked()
    with pytest.raises(LinkClosed):
        agent.ping()
    sent = len(link_of(agent).sent)
    agent._ping_unasked()
    assert len(link_of(agent).sent) == sent
    taken = threading.Thread(target=lambda: agent.turn.acquire(blocking=False) and agent.turn.release())
    taken.start()
    taken.join(30)
    agent.close()


def test_a_ping_gives_the_turn_back() -> None:
    agent, got = opened(ScriptedAgent()), list[bool]()
    agent._ping_unasked()
    other = threading.Thread(target=lambda: got.append(agent.turn.acquire(blocking=False)))
    other.start()
    other.join(30)
    assert got == [True]


def test_a_call_holds_the_turn() -> None:
    held: list[bool] = []

    def answer(f: Frame) -> Iterator[Reply]:
        other = threading.Thread(target=lambda: held.append(not agent.turn.acquire(blocking=False)))
        other.start()
        other.join(30)
        yield f.type, f.payload

    agent = opened(ScriptedAgent({frames.PING: answer}))
    agent.ping()
    assert held == [True] and agent.ping.__name__ == "ping"
    agent.close()


def test_a_keep_alive_ends_with_its_object(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keep_alive, "EVERY_S", 0.01)

    class Board:
        pinged = threading.Event()

        def ping(self) -> None:
            self.pinged.set()

    before, board = set(threading.enumerate()), Board()
    keep_alive.keep_alive(board.ping)
    (thread,) = set(threading.enumerate()) - before
    assert thread.daemon and board.pinged.wait(30)
    del board
    thread.join(30)
    assert not thread.is_alive()
    assert conversation.RECONNECTS == 3
