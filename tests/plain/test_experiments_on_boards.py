"""Experiments on real boards: what triage says after them, and what happens where a board cannot or will not run them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import pytest
from qverify.cli.main import main
from qverify.compare.options import Options
from qverify.compare.verdict import judge_all
from qverify.compiler.compile_model import CompilerOptions, compile_model
from qverify.inputs.sources import InputRequest, prepared_inputs
from qverify.model_bin.graph import Graph
from qverify.model_bin.records import encode
from qverify.model_bin.units import units
from qverify.renderers.fault_explanation import verdict
from qverify.report.schema import triage_schema
from qverify.session.node_evidence import NodeEvidence
from qverify.session.triage.board_experiments import BoardExperiments, UnitRun
from qverify.session.triage.explain_nodes import ExplainedOutput, explain_blame
from qverify.sides.board import Board
from qverify.sides.simulator import Simulator
from qverify.tensors.digest import tensor_digest
from qverify.triage.case import Case
from qverify.triage.experiment_inputs import KINDS
from qverify.triage.experiments import Experiment
from qverify.triage.forensics import FaultExplanation
from qverify_agents.errors import LinkError

NODE = "relu2_QuantizeLinear_Output"
Array = Any


@pytest.fixture(scope="module")
def graph(digits: Path) -> Graph:
    return compile_model((digits / "digits_quant.onnx").read_bytes(), "digits", CompilerOptions(check=False)).graph


@contextmanager
def board_of(graph: Graph, store: Path, fault: str = "", options: str = "", prefix: str = "") -> Iterator[Board]:
    where = f"faulty:local?store={store}&fault={fault}@{NODE}" if fault else f"local?store={store}"
    board = Board(f"{prefix}{where}{options}", encode(graph), graph)
    try:
        yield board
    finally:
        board.close()


def explained(graph: Graph, board: Board, experiments: BoardExperiments | None) -> ExplainedOutput:
    prepared, simulator = prepared_inputs(graph, InputRequest(seed=3)), Simulator(graph)
    recordings = {"simulator": simulator.run(prepared), "board": board.run(prepared)}
    run_unit = {"simulator": simulator.run_unit}
    report = judge_all(recordings, graph, units(graph), Options(), run_unit, board.pull, prepared.arrays())
    found = explain_blame(
        report, NodeEvidence(recordings, graph, prepared.arrays(), board.pull, board=experiments), 600.0
    )
    (one,) = found
    assert one.explanation is not None and one.node == NODE
    return one


def case_of(graph: Graph, values: Mapping[str, Array]) -> Case:
    unit = next(u for u in units(graph) if u.name == NODE)
    return Case(graph, unit, {n: values[n] for n in unit.inputs}, NODE, values[NODE])


def test_a_confirmed_cause_and_those_that_fell(digits: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    words = ["triage", "-m", str(digits / "digits_quant.onnx"), "-b", f"faulty:local?fault=plus_one@{NODE}"]
    assert main([*words, "--json", str(tmp_path / "t.json")]) == 1
    told = capsys.readouterr().out
    assert "confirmed by 6 experiments on the board (the node alone on new inputs): all 256 elements predicted" in told
    assert "the next best cause (zero point of the output: 1 instead of 0) failed experiment 5" in told
    held = json.loads((tmp_path / "t.json").read_text())
    jsonschema.validate(held, triage_schema())
    (one,) = held["explained"]
    found = one["explanation"]
    assert found["confirmed"] is True and found["unconfirmed"] == "" and one["cost"] == ""
    alone = [run for run in found["experiments"] if run["place"] != "probe"]
    probes = found["experiments"][len(alone) :]
    assert [run["kind"] for run in alone] == [*KINDS]
    assert len(probes) == 4 and all(run["shape"] and run["output"] and run["place"] == "probe" for run in probes)
    for run in alone:
        assert (
            run["shape"] == run["output"] == ""
            and run["place"] == "node"
            and run["board"] != run["simulator"]
            and run["elements"] == 256
        )
    assert [(fell["experiment"], fell["cause"]["family"]) for fell in found["fallen"]] == [(5, "zero-point")]
    assert found["evidence_bits"] > 16


@pytest.fixture(scope="module")
def soon_explained(digits: Path, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The JSON of a triage with little time."""
    out = tmp_path_factory.mktemp("soon") / "t.json"
    words = ["triage", "-m", str(digits / "digits_quant.onnx"), "-b", f"faulty:local?fault=plus_one@{NODE}"]
    assert main([*words, "--json", str(out), "--explain", "0.2"]) == 1
    return out.read_text()


