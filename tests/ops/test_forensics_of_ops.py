"""Forensics over every op the compiler knows, over a faulty board, and over nodes of real networks."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from qverify.compare.options import Options
from qverify.compare.verdict import judge_all
from qverify.compiler.compile_model import CompilerOptions, compile_model
from qverify.inputs.sources import InputRequest, prepared_inputs
from qverify.model_bin.graph import Graph
from qverify.model_bin.records import encode
from qverify.model_bin.units import Unit, units
from qverify.renderers.fault_explanation import details, to_json, verdict
from qverify.session.node_evidence import NodeEvidence
from qverify.session.triage.explain_nodes import explain_blame
from qverify.sides.board import Board
from qverify.sides.simulator import Simulator
from qverify.triage.case import Case
from qverify.triage.forensics import FaultExplanation, explain_fault
from qverify.triage.hypotheses import pages, pages_of

from tests.conftest import MODELS, need_models
from tests.ops.case_files import CASES
from tests.ops.qdq import Qdq
from tests.plain.forensic_units import families

Array = Any
NETWORKS = (
    "mbv1_025_128_qat/mbv1_025_128_qat_tfl_int8_qdq.onnx",
    "resnet8_cifar10/resnet8_cifar10_u8s8_qdq.onnx",
)
_ran: dict[str, tuple[Graph, Mapping[str, Array]]] = {}


def compiled(name: str) -> Graph:
    build, _, _ = CASES[name]
    m = Qdq("uint8", seed=sum(map(ord, name)))
    build(m)
    return compile_model(m.model().SerializeToString(), name, CompilerOptions(check=False)).graph


def values(graph: Graph) -> Mapping[str, Array]:
    prepared = prepared_inputs(graph, InputRequest())
    return {**prepared.arrays(), **Simulator(graph).run(prepared).tensors}


def network(path: str) -> tuple[Graph, Mapping[str, Array]]:
    if path not in _ran:
        file = MODELS / path
        if not file.is_file():
            pytest.skip(f"{file} is not there")
        graph = compile_model(file.read_bytes(), path, CompilerOptions(check=False)).graph
        _ran[path] = graph, values(graph)
    return _ran[path]


def case(graph: Graph, unit: Unit, held: Mapping[str, Array], spoil: Callable[[Array], Array]) -> Case:
    recorded = np.asarray(spoil(held[unit.outputs[0]].copy()), order="C")
    return Case(graph, unit, {n: held[n] for n in unit.inputs}, unit.outputs[0], recorded, held.get)


def third(seed: int) -> Callable[[Array], Array]:
    """30 % of the elements are others."""

    def spoil(y: Array) -> Array:
        rng = np.random.Generator(np.random.PCG64(seed))
        spoiled = rng.random(y.shape) < 0.3
        if y.dtype.kind == "f":
            y[spoiled] += rng.normal(0, 1, int(spoiled.sum())).astype(y.dtype)
        elif y.dtype.kind != "b":
            limits = np.iinfo(y.dtype)
            y[spoiled] = rng.integers(limits.min, limits.max, int(spoiled.sum()), y.dtype, endpoint=True)
        return y

    return spoil


@pytest.mark.parametrize("name", CASES)
def test_a_family_that_is_not_tried_at_a_node_has_no_fault_there(name: str) -> None:
    graph = compiled(name)
    held = values(graph)
    for unit in units(graph):
        node = case(graph, unit, held, third(1))
        tried = {p.NAME for p in pages_of(node)}
        if node.differing.size:
            for page in (p for p in pages() if p.NAME not in tried):
                assert [v.text for v in page.variants(node)] == [] and not node.number_tried, page.NAME


def own_units(name: str, graph: Graph, held: Mapping[str, Array]) -> list[Unit]:
    """Returns the units of the case's own op, for those around it have cases of their own, that have enough elements."""
    own = [unit for unit in units(graph) if any(node.op == CASES[name][1] for node in unit.nodes)]
    assert own
    return [u for u in own if graph.spec(u.outputs[0]).dtype != "bool" and held[u.outputs[0]].size >= 30]


