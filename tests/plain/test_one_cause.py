"""Causes at several nodes of one op: they agree, or withdraw each other; healthy nodes say where a cause is."""

from __future__ import annotations

import functools
import time
from copy import deepcopy
from dataclasses import replace
from typing import Any

import numpy as np
from qverify.renderers.fault_explanation import verdict
from qverify.triage.case import Case
from qverify.triage.fault import Fault
from qverify.triage.fault_search import FaultSearch, search_faults
from qverify.triage.forensics import FaultExplanation, decide
from qverify.triage.one_cause import ALONE_BITS, MAX_FAMILIES, compare_causes, describe_kind

from tests.plain.experiment_boards import LATER, FaultyUnit
from tests.plain.fault_units import case_of
from tests.plain.forensic_units import Conv

Array = Any
ONE_MODEL = "not tried in other shapes: this board has one model"


def without_bias(c: Conv, x: Array) -> Array:
    c.x = x
    return c.out(c.acc(bias=np.zeros(10, np.int32)))


def without_zero_point(c: Conv, x: Array) -> Array:
    c.x = x
    return c.out(c.acc(zero=0))


def spoiled(c: Conv, x: Array) -> Array:
    """No known fault."""
    c.x = x
    return c.out() ^ (np.arange(990).reshape(1, 10, 9, 11) % 7 == 3).astype(np.int8) * np.int8(c.out()[0, 0, 0, 0] & 63)


@functools.cache
def decided(seed: int, fault: Any) -> tuple[FaultSearch, FaultExplanation]:
    """Returns what a search and experiments say of this fault. It is computed once; whoever alters it takes a copy."""
    c = Conv(seed=seed)
    search = search_faults(case_of(c, fault(c, c.x)))
    board = FaultyUnit(lambda case: fault(c, case.inputs["x"]))
    return search, decide(search, board, time.monotonic() + LATER)


class Nodes:
    """Convolutions at which the board is blamed, each with what experiments on its fault say."""

    def __init__(self, *faults: Any):
        self.searches = dict[str, FaultSearch]()
        self.found = dict[str, FaultExplanation]()
        for seed, fault in enumerate(faults, 3):
            self.searches[f"conv{seed}"], self.found[f"conv{seed}"] = deepcopy(decided(seed, fault))

    def compare(self, *others: Case, wait: float = LATER) -> list[bool]:
        compare_causes(self.searches, self.found, others, time.monotonic() + wait)
        return [found.confirmed for found in self.found.values()]


def test_the_same_cause_at_two_nodes_stays():
    nodes = Nodes(without_bias, without_bias)
    assert nodes.compare() == [True, True]
    assert all(found.exact[0][0].family == "bias" and not found.unconfirmed for found in nodes.found.values())


def test_different_causes_at_nodes_of_one_op_withdraw_each_other():
    nodes = Nodes(without_bias, without_zero_point)
    assert all(found.confirmed for found in nodes.found.values())
    assert nodes.compare() == [False, False]
    for found in nodes.found.values():
        assert found.unconfirmed == "2 nodes of this op have different causes, and one kernel has one"
        assert verdict(found).startswith("CANDIDATE: ") and verdict(found).endswith(found.unconfirmed)


def test_different_causes_at_nodes_of_different_ops_stay():
    nodes = Nodes(without_bias, without_zero_point)
    case = nodes.searches["conv4"].case
    case.unit = replace(case.unit, op="fully_connected")
    assert nodes.compare() == [True, True]


def test_a_blamed_node_that_does_not_have_the_cause_withdraws_it():
    nodes = Nodes(without_bias, spoiled)
    assert not nodes.found["conv4"].confirmed
    assert nodes.compare() == [False, False]
    assert (
        nodes.found["conv3"].unconfirmed == "conv4, another conv at which the board is blamed, does not have this cause"
    )


def test_a_blamed_node_that_was_not_decided_may_have_the_cause():
    """It fits its bytes, but there was no time for experiments."""
    nodes = Nodes(without_bias, without_bias)
    late = nodes.searches["conv4"]
    nodes.found["conv4"] = decide(late, FaultyUnit(lambda case: case.recorded), time.monotonic() - 1)
    assert nodes.compare() == [True, False]
    assert nodes.found["conv4"].unconfirmed == "the time limit was reached (--explain SECONDS)"


def test_what_nodes_have_in_common_is_named_first():
    nodes = Nodes(without_bias, without_bias)
    other = [Fault("clamp", "something else", 1.0)]
    nodes.found["conv3"].exact.insert(0, other)
    assert nodes.compare() == [True, True]
    assert nodes.found["conv3"].exact[0][0].family == "bias" and nodes.found["conv3"].exact[1] == other


def healthy(seed: int, bias: int = 3000) -> Case:
    return case_of(Conv(seed=seed, bias=bias))


