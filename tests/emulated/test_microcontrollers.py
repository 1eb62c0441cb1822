"""The whole agent on emulated microcontrollers: bit-equal to the simulator, with models in flash and sent, with little
memory, and a canary that finds floats which are not computed as written."""

from __future__ import annotations

from pathlib import Path

import pytest
from qverify.cli.main import main
from qverify.compiler.compile_model import CompilerOptions, compile_model
from qverify.inputs.random_inputs import random_inputs
from qverify.model_bin.graph import Graph
from qverify.model_bin.records import encode
from qverify.sides.board import Board
from qverify.sides.simulator import Simulator
from qverify_agents.connect import connect
from qverify_agents.emulation.mcu_sources import compile_agent, write_sources

from tests.conftest import MODELS, need_models
from tests.emulated.microcontrollers import each, need

MACHINES = ("an385", "an386", "an500", "an505", "an547", "virt-rv32", "virt-rv32f")
KWS = MODELS / "kws_mlperf_int8" / "kws_mlperf_int8_tfl_int8_qdq.onnx"


@pytest.fixture(scope="module")
def graph(digits: Path) -> Graph:
    path = digits / "digits_quant.onnx"
    return compile_model(path.read_bytes(), path.name, CompilerOptions(check=False)).graph


def ops_of(graph: Graph) -> list[str]:
    return sorted({node.op for node in graph.nodes})


def build(folder: Path, name: str, graph: Graph, in_flash: bool, extra: tuple[str, ...] = ()) -> Path:
    folder.mkdir(exist_ok=True)
    models = {"model.bin": encode(graph)} if in_flash else {}
    return compile_agent(folder, write_sources(folder, ops_of(graph), models), name, extra)


def run_equal(uri: str, graph: Graph) -> Board:
    """Runs the model on a board, and returns the board; every tensor has the simulator's bytes."""
    prepared = random_inputs(graph, 3)
    board = Board(uri, encode(graph), graph, 120)
    ran = board.run(prepared)
    assert ran.state == "complete", ran.why
    assert ran.digests == Simulator(graph).run(prepared).digests
    return board


@pytest.mark.parametrize("name", each(*MACHINES))
def test_a_model_in_flash_has_the_simulators_bytes(name: str, graph: Graph, tmp_path: Path):
    board = run_equal(f"qemu-mcu:{name}?firmware={build(tmp_path, name, graph, in_flash=True)}", graph)
    hello = board._agent.hello
    board.close()
    assert hello["float"] == "exact" and hello["max_payload"] == 4096 and hello["system"] == "bare metal"
    assert board._agent.counters["cached_bytes"] >= len(encode(graph))  # the model was not sent


@need("an386")
def test_a_model_that_is_sent_and_its_single_nodes(graph: Graph, tmp_path: Path):
    board = run_equal(f"qemu-mcu:an386?firmware={build(tmp_path, 'an386', graph, in_flash=False)}", graph)
    try:
        assert board._agent.kept
        digests = board.received_digests
        name = "relu2_QuantizeLinear_Output"
        assert board.pull([name])[name].shape == (1, 16, 4, 4) and digests[name]
    finally:
        board.close()


@need("an386")
def test_tensors_are_pulled_in_runs_that_fit_the_memory(graph: Graph, tmp_path: Path):
    """The heap has no room for every tensor, nor for copies of all that are asked for at once."""
    small = build(tmp_path, "an386", graph, True, ("-DQV_HEAP_LIMIT=38000",))
    board = run_equal(f"qemu-mcu:an386?firmware={small}", graph)
    try:
        assert not board._agent.kept
        names = graph.observable()
        requests_before = board._agent.counters["requests"]
        pulled = board.pull(names)
        assert set(pulled) == set(names)
        assert board._agent.counters["requests"] > requests_before + len(names)
    finally:
        board.close()


@need("an386")
@pytest.mark.parametrize("kind", ["drop", "flip", "insert"])
def test_a_damaged_line_changes_no_result(kind: str, graph: Graph, tmp_path: Path):
    program, faults = build(tmp_path, "an386", graph, in_flash=True), 0
    for seed in range(6):
        uri = f"qemu-mcu:an386?firmware={program}&link_fault={kind}&link_seed={seed}&link_probability=0.06"
        board = run_equal(uri, graph)
        faults += board._agent._link.faults
        board.close()
        if faults >= 2:
            break
    assert faults >= 1


@need("an386")
@pytest.mark.parametrize(
    "extra, wrong",
    [
        (("-DQV_FLUSH_DENORMALS",), "subnormal floats are flushed to zero"),
        (("-ffp-contract=fast",), "products and sums are fused"),
        (("-DQV_LIBRARY_ADDITION",), "doubles are added wrongly"),
    ],
)
def test_the_canary_finds_wrong_floats(extra: tuple[str, ...], wrong: str, graph: Graph, tmp_path: Path):
    agent = connect(f"qemu-mcu:an386?firmware={build(tmp_path, 'an386', graph, False, extra)}", 60, {})
    found = agent.hello["float"]
    agent.close()
    assert wrong in found


@need("an386")
@need_models()
def test_keyword_spotting_by_the_main_job(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    model, folder = tmp_path / "M.bin", tmp_path / "sources"
    assert main(["compile", str(KWS), "-o", str(model)]) == 0
    assert main(["mcu", str(folder), "--model", str(model)]) == 0
    files = (folder / "Makefile").read_text().partition("SOURCES = ")[2].splitlines()[0].split()
    program = compile_agent(folder, files, "an386")
    assert main(["-m", f"{KWS},{model}", "-b", f"qemu-mcu:an386?firmware={program}", "-r", "True"]) == 0
    assert "Sim and Arm result Strict check PASSED" in capsys.readouterr().out
