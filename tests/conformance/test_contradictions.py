"""Raises Contradiction for events that do not follow from the request or from earlier events (PROTOCOL.md)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from lying_agent import lying_board
from qverify.cli.main import main
from qverify.model_bin.records import encode
from qverify.model_bin.units import units
from qverify.sides.board import Board
from qverify.sides.simulator import Simulator
from qverify_agents.errors import Contradiction, LinkError, ProtocolError
from qverify_agents.protocol.events import EventLedger
from qverify_agents.protocol.messages import Done, NodeEvent
from tiny_model import graph, model_bytes, prepared

TWO_DIGESTS = "if at == 2: return [(f.type, node(2, 0, mark ^ 1, event.tensor)), (f.type, f.payload)]"
LIES = {
    "two digests, the right one last": (TWO_DIGESTS, "event 2 twice"),
    "two digests, the right one first": (
        "if at == 2: return [(f.type, f.payload), (f.type, node(2, 0, mark ^ 1, event.tensor))]",
        "event 2 twice",
    ),
    "the same event twice": ("if at == 2: return [(f.type, f.payload)] * 2", r"event 2 \('u'\) twice"),
    "a tensor under a second index": (
        """
if at == 3: return [(f.type, node(3, 0, mark ^ 1, "u")), (f.type, node(4, 0, mark, event.tensor))]
if f.type == frames.DONE: return [(f.type, done(f.payload, events=5))]""",
        "event 3 as 'u' of iteration 0; in this run it is 'y'",
    ),
    "one event more": (
        """
if f.type == frames.DONE: return [(frames.NODE, node(4, 0, 1, "u")), (f.type, done(f.payload, events=5))]""",
        "event 4; this run has at most 4",
    ),
    "another iteration's": ("if at == 1: return [(f.type, node(1, 1, mark, event.tensor))]", "of iteration 1"),
    "a tensor that was not asked for": (
        "if at == 0: return [(f.type, node(0, 0, mark, 'x'))]",
        "event 0 as 'x' of iteration 0; in this run it is 'q'",
    ),
    "two tensors exchanged": (
        "if at in (1, 2): return [(f.type, node(at, 0, mark, 'ut'[at - 1]))]",
        "event 1 as 'u' of iteration 0; in this run it is 't'",
    ),
    "no events": (
        """
if f.type == frames.NODE: return []
if f.type == frames.DONE: return [(f.type, done(f.payload, events=0))]""",
        "ended its run with 0 events; this run has 4",
    ),
    "fewer events": (
        """
if at > 1: return []
if f.type == frames.DONE: return [(f.type, done(f.payload, events=2))]""",
        "ended its run with 2 events; this run has 4",
    ),
    "fewer than it sent": (
        "if f.type == frames.DONE: return [(f.type, done(f.payload, events=3))]",
        "ended its run with 3 events; this run has 4",
    ),
    "more than it sent": (
        "if f.type == frames.DONE: return [(f.type, done(f.payload, events=5))]",
        "ended its run with 5 events; this run has 4",
    ),
    "other events than those asked for again": (
        """
if at == 1: return []
if f.type == frames.EVENTS: return [(f.type, node(2, 0, 1, "u"))]""",
        "asked for its events from 1 of 4 and sent event 2",
    ),
    "other digests when asked again": (
        """