@pytest.mark.parametrize("stem", sorted({op for _, op, _ in CASES.values()}))
def test_every_op(stem: str):
    """Each unit, equal; at the first of those at which the same families are tried, one wrong bit and random elements."""
    seen = set()
    for name in (name for name, (_, op, _) in CASES.items() if op == stem):
        graph = compiled(name)
        held = values(graph)
        for unit in own_units(name, graph, held):
            found = explain_fault(case(graph, unit, held, lambda y: y), 120)
            assert not found.exact and not found.unexplained and verdict(found).startswith("EQUAL")
            spoiled = case(graph, unit, held, third(1))
            tried = (spoiled.spec.dtype, frozenset(page.NAME for page in pages_of(spoiled)))
            if tried not in seen:
                seen.add(tried)
                _one_bit(graph, unit, held)
                _random_elements(spoiled)


def _random_elements(spoiled: Case) -> None:
    found = explain_fault(spoiled, 120)
    assert found.unexplained and not found.exact, found.exact
    assert not found.not_tried


def _one_bit(graph: Graph, unit: Unit, held: Mapping[str, Array]) -> None:
    def flip(y: Array) -> Array:
        y.reshape(-1).view(f"u{y.itemsize}")[y.size // 3] ^= 1 << (8 * y.itemsize - 3)
        return y

    found = explain_fault(case(graph, unit, held, flip), 120)
    assert families(found)[0] == {"bit-flip"}, found.exact
    assert all("of computing had passed" in why for why in found.not_tried), found.not_tried


ROW = np.s_[:, :, 3]


def _row_again(y: Array) -> Array:
    y[ROW] = y[:, :, 2]
    return y


SPOILED: dict[str, Callable[[Array], Array]] = {
    "layout": lambda y: np.moveaxis(y, 1, 3).reshape(y.shape),
    "channel-order": lambda y: y[:, ::-1],
    "dropped-or-repeated": _row_again,
    "signedness": lambda y: y ^ y.dtype.type(-128 if y.dtype == np.int8 else 128),
    "element-offset": lambda y: np.roll(y.reshape(-1), -1).reshape(y.shape),
}


@pytest.mark.parametrize("path", NETWORKS)
@pytest.mark.parametrize("family", SPOILED)
@need_models()
def test_nodes_of_real_networks(path: str, family: str):
    graph, held = network(path)
    big = [u for u in units(graph) if len(s := graph.spec(u.outputs[0]).shape) == 4 and min(s[1:]) > 5]
    for unit in big[2::9]:
        found = explain_fault(case(graph, unit, held, SPOILED[family]), 60)
        assert families(found)[:1] and family in families(found)[0], (unit.name, found.exact, found.partial)
        assert len(found.kinds) <= 2


@pytest.mark.parametrize("path", NETWORKS)
@need_models()
def test_corrupted_nodes_of_real_networks(path: str):
    graph, held = network(path)
    for at, unit in enumerate(units(graph)[3::12]):
        found = explain_fault(case(graph, unit, held, third(at)), 60)
        assert found.unexplained, (unit.name, found.exact)


def _over_a_board(tmp_path: Path, fault: str) -> list[FaultExplanation | None]:
    graph = compiled("conv_padded_strided")
    board = Board(f"faulty:local?store={tmp_path}&fault={fault}@{graph.nodes[-1].name}", encode(graph), graph)
    try:
        prepared = prepared_inputs(graph, InputRequest())
        simulator = Simulator(graph)
        recordings = {"simulator": simulator.run(prepared), "board": board.run(prepared)}
        run_unit = {"simulator": simulator.run_unit}
        report = judge_all(recordings, graph, units(graph), Options(), run_unit, board.pull, prepared.arrays())
        rows = explain_blame(report, NodeEvidence(recordings, graph, prepared.arrays(), board.pull))
        assert report.blame is not None and [r.node for r in rows] == [report.blame.node]
        return [row.explanation for row in rows]
    finally:
        board.close()


def test_a_faulty_board_is_explained(tmp_path: Path):
    (found,) = _over_a_board(tmp_path, "bitflip")
    assert found is not None and families(found)[0] == {"bit-flip"}
    assert verdict(found).startswith("CANDIDATE: bit ") and "not confirmed: no board to try it on" in verdict(found)
    lines = details(found)
    assert any("1 of " in line and "differ" in line for line in lines) and any(line.startswith("  |") for line in lines)
    held = json.loads(json.dumps(to_json(found), allow_nan=False))
    assert held["verdict"] == "CANDIDATE" and held["exact"][0][0]["family"] == "bit-flip"
