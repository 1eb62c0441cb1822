"""One row of a convolution computed alone: the same bytes as all of it, and a search that concludes the same with it."""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import Any

import numpy as np
import pytest
from qverify.compare.forced import Located
from qverify.compare.limits import BITS
from qverify.model_bin.units import units
from qverify.report.document import Forced
from qverify.session.node_evidence import NodeEvidence
from qverify.session.triage.explain_nodes import _other_cases, simulated_exactly
from qverify.triage import one_row
from qverify.triage.altered_kernels.summands import reads_padding, summands
from qverify.triage.altered_kernels.summed_elements import elements, sample
from qverify.triage.case import Case, UnitChange
from qverify.triage.fault_search import complete_partial, search_faults
from qverify.triage.forensics import explain_fault
from qverify.triage.one_row import Recomputed, _compute_row, is_contradicted

from tests.plain.fault_units import case_of
from tests.plain.forensic_units import Conv, generator

Array = Any
WORDS: tuple[dict[str, int], ...] = (
    {},
    {"pad_top": 2, "pad_left": 0},
    {"pad_top": 0},
    {"act_max": 9},
)


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(one_row, "MIN_ELEMENTS", 1)


def changes(case: Case) -> list[UnitChange]:
    rng = generator(8)
    other = {"x": rng.integers(-128, 128, case.inputs["x"].shape).astype(np.int8)}
    spec = replace(case.graph.spec("x"), zero_point=(3,))
    weights = {"w": case.graph.constants["w"][::-1].copy()}
    return [
        *(case.change_words(**words) for words in WORDS),
        UnitChange(inputs=other),
        UnitChange(constants=weights),
        UnitChange(specs={"x": spec}),
        UnitChange(inputs=other, constants=weights, specs={"x": spec}),
    ]


@pytest.mark.parametrize("group", [1, 2])
def test_a_row_is_that_of_the_whole_output(group: int) -> None:
    for number in range(8):
        case = case_of(Conv(group=group))
        change = changes(case)[number]
        whole = case.recompute(change)
        for at in range(9):
            row = _compute_row(replace(case, cache={}, states={}), change, at)
            assert row is not None and np.array_equal(row[:, :, 0], whole[:, :, at]), (number, at)