@pytest.mark.parametrize(
    "field", ["confirmed", "unconfirmed", "experiments", "fallen", "scope", "evidence_bits", "cost"]
)
def test_the_schema_requires_what_experiments_found(field: str, soon_explained: str):
    held = json.loads(soon_explained)
    jsonschema.validate(held, triage_schema())
    one = held["explained"][0]
    del (one if field == "cost" else one["explanation"])[field]
    with pytest.raises(jsonschema.ValidationError, match=f"'{field}' is a required property"):
        jsonschema.validate(held, triage_schema())


def test_the_schema_has_every_field_of_the_dataclasses():
    rows = triage_schema()["properties"]["explained"]["items"]
    explanation = rows["properties"]["explanation"]["anyOf"][0]
    experiment = explanation["properties"]["experiments"]["items"]
    for kind, schema in ((ExplainedOutput, rows), (FaultExplanation, explanation), (Experiment, experiment)):
        names = {f.name for f in fields(kind)} - {"seconds"}
        assert schema["properties"].keys() == names and set(schema["required"]) == names


def test_a_fault_of_the_run_is_confirmed_on_the_network(graph: Graph, tmp_path: Path):
    with board_of(graph, tmp_path, "stale_tensor") as board:
        found = explained(graph, board, BoardExperiments(board)).explanation
    assert found.confirmed and found.kinds == ["stale-buffer"]
    assert "(the whole network on new inputs)" in verdict(found)
    assert [(run.place, run.seed) for run in found.experiments] == [("network", n) for n in range(1, 7)]


