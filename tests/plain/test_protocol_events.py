"""The events of a run (PROTOCOL.md, "The events of a run"): which there can be, and what contradicts the request or another."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from qverify_agents.errors import Contradiction
from qverify_agents.protocol.events import EventLedger
from qverify_agents.protocol.messages import Done, NodeEvent


def event(tensor: str, iteration: int = 0, digest: str = "0a", elapsed_ns: int = 1) -> NodeEvent:
    return NodeEvent(tensor, digest, elapsed_ns, iteration)


def done(events: int, status: int = 0) -> Done:
    return Done(status, "", 0, events, True)


@pytest.mark.parametrize(
    ("ledger", "most"),
    [
        (EventLedger(), 1 << 20),
        (EventLedger(repeat=5), 1 << 20),
        (EventLedger(frozenset("ab")), 2),
        (EventLedger(frozenset("ab"), repeat=3), 6),
        (EventLedger(frozenset("ab"), ["a"], repeat=3), 3),
        (EventLedger(frozenset("ab"), []), 0),
        (EventLedger(wanted=["a", "b"], repeat=0), 2),
        (EventLedger(wanted=["a"], repeat=(1 << 20) + 1), 1 << 20),
    ],
)
def test_how_many_there_can_be(ledger: EventLedger, most: int) -> None:
    assert ledger.most == most


@pytest.mark.parametrize(
    ("ledger", "index", "given", "message"),
    [
        (EventLedger(frozenset("ab")), 0, event("c"), "an event of 'c', which is not a tensor of this model"),
        (EventLedger(frozenset("ab")), 2, event("a"), "event 2; this run has at most 2"),
        (EventLedger(), 1 << 20, event("a"), "event 1048576; this run has at most 1048576"),
        (EventLedger(), 0, event("a", 1), "an event of iteration 1; this run has 1, counted from 0"),
        (EventLedger(repeat=3), 0, event("a", 3), "an event of iteration 3; this run has 3, counted from 0"),
        (EventLedger(repeat=0), 0, event("a", 1), "an event of iteration 1; this run has 0"),
        (
            EventLedger(wanted=["a", "b"]),
            1,
            event("a"),
            "event 1 as 'a' of iteration 0; in this run it is 'b' of iteration 0",
        ),
        (
            EventLedger(wanted=["a", "b"], repeat=2),
            2,
            event("a", 0),
            "event 2 as 'a' of iteration 0; .* 'a' of iteration 1",
        ),
        (EventLedger(frozenset("ab")), 0, event("x\x1b" * 60), r"an event of '(x\?){30}', which is not a tensor"),
    ],
)
def test_an_event_that_the_run_does_not_have(ledger: EventLedger, index: int, given: NodeEvent, message: str) -> None:
    with pytest.raises(Contradiction, match=message):
        ledger.add(index, given, 0)
    assert ledger.in_order() == []


@settings(deadline=None)
@given(st.integers(1, 4), st.integers(1, 5), st.randoms())
def test_a_run_in_any_order(repeat: int, count: int, chance) -> None:
    names = [f"t{i}" for i in range(count)]
    every = [event(name, turn) for turn in range(repeat) for name in names]
    ledger, order = EventLedger(frozenset(names), names, repeat), list(range(len(every)))
    chance.shuffle(order)
    for at, index in enumerate(order):
        lacking = min(order[at:])
        assert ledger.first_lacking(done(len(every))) == lacking
        assert ledger.add(index, every[index], 0) == (True, True)
    assert ledger.first_lacking(done(len(every))) is None and ledger.in_order() == every


def test_the_same_event_again() -> None:
    """On a link that loses frames it may come; on another only where it was asked for, or over a new connection."""
    lossy, sound = EventLedger(), EventLedger(lossy=False)
    for ledger in (lossy, sound):
        assert ledger.add(0, event("a"), 0) == (True, True)
    assert lossy.add(0, event("a", elapsed_ns=9), 0) == (False, False)
    assert sound.add(0, event("a"), 0, requested=True) == (False, False)
    assert sound.add(0, event("a"), 1) == (True, False)
    with pytest.raises(Contradiction, match=r"event 0 \('a'\) twice"):
        sound.add(0, event("a"), 1)
    assert lossy.add(0, event("a"), 1) == (True, False) and lossy.add(0, event("a"), 1) == (False, False)
    assert lossy.in_order() == [event("a")]


@pytest.mark.parametrize("other", [event("b"), event("a", 1), event("a", digest="0b")])
def test_one_index_has_one_content(other: NodeEvent) -> None:
    ledger = EventLedger(repeat=2)
    ledger.add(4, event("a"), 0)
    with pytest.raises(Contradiction, match=r"event 4 twice, as 'a' with digest 0a and as '[ab]' with 0[ab]"):
        ledger.add(4, other, 0, requested=True)


def test_one_tensor_has_one_event_an_iteration() -> None:
    ledger = EventLedger(repeat=2)
    ledger.add(0, event("a"), 0)
    ledger.add(1, event("a", 1), 0)
    with pytest.raises(Contradiction, match="two events of 'a' in iteration 1: 1 and 2"):
        ledger.add(2, event("a", 1), 0)


def test_what_the_end_of_a_run_says() -> None:
    known, unknown = EventLedger(wanted=["a", "b"]), EventLedger()
    for ledger in (known, unknown):
        ledger.add(1, event("b"), 0)
    for count in (1, 3):
        with pytest.raises(Contradiction, match=f"ended its run with {count} events?; this run has 2"):
            known.first_lacking(done(count))
    assert known.first_lacking(done(2)) == unknown.first_lacking(done(2)) == 0
    with pytest.raises(Contradiction, match="sent event 1 and then ended its run with 1 event"):
        unknown.first_lacking(done(1))
    assert known.first_lacking(done(1, status=-7)) == 0 and known.first_lacking(done(0, status=-7)) is None
    assert EventLedger().first_lacking(done(0)) is None and EventLedger(wanted=[]).first_lacking(done(0)) is None
