"""Experiments on the board: what confirms a cause, what withdraws it, and what leaves it open."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from qverify.renderers.fault_explanation import details, verdict
from qverify.triage import evidence
from qverify.triage.experiment_inputs import KINDS, draw_inputs
from qverify.triage.experiments import CERTAINTY_BITS, reads_other_tensors
from qverify.triage.forensics import explain_fault
from qverify_agents.errors import LinkClosed

from tests.plain.experiment_boards import FaultyUnit, cause, decided, flipped, random_like, unit
from tests.plain.fault_units import case_of
from tests.plain.forensic_units import Conv, generator

Array = Any
LOW = flipped(0)


def test_a_cause_that_gives_every_byte_is_confirmed():
    case, board = unit(LOW), FaultyUnit(LOW)
    series = decided(case, board, cause("the lowest bit is inverted", LOW))
    assert series.confirmed and not series.why and not series.fallen
    assert [run.kind for run in series.experiments] == [*KINDS]
    for run, ran in zip(series.experiments, board.ran[1:], strict=True):  # the first repeated the recorded run
        drawn = case.on_inputs(draw_inputs(case, run.kind, run.seed))
        assert (run.place, run.stood, run.fell, run.elements, run.changed) == ("node", 1, 0, 105, 105)
        assert run.board == ran.digest != run.simulator and np.array_equal(ran.output, LOW(drawn))
    assert not any(ran.fetched for ran in board.ran)  # digests tell


def test_one_value_everywhere_has_many_causes():
    def emptied(case: Any) -> Array:
        return np.full_like(case.healthy, 7)

    series = decided(unit(emptied), FaultyUnit(emptied), cause("7 everywhere", emptied))
    assert not series.confirmed and series.standing and len(series.experiments) >= len(KINDS)
    assert series.why == "the board gave one value everywhere in every experiment, for which there are many causes"


def test_a_planted_fault_of_arithmetic_is_confirmed():
    """Planted in plain numpy, told from all that the pages of hypotheses hold."""
    c = Conv()

    def without_bias(case: Any) -> Array:
        c.x = case.inputs["x"]
        return c.out(c.acc(bias=np.zeros(10, np.int32)))

    found = explain_fault(case_of(c, without_bias(case_of(c))), board=FaultyUnit(without_bias))
    assert found.confirmed and len(found.experiments) == len(KINDS) and found.evidence_bits > 1000
    told = verdict(found)
    same = "; or the bias is rounded half up to a multiple of 8192; or "  # every one is below 4096
    assert told.startswith(f"EXPLAINED: bias left out{same}")
    assert [g[0].family for g in found.exact] == ["bias"]
    assert (
        "; confirmed by 6 experiments on the board (the node alone on new inputs): all 990 elements predicted" in told
    )
    assert sum(line.startswith("experiment ") for line in details(found)) == 6
    single = replace(found, experiments=[replace(run, elements=1, changed=1) for run in found.experiments])
    assert "(the node alone on new inputs): its one element predicted each time" in verdict(single)


def test_a_cause_that_fits_the_record_alone_falls():
    """The record holds no element at the end of the type, where the two causes part."""

    def wraps(case: Any) -> Array:
        return (case.healthy.astype(np.int64) + 1).astype(np.int8)

    def saturates(case: Any) -> Array:
        return np.minimum(case.healthy.astype(np.int64) + 1, 127).astype(np.int8)

    case = unit(wraps)
    case = replace(case, inputs={"x": np.minimum(case.inputs["x"], 100)}, cache={})
    case = replace(case, recorded=wraps(case), cache={})
    series = decided(case, FaultyUnit(wraps), cause("saturates", saturates), cause("wraps", wraps))
    assert [c.cause.said for c in series.standing] == ["wraps"] and series.confirmed
    ((fell),) = series.fallen
    assert fell.cause.said == "saturates" and fell.experiment == 1
    assert [(run.stood, run.fell) for run in series.experiments] == [(1, 1)] + [(1, 0)] * 5


def test_where_every_cause_falls_nothing_is_explained():
    """The fault is another for other inputs, so what fits the record is none."""
    recorded: dict[bytes, Array] = {}

    def fickle(case: Any) -> Array:
        known = case.inputs["x"].tobytes() in recorded or not recorded
        recorded.setdefault(case.inputs["x"].tobytes(), case.healthy)
        return case.healthy ^ np.int8(1 if known else 2)

    case = unit(fickle)
    found = explain_fault(case, board=FaultyUnit(fickle))
    assert not found.confirmed and found.unexplained and not found.exact and not found.general
    assert {fell.experiment for fell in found.fallen} == {1} and len(found.experiments) == 1
    assert "that fitted the recorded bytes failed on the board" in verdict(found)
    assert verdict(found).startswith("UNEXPLAINED: no known fault")
    assert any(line.startswith("failed experiment 1: ") for line in details(found))
    assert found.unconfirmed == "no cause gave every byte of experiment 1"


@pytest.mark.parametrize("most", [1, 2])
def test_fewer_than_three_experiments_confirm_nothing(most: int):
    series = decided(unit(LOW), FaultyUnit(LOW, most=most), cause("it", LOW))
    assert not series.confirmed and series.why == f"only {most} of 3 experiments were run" and series.standing
    assert decided(unit(LOW), FaultyUnit(LOW, most=3), cause("it", LOW)).confirmed


def test_no_experiment_starts_after_the_deadline():
    board = FaultyUnit(LOW)
    series = decided(unit(LOW), board, cause("it", LOW), wait=-1)
    assert not series.confirmed and not series.experiments and series.standing
    assert series.why == "the time limit was reached (--explain SECONDS)"
    assert decided(unit(LOW), board, wait=-1).why == "no experiment was run"


def test_a_fault_that_does_not_show_is_not_confirmed():
    """It needs exactly the recorded inputs, so each experiment is as on a healthy board."""
    given = unit(LOW).inputs["x"]

    def rare(case: Any) -> Array:
        return LOW(case) if np.array_equal(case.inputs["x"], given) else case.healthy

    series = decided(unit(rare), FaultyUnit(rare), cause("rare", rare))
    assert all(run.board == run.simulator and run.changed == 0 and run.stood == 1 for run in series.experiments)
    assert (series.confirmed, series.bits) == (False, 0.0)
    assert series.why == "the fault showed in 0 different ways in 24 experiments, where 2 were wanted"


def test_a_difference_that_comes_again_is_evidence_once():
    """Two elements that are always the same, whatever the inputs are."""
    places, values = [3, 70], np.array([77, -99], np.int8)

    def stuck(case: Any, plus: int = 0) -> Array:
        y = case.healthy.copy()
        y.reshape(-1)[places] = values + np.int8(plus)
        return y

    case, bits = unit(stuck), evidence.log2_choices(105, 2) + 16
    series = decided(case, FaultyUnit(stuck), cause("stuck", stuck))
    assert len(series.experiments) == 24 and {run.changed for run in series.experiments} == {2}
    assert not series.confirmed and series.bits == pytest.approx(bits)
    assert series.why == "the fault showed in 1 different way in 24 experiments, where 2 were wanted"

    def moving(case: Any) -> Array:
        return stuck(case, int(case.inputs["x"].sum()) % 5)

    shown = {
        tuple(moving(case.on_inputs(draw_inputs(case, r.kind, r.seed))).reshape(-1)[places]) for r in series.experiments
    }
    assert len(shown) > 2
    series = decided(unit(moving), FaultyUnit(moving), cause("moving", moving))
    assert series.confirmed and series.bits >= 2 * (bits - 8)


def test_the_evidence_must_exceed_the_choice():
    """The choice is that of the cause, of its part of the output, and of all that was tried."""
    case = unit(LOW)
    told = decided(case, FaultyUnit(LOW, most=5), cause("it", LOW)).bits
    for bits, part_bits, tried in ((told, 0.0, 1), (0.0, told, 1), (0.0, 0.0, 2 ** int(told))):
        series = decided(case, FaultyUnit(LOW, most=5), cause("it", LOW, bits, part_bits=part_bits), tried=tried)
        assert not series.confirmed and series.standing
        assert series.why.startswith(f"the experiments give {told:.0f} bits of evidence, where ")
    least = told - CERTAINTY_BITS - 1
    assert decided(case, FaultyUnit(LOW, most=5), cause("it", LOW, least / 2, part_bits=least / 2), tried=2).confirmed
    assert not decided(
        case, FaultyUnit(LOW, most=5), cause("it", LOW, least / 2, part_bits=least / 2), tried=4
    ).confirmed


TAIL = np.zeros((1, 6, 9, 11), bool)
TAIL[..., 8:] = True


def left_over(garbage: Any) -> Any:
    """The last three columns are not written; garbage: what a case finds there."""
    return lambda case: np.where(TAIL, garbage(case), case.healthy)


def test_elements_that_are_not_written_stay():
    """What lies there is nowhere predicted: it must be the same in each experiment, and the rest as computed."""
    memory = random_like(np.zeros(TAIL.shape, np.int8), generator(41))
    stays = left_over(lambda case: memory)
    follows = left_over(lambda case: random_like(memory, generator(abs(int(case.inputs["x"].sum())))))
    said = cause("not written", lambda case: np.where(TAIL, case.recorded, case.healthy), free=TAIL.reshape(-1))
    series = decided(unit(stays, TAIL.shape), FaultyUnit(stays), said)
    assert series.standing and not series.fallen and len(series.experiments) == 6
    board = FaultyUnit(follows)
    series = decided(unit(follows, TAIL.shape), board, said)
    assert not series.standing and [fell.experiment for fell in series.fallen] == [2]
    assert [ran.fetched for ran in board.ran] == [0, 1, 1]  # a digest does not tell
    elsewhere = lambda case: np.where(TAIL, memory, case.healthy ^ (case.inputs["x"].sum() % 2).astype(np.int8))  # noqa: E731
    assert not decided(unit(stays, TAIL.shape), FaultyUnit(elsewhere), said).standing


def test_of_experiments_one_is_drawn_where_causes_part():
    """With the first seed both causes give the same, with the second they do not."""
    case = unit(LOW)
    other = draw_inputs(case, "uniform", 2)["x"]
    parts = lambda c: c.healthy if np.array_equal(c.inputs["x"], other) else LOW(c)  # noqa: E731
    series = decided(case, FaultyUnit(LOW), cause("parts", parts), cause("it", LOW))
    assert (series.experiments[0].seed, series.experiments[0].fell) == (2, 1)
    assert decided(case, FaultyUnit(LOW), cause("it", LOW)).experiments[0].seed == 1


def test_a_fault_of_the_run_is_tried_on_the_network():
    """The unit by itself gives healthy bytes: what is wrong comes from the run around it."""
    board = FaultyUnit(lambda case: case.healthy, within=LOW)
    series = decided(unit(LOW), board, cause("it", LOW))
    assert series.confirmed and len(board.ran) == 1
    assert {run.place for run in series.experiments} == {"network"} and len(series.experiments) == 6
    assert {run.kind for run in series.experiments} == {"network"} and board.asked == [frozenset()] * 6
    assert [run.seed for run in series.experiments] == [1, 2, 3, 4, 5, 6]
    assert len({run.inputs["x"] for run in series.experiments}) == 6
    found = explain_fault(unit(LOW), board=FaultyUnit(lambda case: case.healthy, within=LOW))
    assert "confirmed by 6 experiments on the board (the whole network on new inputs)" in verdict(found)
    assert any("random inputs of the network (seed 1)" in line for line in details(found))


def test_a_board_that_runs_no_single_node_runs_the_network():
    board = FaultyUnit(lambda case: case.healthy, within=LOW, why_not="the board runs no single node")
    series = decided(unit(LOW), board, cause("it", LOW))
    assert series.confirmed and not board.ran and {run.place for run in series.experiments} == {"network"}


def network_values(seed: int) -> dict[str, Array]:
    return {"other": random_like(np.zeros((1, 3, 5, 7), np.int8), generator(2000 + seed))}


def test_a_cause_that_reads_other_tensors_is_tried_on_the_network():
    """The unit by itself knows none of them; of the run before, they are those of the run before."""
    known = network_values(0)
    for find in ("board", "previous"):
        stale = lambda case, find=find: getattr(case, find)("other")  # noqa: E731
        case = unit(stale, board=known.get, previous=known.get)
        said = cause("the output is other", stale)
        assert reads_other_tensors(case, said) == {"other"} and not reads_other_tensors(case, cause("it", LOW))
        board = FaultyUnit(stale, others=network_values)
        series = decided(case, board, cause("it", LOW), said)
        assert not board.ran and [c.cause.said for c in series.standing] == ["the output is other"]
        assert series.confirmed and board.asked[0] == {"other"}
        assert [fell.experiment for fell in series.fallen] == [1]


def test_a_cause_that_cannot_say_falls():
    def breaks(case: Any) -> Array:
        raise ValueError("shapes")

    for way in (breaks, lambda case: LOW(case)[:, 1:], lambda case: LOW(case).astype(np.int16)):
        assert decided(unit(LOW), FaultyUnit(LOW), cause("it", way)).standing == []


def test_a_link_that_is_lost_is_told():
    with pytest.raises(LinkClosed, match="the board is gone"):
        decided(unit(LOW), FaultyUnit(LOW, lasts=2), cause("it", LOW))
