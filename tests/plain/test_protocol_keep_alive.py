"""What goes on beside the calls over a link: PING of a board that is held, closing, what a console shows between frames."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator

import pytest
from qverify_agents.errors import LinkClosed
from qverify_agents.interfaces import ALL_FEATURES
from qverify_agents.protocol import conversation, frames, keep_alive
from qverify_agents.protocol.client import Agent
from qverify_agents.protocol.frames import Frame

from tests.plain.scripted_agent import Reply, ScriptedAgent, ScriptedLink, kinds, link_of, opened


def test_closing_waits_for_no_call_that_never_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(conversation, "PATIENCE_S", 0.01)
    agent, done = opened(ScriptedAgent()), list[str]()
    agent.at_close(lambda: done.append("gone"))
    with agent.turn:
        other = threading.Thread(target=agent.close)
        other.start()
        other.join(30)
        assert done == ["gone"]


def test_what_a_console_shows_between_frames() -> None:
    lines = b"one two\r\n  abc\n abcd \n\xff spoilt\nbell\x07 rings\n" + b"x" * 300 + b"\n"
    script = ScriptedAgent({frames.PING: lambda f: iter([lines, (f.type, f.payload)])})
    with opened(script, output_before="Linux boots\n[ok]") as agent:
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
    agent = Agent(link, ALL_FEATURES, 60, at_close=note("first"))
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
    agent = Agent(link, ALL_FEATURES, 60, reopen=lambda: link)
    assert told.wait(30)
    agent.close()
    assert {f.payload for f in script.asked if f.type == frames.PING} == {b""}
    assert not [t for t in threading.enumerate() if t.name == "qverify keep-alive" and t.join(30) and t.is_alive()]


def test_a_board_that_nobody_else_may_reach_is_told_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    before = set(threading.enumerate())
    with opened(ScriptedAgent()) as agent:
        assert not set(threading.enumerate()) - before and not agent.shared


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
    assert conversation.MAX_RECONNECTS == 3