def test_healthy_nodes_where_the_cause_changes_nothing_agree():
    """Their bias is zero everywhere, so that it may be left out."""
    nodes = Nodes(without_bias)
    plain = [healthy(seed) for seed in (7, 8)]
    for case in plain:
        case.graph.constants["b"][:] = 0
        case.cache.clear()
        case.recorded = case.healthy
    assert nodes.compare(*plain) == [True]
    assert nodes.found["conv3"].scope == f"{ONE_MODEL}; it predicts that 2 other conv nodes agree, and they do"
    assert verdict(nodes.found["conv3"]).endswith(nodes.found["conv3"].scope)
    nodes = Nodes(without_bias)
    nodes.compare(plain[0])
    assert nodes.found["conv3"].scope == f"{ONE_MODEL}; it predicts that 1 other conv node agrees, and it does"


def test_a_cause_that_healthy_nodes_contradict_needs_much_evidence():
    for bits, stays in ((ALONE_BITS, True), (ALONE_BITS - 1, False)):
        nodes = Nodes(without_bias)
        nodes.found["conv3"].evidence_bits = bits
        assert nodes.compare(healthy(7), healthy(8)) == [stays]
        found = nodes.found["conv3"]
        assert (
            found.scope
            == f"{ONE_MODEL}; at this node only: under the same fault y and 1 other would differ, and they are right"
        )
        why = "under the same fault y would differ, and it is right; 399 bits of evidence, where 400 were wanted"
        assert found.unconfirmed == ("" if stays else why)
        assert verdict(found).startswith("EXPLAINED: " if stays else "CANDIDATE: ")
    nodes = Nodes(without_bias)
    nodes.compare(healthy(7))
    assert (
        nodes.found["conv3"].scope
        == f"{ONE_MODEL}; at this node only: under the same fault y would differ, and it is right"
    )


def test_causes_of_many_families_that_healthy_nodes_contradict_are_candidates():
    """At a node where faults of several families do the same, that others are right says that it may be any of them."""
    nodes = Nodes(without_bias)
    group = nodes.found["conv3"].exact[0]
    group += [Fault(f"family {i}", f"fault {i}", 3.0) for i in range(MAX_FAMILIES)]
    assert nodes.compare(healthy(7)) == [False]
    count = len({cause.family for cause in group})
    why = f"under the same fault y would differ, and it is right; and faults of {count} families do the same here"
    assert nodes.found["conv3"].unconfirmed == why and count > MAX_FAMILIES


def test_healthy_nodes_are_not_tried_after_the_deadline_nor_for_candidates():
    nodes = Nodes(without_bias)
    assert nodes.compare(healthy(7), wait=-1) == [True]
    assert (
        nodes.found["conv3"].scope == f"{ONE_MODEL}; not tried on all other nodes of its op: the time limit was reached"
    )
    nodes = Nodes(without_bias, without_zero_point)
    nodes.compare(healthy(7))
    assert [found.scope for found in nodes.found.values()] == [ONE_MODEL, ONE_MODEL]


def test_a_kind_is_the_cause_without_numbers_and_names():
    case = case_of(Conv())
    said = "zero point of x: -7 instead of 12.5, from y 3 on"
    assert describe_kind(case, Fault("f", said, 1.0)) == ("f", "zero point of #: # instead of #, from # # on")
    said = "the next byte of any row"  # no tensor, though it contains their names
    assert describe_kind(case, Fault("f", said, 1.0)) == ("f", said)
    stale = [Fault("stale-buffer", f"stale buffer: the output is {name}", 1.0) for name in ("x", "w", "rq")]
    assert len({describe_kind(case, one) for one in stale}) == 1  # another tensor at another node


def test_rules_of_places_that_no_input_tells_apart_are_candidates():
    nodes = Nodes(without_bias)
    rules = [Fault("resize-nearest-source", f"rule {i}", 1.0) for i in range(2)]
    nodes.found["conv3"].exact = [rules[:1]]
    assert nodes.compare() == [True]
    nodes.found["conv3"].exact = [rules]
    assert nodes.compare() == [False]
    assert nodes.found["conv3"].unconfirmed == "2 rules of places give the same at this size, and others may"
    assert verdict(nodes.found["conv3"]).startswith("CANDIDATE: rule 0")


def test_a_limit_that_was_read_off_the_record_is_no_cause_however_many_nodes_have_it():
    """It says what the board shows: a Relu of an operand at its zero point is such a limit at a constant operand."""
    nodes = Nodes(without_bias, without_bias)
    limit = Fault("clamp", "clamp at 96 instead of 255 at the upper end", 8.0)
    for found in nodes.found.values():
        found.exact = [[limit]]
    assert nodes.compare() == [False, False]
    assert nodes.found["conv3"].unconfirmed == "this limit is what the board shows, not what makes it"
    nodes = Nodes(without_bias)
    nodes.found["conv3"].exact = [[Fault("clamp", "clamp Relu instead (96..255 instead of 0..255)", 2.0), limit]]
    assert nodes.compare() == [True]