if at == 1: return []
if f.type == frames.EVENTS: return [(f.type, node(1, 0, 1, "t") + node(2, 0, 1, "u") + node(3, 0, 1, "y"))]""",
        "event 2 twice",
    ),
    "bytes behind an event": ("if at == 1: return [(f.type, f.payload + b'x')]", "bytes, wanted"),
    "another kind of answer": (
        "if f.type == frames.DATA: return [(frames.PING, f.payload)]",
        "answered with message 10, wanted 9",
    ),
}


@pytest.fixture
def lies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[object]:
    boards = []

    def made(lie: str) -> Board:
        lying_board(lie, tmp_path, monkeypatch)
        boards.append(Board("local", model_bytes(), graph(), 20))
        return boards[-1]

    yield made
    for board in boards:
        board.close()


def test_behind_the_relay_an_honest_agent_is_right(lies) -> None:
    recording = lies("").run(prepared())
    assert recording.state == "complete" and recording.digests == Simulator(graph()).run(prepared()).digests


@pytest.mark.parametrize("lie", LIES, ids=[name.replace(" ", "_") for name in LIES])
def test_a_lie_is_an_error(lie: str, lies) -> None:
    text, said = LIES[lie]
    recording = lies(text).run(prepared())
    assert recording.state == "partial"
    with pytest.raises(AssertionError, match=said):
        raise AssertionError(recording.why)
    if "contradicts itself" in recording.why:
        assert not recording.digests and not recording.tensors and set(recording.missing) == {"q", "t", "u", "y"}


@pytest.mark.parametrize(
    ("lie", "said"),
    [
        ("if len(runs) > 1 and at == 2: return [(f.type, node(2, 0, 7, 'u')), (f.type, f.payload)]", "event 2 twice"),
        ("if len(runs) > 1 and f.type == frames.DONE: return [(f.type, done(f.payload, events=0))]", "with 0 events"),
    ],
)
def test_in_a_run_after_the_first(lie: str, said: str, lies) -> None:
    board = lies(lie)
    first = board.run(prepared())
    assert first.state == "complete"
    with pytest.raises(Contradiction, match=said):
        board.repeat_run(first.digests)


@pytest.mark.parametrize(
    ("lie", "said"),
    [
        ("if len(runs) > 1 and at == 0: return [(f.type, node(0, 0, 7, 'u')), (f.type, f.payload)]", "event 0"),
        (
            "if len(runs) > 1 and f.type == frames.DONE: return [(f.type, done(f.payload, events=2))]",
            "ended its run with 2 events; this run has 1",
        ),
    ],
)
def test_of_a_unit(lie: str, said: str, lies) -> None:
    board, unit = lies(lie), units(graph())[-1]
    assert board.run(prepared()).state == "complete"
    given = {n: np.zeros(graph().spec(n).shape, graph().spec(n).numpy_dtype) for n in unit.inputs}
    with pytest.raises(Contradiction, match=said):
        board.run_unit(unit, given)


@pytest.mark.parametrize("lie", [TWO_DIGESTS, LIES["no events"][0], LIES["another iteration's"][0]])
@pytest.mark.parametrize("more", [(), ("-r",), ("-c", "2"), ("--repeat", "2"), ("--pull", "all")])
def test_it_is_never_passed(lie: str, more: tuple[str, ...], tmp_path, monkeypatch, capsys) -> None:
    (tmp_path / "bin").mkdir()
    lying_board(lie, tmp_path / "bin", monkeypatch)
    (tmp_path / "model.bin").write_bytes(encode(graph()))
    assert main(["-m", str(tmp_path / "model.bin"), "-b", "local", *more]) == 3
    assert "the board contradicts itself" in capsys.readouterr().out


def test_a_link_that_brings_a_frame_twice_is_no_lie() -> None:
    """The same event again, where frames may come twice; over a link that is made anew, anywhere."""
    event = NodeEvent("u", "a" * 16, 1)
    lossy = EventLedger(wanted=["u"])
    assert lossy.add(0, event, 0) == (True, True) and lossy.add(0, event, 0) == (False, False)
    sound = EventLedger(wanted=["u"], lossy=False)
    assert sound.add(0, event, 0) == (True, True) and sound.add(0, event, 1) == (True, False)
    with pytest.raises(Contradiction):
        sound.add(0, event, 1)
    with pytest.raises(Contradiction):
        lossy.add(0, NodeEvent("u", "b" * 16, 1), 2)
    assert lossy.first_lacking(Done(0, "", 0, 1, True)) is None


def test_where_the_events_are_not_known_one_tensor_has_one_event() -> None:
    ledger = EventLedger()
    ledger.add(0, NodeEvent("u", "a" * 16, 1), 0)
    with pytest.raises(Contradiction, match="two events of 'u' in iteration 0: 0 and 1"):
        ledger.add(1, NodeEvent("u", "a" * 16, 1), 0)
    with pytest.raises(Contradiction, match="sent event 0 and then ended its run with 0 events"):
        ledger.first_lacking(Done(0, "", 0, 0, True))
    assert issubclass(Contradiction, ProtocolError) and issubclass(Contradiction, LinkError)
