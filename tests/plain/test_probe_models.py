"""Probe models: the blamed op in other shapes tells rules of places apart that are the same at its own shape."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from math import inf
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from qverify import ops
from qverify.inputs.sources import InputRequest, prepared_inputs
from qverify.model_bin.check import check_graph
from qverify.model_bin.graph import Graph
from qverify.model_bin.records import encode
from qverify.model_bin.units import units
from qverify.renderers.fault_explanation import details, verdict
from qverify.session.triage.board_experiments import BoardExperiments
from qverify.sides.board import Board
from qverify.triage.case import Case
from qverify.triage.experiments import NoOtherModel
from qverify.triage.forensics import explain_fault
from qverify.triage.hypotheses import pages
from qverify.triage.packed_output import pack_output, unpack_output
from qverify.triage.probe_models import ProbeModel, probe_models
from qverify.triage.probes import PLACES, list_constants
from qverify_agents.errors import LinkTimeout

from tests.plain.experiment_boards import FaultyUnit, Way
from tests.plain.fault_units import case_of
from tests.plain.forensic_units import Conv, Small, generator

Array = Any
Divisors = Callable[[Array, Array], Array]  # of the rows and columns of every window that lie inside the input
POOL = (3, 2, 1, 1, 0, 0, 1, 1, 0, -128, 127)  # padding at the bottom and the right, not counted


def pool() -> Case:
    x = generator(7).integers(-128, 128, (1, 3, 9, 11)).astype(np.int8)
    scales = np.array([0.2, 0.05], np.float32)
    small = Small("average_pool", POOL, ("int8", 0.05, 0), (1, 3, 8, 11), x=(x, 0.2, 0), c_rq=(scales,))
    case = Case(small.graph, units(small.graph)[0], {"x": x}, "y", np.zeros((1, 3, 8, 11), np.int8))
    return replace(case, recorded=case.healthy, cache={})


def pooled(divisors: Divisors) -> Way:
    """The op in plain numpy, in any shape, with these divisors."""

    def way(case: Case) -> Array:
        words, (x,) = ops.words(case.last), case.inputs.values()
        high, wide = case.spec.shape[2:]
        kernel, step = (words["kernel_h"], words["kernel_w"]), (words["stride_h"], words["stride_w"])
        top, left = words["pad_top"], words["pad_left"]
        whole = np.zeros((*x.shape[:2], x.shape[2] + 99, x.shape[3] + 99), np.float32)
        inside = np.zeros(whole.shape[2:], np.int64)
        rows, columns = slice(top, top + x.shape[2]), slice(left, left + x.shape[3])
        whole[:, :, rows, columns] = np.float32(case.graph.spec("x").scale[0]) * x.astype(np.float32)
        inside[rows, columns] = 1
        total, count = np.zeros((*x.shape[:2], high, wide), np.float32), np.zeros((2, high, wide), np.int64)
        for i in range(high):
            for j in range(wide):
                at = (slice(i * step[0], i * step[0] + kernel[0]), slice(j * step[1], j * step[1] + kernel[1]))
                for r in range(kernel[0]):
                    for c in range(kernel[1]):
                        total[:, :, i, j] += whole[:, :, i * step[0] + r, j * step[1] + c]
                count[:, i, j] = inside[at].any(1).sum(), inside[at].any(0).sum()
        mean = total / divisors(*count).astype(np.float32) / np.float32(case.spec.scale[0])
        return np.clip(np.rint(mean), -128, 127).astype(np.int8)

    return way


def one_column_more(rows: Array, columns: Array) -> Array:
    """A count that forgets one column of padding."""
    return rows * np.minimum(columns + 1, columns.max())


def kernel_wide(rows: Array, columns: Array) -> Array:
    return rows * columns.max()


def explained(way: Way, elsewhere: Way | None) -> tuple[Any, FaultyUnit]:
    case, board = pool(), FaultyUnit(way, elsewhere=elsewhere)
    return explain_fault(replace(case, recorded=way(case), cache={}), 600.0, board=board), board


def test_the_pool_in_numpy_is_the_healthy_one_in_every_shape():
    own, healthy = pool(), pooled(np.multiply)
    assert np.array_equal(healthy(own), own.healthy)
    models = list(probe_models(own))
    assert len(models) == 5 and all(np.array_equal(healthy(m.case), m.case.healthy) for m in models)


def test_rules_equal_at_one_shape_are_told_apart_in_others():
    own, more, wide = pool(), pooled(one_column_more), pooled(kernel_wide)
    assert np.array_equal(more(own), wide(own)) and not np.array_equal(more(own), own.healthy)
    found, board = explained(wide, wide)
    assert found.confirmed and board.probed
    assert verdict(found).startswith(
        "EXPLAINED: the sum is divided by the rows inside the input times the kernel's width"
    )
    assert ", and by the same op in " in verdict(found)
    assert [run.place for run in found.experiments] == ["node"] * 6 + ["probe"] * len(board.probed)
    wrong, board = explained(more, more)
    assert not wrong.confirmed and any("kernel 5x3" in shape for shape in board.probed)
    assert verdict(wrong).startswith("CANDIDATE: the sum is divided by ")
    assert "not confirmed: it does not predict what the board gives for the same op at 1x3x" in wrong.unconfirmed or (
        wrong.unconfirmed.startswith("it does not predict what the board gives for the same op at 1x3x")
    )
    last = wrong.experiments[-1]
    assert last.place == "probe" and last.fell and not last.stood and last.board != last.simulator
    assert {fell.experiment for fell in wrong.fallen} >= {len(wrong.experiments)}
    assert any(line.startswith(f"experiment {len(wrong.experiments)}, the same op at ") for line in details(wrong))


def test_a_rule_of_places_that_does_not_show_in_other_sizes_is_withdrawn():
    wide = pooled(kernel_wide)
    found, _ = explained(wide, lambda case: case.healthy)
    assert not found.confirmed and found.exact and found.unconfirmed.endswith(" does not show it")


def test_a_board_that_runs_no_other_model_leaves_rules_of_places_open():
    found, board = explained(pooled(kernel_wide), None)
    assert not found.confirmed and found.exact and not board.probed
    assert found.unconfirmed == (
        "it is a rule of places, which may be another one in other shapes, and none was run: this board has one model"
    )


def test_another_cause_stays_where_no_other_model_runs():
    c = Conv()

    def without_bias(case: Any) -> Array:
        c.x = case.inputs["x"]
        return c.out(c.acc(bias=np.zeros(10, np.int32)))

    found = explain_fault(case_of(c, without_bias(case_of(c))), 600.0, board=FaultyUnit(without_bias))
    assert found.confirmed and found.exact[0][0].said == "bias left out"
    assert found.scope == "not tried in other shapes: this board has one model"


def test_probes_are_other_shapes_of_the_same_op():
    own = case_of(Conv(), Conv().out())
    models = list(probe_models(own))
    assert len({m.shape for m in models}) == len(models) == 5
    for model in models:
        check_graph(model.case.graph)
        words, spec = ops.words(model.case.last), model.case.graph.spec
        assert model.size_bytes < 1 << 15 and model.case.last.op == "conv"
        assert (words["stride_h"], words["dilation_w"], words["group"]) == (1, 1, 1)
        assert spec("w").shape[2:] == (words["kernel_h"], words["kernel_w"])
        assert len(spec("w").scale) == spec("w").shape[0] == spec("y").shape[1]
    assert models[0].alike and models[0].case.graph.constants["w"].tobytes() == Conv().w.tobytes()
    assert {ops.words(m.case.last)["kernel_h"] for m in models} == {3, 5}
    assert {m.case.graph.spec("x").shape[1] for m in models} > {6}


def test_an_op_without_a_rule_has_no_probe():
    x = np.zeros((1, 6, 8), np.uint8)
    small = Small("yuv_to_rgb", (0,) * 14, ("uint8", 0, 0), (1, 3, 4, 8), x=(x,))
    case = Case(small.graph, units(small.graph)[0], {"x": x}, "y", np.zeros((1, 3, 4, 8), np.uint8))
    assert not list(probe_models(case))


def test_families_of_places_are_families():
    assert {page.NAME for page in pages()} >= PLACES


def test_numbers_that_no_shape_changes():
    said = "the last 1 of the 125 summands, those after the last whole 2, 4 or 8, are left out, in every 4th row"
    assert list_constants(said) == [{"2", "4", "8"}, {"4"}]
    assert list_constants("the scale is kept with 14 significant bits, as a multiple of 1/16") == [{"14"}, {"1", "16"}]
    assert list_constants("columns 9 to 11 repeat place 8 of axis 3") == []


def test_of_several_sizes_of_vectors_the_right_one_stands():
    """At 125 summands a tail beyond whole 2 is one beyond whole 4, at others it is not. The input is named as it is
    called in a cause's words."""
    x = generator(8).integers(-128, 128, (1, 3, 25, 5)).astype(np.int8)
    scales = np.array([0.2 / (0.05 * 125)], np.float32)
    words = (-128, 127)
    small = Small("global_average_pool", words, ("int8", 0.05, 0), (1, 3, 1, 1), input=(x, 0.2, 0), c_rq=(scales,))

    def way(case: Case) -> Array:
        (values,) = case.inputs.values()
        flat = values.reshape(*values.shape[:2], -1).astype(np.int64)
        acc = flat[..., : flat.shape[2] // 4 * 4].sum(2).astype(np.float32) * case.graph.constants["c_rq"][0]
        return np.clip(np.rint(acc), -128, 127).astype(np.int8).reshape(case.spec.shape)

    case = Case(small.graph, units(small.graph)[0], {"input": x}, "y", np.zeros((1, 3, 1, 1), np.int8))
    found = explain_fault(replace(case, recorded=way(case), cache={}), 600.0, board=FaultyUnit(way, elsewhere=way))
    assert found.confirmed
    said = [cause.said for group in found.exact for cause in group]
    assert {cause.family for group in found.exact for cause in group} == {"input-tail", "summands-left-out"}
    assert said and all(re.search(r"\b4\b", text) for text in said), said


def test_a_gather_reads_by_other_indices():
    """Under a fault of some indices, two channels seem exchanged in every shape, as long as the indices are the same."""
    x, index = generator(9).integers(-128, 128, (2, 5, 7)).astype(np.int8), np.array([3, 0, -1], np.int64)
    small = Small("gather", (1,), ("int8", 0.2, 0), (2, 3, 7), x=(x, 0.2, 0), c_index=(index,))
    case = Case(small.graph, units(small.graph)[0], {"x": x}, "y", np.zeros((2, 3, 7), np.int8))
    models = list(probe_models(case))
    assert models
    for model in models:
        moved, size = model.case.graph.constants["c_index"], model.case.graph.spec("x").shape[1]
        assert moved[0] not in (3, 3 - size) and (-size <= moved).all() and (moved < size).all()

    def way(case: Case) -> Array:
        (values,) = case.inputs.values()
        size, taken = values.shape[1], case.graph.constants["c_index"]
        places = np.where(taken < 0, taken + size, taken)
        places[2::3] = np.maximum(places[2::3] - 2, 0)
        return np.ascontiguousarray(values[:, places])

    found = explain_fault(replace(case, recorded=way(case), cache={}), 600.0, board=FaultyUnit(way, elsewhere=way))
    assert not found.confirmed and found.exact


def test_outputs_are_packed_and_unpacked():
    values = generator(1).integers(-9, 9, (2, 3)).astype(np.int16)
    assert np.array_equal(unpack_output(pack_output(values), values), values)
    for text in ("?", "AAAA", pack_output(values[:1]), pack_output(np.concatenate([values, values]))):
        with pytest.raises(ValueError, match=r"output|base64|padding"):
            unpack_output(text, values)


@contextmanager
def connected(graph: Graph, store: Path, options: str = "", fault: str = "") -> Iterator[Board]:
    where = f"faulty:local?store={store}&fault={fault}" if fault else f"local?store={store}"
    board = Board(f"{where}{options}", encode(graph), graph)
    try:
        yield board
    finally:
        board.close()


def sent(experiments: BoardExperiments, own: Case, model: ProbeModel) -> Array:
    return experiments.run_probe(own, model, model.case, "uniform", 1)


def test_a_healthy_board_gives_the_simulators_bytes_and_runs_its_own_model_again(tmp_path: Path):
    c = Conv()
    graph, own = c.graph(), case_of(c, c.out())
    prepared = prepared_inputs(graph, InputRequest(seed=4))
    with connected(graph, tmp_path) as board:
        before = board.run(prepared).tensors["y"].copy()
        experiments = BoardExperiments(board)
        for model in probe_models(own):
            assert np.array_equal(sent(experiments, own, model), model.case.healthy)
        assert np.array_equal(board.pull(["y"])["y"], before)
        assert experiments.run_node(own, own.inputs).digest


def test_a_board_that_ends_at_another_model_runs_its_own_again(tmp_path: Path):
    """A faulty runtime ends where the node of one of its faults is not in the model."""
    c = Conv()
    graph, own = c.graph(), case_of(c, c.out())
    small = Small(
        "lookup",
        (),
        ("int8", 0.5, 0),
        (1, 6, 9, 11),
        x=(c.x, 0.5, 0),
        c_table=(np.arange(256, dtype=np.uint8).view(np.int8),),
    )
    other = next(probe_models(Case(small.graph, units(small.graph)[0], {"x": c.x}, "y", c.x)))
    renamed = replace(other.case.graph.nodes[0], name="z", outputs=("z",))
    tensors = {
        ("z" if n == "y" else n): replace(s, name="z" if n == "y" else n) for n, s in other.case.graph.tensors.items()
    }
    elsewhere = replace(other.case.graph, nodes=[renamed], tensors=tensors, outputs=("z",))
    case = replace(other.case, graph=elsewhere, unit=units(elsewhere)[0], output="z", cache={}, states={})
    prepared = prepared_inputs(graph, InputRequest(seed=4))
    with connected(graph, tmp_path, fault="plus_one@y") as board:
        before = board.run(prepared).tensors["y"].copy()
        with pytest.raises(NoOtherModel, match=r"could not be run: .*the model has no such node"):
            sent(BoardExperiments(board), own, replace(other, case=case))
        assert np.array_equal(board.pull(["y"])["y"], before)


def test_experiments_of_a_board_that_hangs_end_with_the_time_to_explain(tmp_path: Path):
    c = Conv()
    own = case_of(c, c.out())
    with connected(c.graph(), tmp_path, fault="hang@y") as board:
        experiments = BoardExperiments(board)
        assert experiments.until == inf
        board.bounded_until(time.monotonic() + 60)
        board._agent.put(board._sha256, board._model)
        experiments.until = time.monotonic() + 0.5
        with pytest.raises(LinkTimeout, match=r"no answer within 0\.\d+ s; give --explain SECONDS to wait longer"):
            experiments.run_node(own, own.inputs)