@pytest.mark.parametrize(("stride", "dilation"), [(2, 1), (1, 2), (2, 2), (3, 1)])
def test_a_row_of_strided_and_dilated_windows(stride: int, dilation: int) -> None:
    case = case_of(Conv())
    rows, columns = ((n + 2 - 2 * dilation - 1) // stride + 1 for n in (9, 11))
    tensors = {**case.graph.tensors, "y": replace(case.spec, shape=(1, 10, rows, columns), aligned_shape=())}
    of = replace(case, graph=replace(case.graph, tensors=tensors))
    change = of.change_words(stride_h=stride, stride_w=stride, dilation_h=dilation, dilation_w=dilation)
    whole = of.recompute(change)
    for at in range(rows):
        row = _compute_row(of, change, at)
        assert row is not None and np.array_equal(row[:, :, 0], whole[:, :, at])


def test_only_what_fails_where_the_board_is_wrong_is_contradicted() -> None:
    c = Conv()
    recorded = c.out()
    recorded[0, :, 4:] = c.out(c.acc(zero=3, pad=3))[0, :, 4:]  # in a part of the rows
    case = case_of(c, recorded)
    true, other, none = (
        Recomputed(lambda case, z=zero: UnitChange(specs={"x": replace(case.graph.spec("x"), zero_point=(z,))}))
        for zero in (3, 4, -7)
    )
    assert not is_contradicted(case, true)
    assert is_contradicted(case, other) and is_contradicted(case, none)
    assert not is_contradicted(case, other.__call__) and not is_contradicted(case_of(c), other)  # nothing differs
    assert not is_contradicted(
        case, Recomputed(lambda case: case.change_words(stride_h=0))
    )  # it is left to the whole output
    assert not is_contradicted(case, Recomputed(lambda case: UnitChange(inputs={"x": case.inputs["x"][0]})))


@pytest.mark.parametrize("known", [True, False])
def test_a_search_concludes_the_same_with_a_row_and_without(known: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """This holds for a cause, and for bytes that nothing explains, whose nearest faults are then those of all variants."""
    c = Conv()
    recorded = (
        c.out(c.acc(w=c.w[:, ::-1])) if known else np.where(generator(5).random((1, 10, 9, 11)) < 0.6, 7, c.out())
    )
    recorded = np.asarray(recorded, np.int8)
    looked = explain_fault(case_of(c, recorded), 600.0)
    monkeypatch.setattr(one_row, "MIN_ROWS", 1000)
    whole = explain_fault(case_of(c, recorded), 600.0)
    assert looked.unexplained is whole.unexplained is not known
    apart = {"seconds"} | ({"families", "partial"} if known else set())
    assert {k: v for k, v in asdict(looked).items() if k not in apart} == {
        k: v for k, v in asdict(whole).items() if k not in apart
    }
    assert looked.families.keys() == whole.families.keys()


def test_what_a_row_contradicts_is_not_computed_before_it_is_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    c = Conv()
    search = search_faults(case_of(c, c.out(c.acc(w=c.w[:, ::-1]))), 600.0)
    assert search.groups and search.trial is not None and len(search.trial.contradicted) > 40
    assert search.families["element-offset"] < 1
    before = dict(search.families)
    complete_partial(search)
    assert not search.trial.contradicted and all(search.families[name] >= share for name, share in before.items())
    assert search.families != before


def test_padding_is_read_where_a_summand_is_padding() -> None:
    case = case_of(Conv())
    made = summands(case, np.arange(case.recorded.size))
    assert made is not None
    assert np.array_equal(reads_padding(case), ~made.read.reshape(case.recorded.size, -1).all(1))
    assert np.array_equal(reads_padding(case).reshape(10, 9, 11)[:, 1:-1, 1:-1].any(), False)
    assert made.x.dtype == made.w.dtype == np.int64


@pytest.mark.parametrize("rounding", ["ref-exact", "gemmlowp", "cmsis", "mul31"])
def test_several_sums_of_each_element_are_requantized_at_once(rounding: str) -> None:
    c = Conv()
    case = case_of(c, c.out() ^ np.int8(64))
    if rounding != "ref-exact":
        left = rounding in ("gemmlowp", "cmsis")
        words = np.array([[1 << 30] * 10, [-3 - i % 2 if left else 33 + i % 2 for i in range(10)]], np.int32)
        tensors = {
            **case.graph.tensors,
            "rq": replace(case.graph.spec("rq"), dtype="int32", shape=(2, 10), aligned_shape=()),
        }
        graph = replace(case.graph, rounding=rounding, constants={**case.graph.constants, "rq": words}, tensors=tensors)
        case = replace(case, graph=graph, cache={}, states={})
    e = elements(case, np.arange(0, 990, 7))
    sums = np.stack([e.acc, e.acc // 2, -e.acc])
    assert np.array_equal(e.requantized(sums), np.stack([e.requantized(one) for one in sums]))
    assert np.array_equal(e.requantized(e.acc), case.healthy.reshape(-1)[e.places])
    assert sample(case) is not None


def test_what_was_forced_bit_for_bit_is_not_computed_again() -> None:
    """One of two nodes of one op is blamed; the other's healthy output is what the board gave."""
    exact = Forced("PASSED", 0, 0, 0.0, 990, BITS.text, "simulator", "board")
    verdicts = {
        "y": exact,
        "near": replace(exact, mismatched=3, limit="1 LSB"),
        "loose": replace(exact, limit="1 LSB"),
        "wrong": replace(exact, verdict="FAILED", mismatched=1),
        "none": replace(exact, verdict="INCONCLUSIVE", mismatched=None),
    }
    of_board = Located("simulator", "board", lambda _: None, verdicts)
    of_simulator = Located("reference", "simulator", lambda _: None, {"z": exact})
    assert simulated_exactly([of_simulator, of_board]) == {"y"} and simulated_exactly([of_simulator]) == frozenset()
    c = Conv()
    graph, values = c.graph(), {"x": c.x, "y": c.out()}
    (unit,) = units(graph)
    blamed = replace(unit, name="blamed")
    for names, known in ((frozenset({"y"}), True), (frozenset(), False)):
        evidence = NodeEvidence({}, graph, {"x": c.x}, exact=names)
        (case,) = _other_cases(evidence, [blamed], (values.get, values.get))
        assert ("healthy" in case.cache) is known and np.array_equal(case.healthy, values["y"])
