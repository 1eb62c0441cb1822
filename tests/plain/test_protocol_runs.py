"""Runs and their events (PROTOCOL.md, "The events of a run"): asked for, gathered, lost, cancelled, contradicting."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any

import pytest
from qverify_agents.errors import AgentError, Contradiction, ProtocolError
from qverify_agents.protocol import frames, messages
from qverify_agents.protocol.frames import Frame
from qverify_agents.protocol.messages import NodeEvent

from tests.plain.scripted_agent import A, B, Reply, ScriptedAgent, kinds, node, opened


def flags_of(script: ScriptedAgent) -> tuple[int, int]:
    """Flags and repeat of the last RUN."""
    payload = [f for f in script.asked if f.type == frames.RUN][-1].payload
    return struct.unpack_from("<BI", payload, 32)


@pytest.mark.parametrize(
    ("packs", "options", "wanted"),
    [
        (False, {}, (3, 1)),
        (False, {"digests": False, "repeat": 7}, (2, 7)),
        (False, {"nodes": ["t"], "names": ["t"]}, (1, 1)),
        (True, {"names": ["t"]}, (7, 1)),
        (True, {"names": ["t"], "nodes": ["t"], "digests": False}, (4, 1)),
        (True, {}, (3, 1)),
    ],
)
def test_what_a_run_asks_for(packs: bool, options: dict[str, Any], wanted: tuple[int, int]) -> None:
    script = ScriptedAgent()
    with opened(script, packs=packs) as agent:
        assert agent.run(A, [B], **options) == []
    assert flags_of(script) == wanted


def test_the_payload_of_a_run_and_of_a_unit() -> None:
    script = ScriptedAgent()
    with opened(script) as agent:
        agent.run(A, [B], nodes=["t", "u"], injected={"t": B})
        agent.run(A, [B], nodes="all", injected=None)
        agent.run_unit(A, ["y"], {"t": B})
    payloads = [f.payload for f in script.asked[1:]]
    assert payloads == [
        messages.encode_run(A, [B], ["t", "u"], {"t": B}, 1, 1),
        messages.encode_run(A, [B], [], {}, 3, 1),
        messages.encode_unit(A, ["y"], {"t": B}),
    ]


def gathered(f: Frame) -> Iterator[Reply]:
    records = struct.pack("<IQI", 1, 0xA, 2) + struct.pack("<IQI", 0, 0xB, 3)
    yield frames.NODES, struct.pack("<II", 0, 0) + records
    yield frames.DONE, ScriptedAgent().end(2)


def test_events_come_one_by_one_or_gathered() -> None:
    script, seen = ScriptedAgent(), list[str]()
    script.events = [(0, 0, 0xA, "t"), (1, 0, 0xB, "u")]
    with opened(script) as agent:
        found = agent.run(A, [], lambda event: seen.append(event.tensor), names=["u", "t"], events=["t", "u"])
        assert found == [NodeEvent("t", f"{10:016x}", 7), NodeEvent("u", f"{11:016x}", 7)] and seen == ["t", "u"]
        assert agent.run_unit(A, ["t", "u"], {}, names=["u", "t"], events=["t", "u"]) == found
        script.handlers = {frames.RUN: gathered, frames.UNIT: gathered}
        found = agent.run(A, [], lambda event: seen.append(event.tensor), names=["u", "t"])
        assert [(e.tensor, e.elapsed_ns) for e in found] == [("t", 2000), ("u", 3000)] and seen == ["t", "u"] * 2
        with pytest.raises(ProtocolError, match="NODES names tensor 1 of 1"):
            agent.run(A, [], names=["u"])


@pytest.mark.parametrize(("at", "cancelled"), [("t", True), ("u", True), ("none", False)])
@pytest.mark.parametrize("together", [False, True])
def test_a_run_is_cancelled_by_the_event_that_says_so(at: str, cancelled: bool, together: bool) -> None:
    script = ScriptedAgent()
    script.events = [(0, 0, 0xA, "t"), (1, 0, 0xB, "u")]
    if together:
        script.handlers[frames.RUN] = gathered
    with opened(script) as agent:
        agent.run(A, [], lambda event: event.tensor == at, names=["u", "t"])
        agent.run(A, [], lambda event: 1, names=["u", "t"])  # only True cancels
    assert kinds(script).count(frames.CANCEL) == cancelled


def test_an_event_that_comes_again_is_shown_once() -> None:
    script, seen = ScriptedAgent(), list[str]()
    script.events = [(0, 0, 0xA, "t"), (0, 0, 0xA, "t")]
    script.handlers[frames.RUN] = lambda f: iter([*map(node, script.events), (frames.DONE, script.end(1))])
    with opened(script) as agent:
        assert len(agent.run(A, [], lambda event: seen.append(event.tensor))) == 1
    assert seen == ["t"]
    for call in ("run", "run_unit"):
        script.handlers[frames.UNIT] = script.handlers[frames.RUN]
        with opened(script, ahead=1) as agent, pytest.raises(Contradiction, match="twice"):
            agent.run(A, []) if call == "run" else agent.run_unit(A, [], {})
        with opened(script, ahead=0) as agent:  # where frames may come twice, that is no lie
            assert agent.run(A, []) if call == "run" else agent.run_unit(A, [], {})


@pytest.mark.parametrize("lost", [{0}, {1}, {2}, {0, 1, 2}, {0, 2}])
def test_events_lost_on_the_way_are_asked_for(lost: set[int]) -> None:
    script, seen = ScriptedAgent(), list[str]()
    script.events = [(i, 0, i + 1, f"t{i}") for i in range(3)]

    def run(f: Frame) -> Iterator[Reply]:
        yield from (node(e) for e in script.events if e[0] not in lost)
        yield frames.DONE, script.end()

    script.handlers[frames.RUN] = run
    for ahead in (0, 1):
        with opened(script, ahead=ahead) as agent:
            found = agent.run(A, [], lambda event: seen.append(event.tensor))
        assert [e.tensor for e in found] == ["t0", "t1", "t2"] and sorted(seen[-3:]) == ["t0", "t1", "t2"]
    asked = [struct.unpack("<I", f.payload)[0] for f in script.asked if f.type == frames.EVENTS]
    assert asked == [min(lost)] * 2  # each answer brings all from there


def test_an_event_that_the_board_lost() -> None:
    script = ScriptedAgent()
    script.events = [(0, 0, 1, "t"), (1, 0, 2, "u")]
    script.handlers[frames.RUN] = lambda f: iter([node(script.events[0]), (frames.DONE, script.end())])
    script.handlers[frames.EVENTS] = lambda f: iter([(f.type, b"")])
    with opened(script) as agent, pytest.raises(ProtocolError, match="the board lost event 1 of 2"):
        agent.run(A, [])


@pytest.mark.parametrize(
    ("events", "names", "wanted", "message"),
    [
        ([(0, 0, 1, "v")], ["t"], None, "an event of 'v', which is not a tensor of this model"),
        ([(0, 0, 1, "t"), (1, 0, 1, "u")], ["t", "u"], ["t"], "event 1; this run has at most 1"),
        ([(0, 0, 1, "t")], [], ["t", "u"], "ended its run with 1 event; this run has 2"),
        ([(0, 1, 1, "t")], [], None, "an event of iteration 1"),
    ],
)
def test_events_that_the_run_cannot_have(
    events: list[tuple[int, int, int, str]], names: list[str], wanted: list[str] | None, message: str
) -> None:
    script = ScriptedAgent()
    script.events = events
    with opened(script) as agent:
        with pytest.raises(Contradiction, match=message):
            agent.run(A, [], names=names, events=wanted)
        with pytest.raises(Contradiction, match=message):
            agent.run_unit(A, [], {}, names=names, events=wanted)


def test_a_repeated_run_has_its_events_of_each_iteration() -> None:
    script = ScriptedAgent()
    script.events = [(i, i // 2, i, "tu"[i % 2]) for i in range(6)]
    with opened(script) as agent:
        found = agent.run(A, [], repeat=3, events=["t", "u"])
        assert [(e.tensor, e.iteration) for e in found] == [(n, i) for i in range(3) for n in "tu"]
        with pytest.raises(Contradiction, match="this run has at most 4"):
            agent.run(A, [], repeat=2, events=["t", "u"])


def test_what_the_end_of_a_run_says_is_kept() -> None:
    script = ScriptedAgent()
    with opened(script) as agent:
        assert agent.kept
        script.done = (0, "", 0, 0)
        agent.run(A, [])
        assert agent.kept is False
        script.done = (-6, "two inputs wanted", 0, 1)
        with pytest.raises(AgentError, match=r"the agent says: two inputs wanted .status -6") as caught:
            agent.run(A, [])
        assert caught.value.status == -6 and agent.kept is True