def test_rounding_down_is_told_from_a_short_scale(digits: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    """The activation leaves no negative values, so that rounding down is rounding toward zero; a scale of few bits gives
    the recorded bytes, too, and falls."""
    board = "faulty:local?fault=round_floor@relu1_QuantizeLinear_Output"
    words = ["triage", "-m", str(digits / "digits_quant.onnx"), "-b", board, "--json", str(tmp_path / "t.json")]
    assert main(words) == 1
    (line,) = (t for t in capsys.readouterr().out.splitlines() if t.startswith("board at relu1_QuantizeLinear_Output"))
    first = "the scaled sum plus zero point is rounded toward zero (truncated)"
    same = "the scaled sum is rounded down (floor); or the scaled sum is rounded toward zero (truncated); or "
    assert f": EXPLAINED: {first}; or {same}" in line and "(all the same at this node); confirmed by 6 exp" in line
    assert line.endswith("the next best cause (rounding toward zero) failed experiment 2")
    (one,) = json.loads((tmp_path / "t.json").read_text())["explained"]
    (group,) = one["explanation"]["exact"]
    assert {cause["family"] for cause in group} == {"requantize-steps", "product-precision", "rounding"}
    assert "the scaled sum is rounded down (floor)" in [cause["said"] for cause in group]


def test_without_a_board_it_is_a_candidate(graph: Graph, tmp_path: Path):
    with board_of(graph, tmp_path, "bias_missing") as board:
        alone = explained(graph, board, None).explanation
        tried = explained(graph, board, BoardExperiments(board)).explanation
    assert verdict(alone).startswith("CANDIDATE: bias left out") and not alone.experiments
    assert (
        f"not confirmed: no board to try it on (qverify triage -m MODELS -b BOARD decides), and of {alone.tried} faults tried some fit by chance"
        in verdict(alone)
    )
    assert tried.confirmed and verdict(tried).startswith("EXPLAINED: bias left out")


@dataclass(slots=True)
class Leaving(BoardExperiments):
    """The link is closed after so many experiments."""

    lasts: int = 2

    def run_node(self, case: Case, inputs: Mapping[str, Array]) -> UnitRun:
        self.lasts -= 1
        if self.lasts < 0:
            self.board.close()
        return BoardExperiments.run_node(self, case, inputs)


@pytest.mark.parametrize("lasts", [0, 3])
def test_a_board_that_is_lost_leaves_a_candidate(lasts: int, graph: Graph, tmp_path: Path):
    with board_of(graph, tmp_path, "bias_missing") as board:
        found = explained(graph, board, Leaving(board, lasts=lasts)).explanation
    assert not found.confirmed and found.exact[0][0].said == "bias left out"
    assert found.kinds == ["bias", "bias-addition"]  # shifted right by 9 or 10, little of it is left
    assert found.unconfirmed.startswith("an experiment could not be run: ") and "\n" not in found.unconfirmed
    assert verdict(found).startswith("CANDIDATE: bias left out")


def test_a_board_that_dies_in_the_network_fails_the_experiment(graph: Graph, tmp_path: Path):
    prepared = prepared_inputs(graph, InputRequest())
    values = {**prepared.arrays(), **Simulator(graph).run(prepared).tensors}
    with board_of(graph, tmp_path, "die") as board, pytest.raises(LinkError):
        BoardExperiments(board).run_network(case_of(graph, values), 1, frozenset())


def test_a_unit_and_the_network_as_experiments_see_them(graph: Graph, tmp_path: Path):
    prepared = prepared_inputs(graph, InputRequest())
    values = {**prepared.arrays(), **Simulator(graph).run(prepared).tensors}
    case = case_of(graph, values)
    with board_of(graph, tmp_path) as board:
        board.run(prepared)
        experiments = BoardExperiments(board)
        assert (experiments.why_not, experiments.most, experiments.cost(case)) == ("", 6, "")
        ran = experiments.run_node(case, case.inputs)
        assert ran.digest == tensor_digest(case.healthy) and np.array_equal(ran.fetch(), case.healthy)
        name = "relu1_QuantizeLinear_Output"
        seen = [experiments.run_network(case, seed, frozenset([name, "no such"])) for seed in (1, 2)]
        plain = experiments.run_network(case, 2, frozenset())
    for new in seen:
        assert not new.differing.size and new.inputs.keys() == case.inputs.keys()
        assert new.board(name) is not None and new.board("no such") is None
    first, second = seen
    assert not np.array_equal(first.board(name), second.board(name))
    assert np.array_equal(second.previous(name), first.board(name))
    assert first.previous(name) is not None  # a run was made to come before the first
    assert np.array_equal(plain.recorded, second.recorded) and plain.board(name) is None


def test_a_board_that_offers_only_final_outputs_runs_no_single_node(graph: Graph, tmp_path: Path):
    with board_of(graph, tmp_path, prefix="finals:") as board:
        assert BoardExperiments(board).why_not == "the board runs no single node"


def test_a_slow_link_runs_three_experiments_and_says_what_they_cost(graph: Graph, tmp_path: Path):
    with board_of(graph, tmp_path, "bias_missing", "&packs=1") as board:
        one = explained(graph, board, BoardExperiments(board))
    places = [run.place for run in one.explanation.experiments]
    assert one.explanation.confirmed and places == ["node"] * 3 + ["probe"] * 2
    assert one.cost.startswith(
        f"experiments on {NODE}: 3 runs of this node alone and up to 2 models of one node, about "
    )
    assert one.cost.endswith(" bytes, under 1 s")
