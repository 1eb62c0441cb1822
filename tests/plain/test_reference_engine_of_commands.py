"""--reference-engine of soak and triage: the board's runs and the ladder are judged by what a vendor's engine gives."""

from __future__ import annotations

import json
import shlex
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from qverify.cli.main import main
from qverify.session.other_jobs.soak import SoakResult

from tests.plain.test_reference_engine import ENGINE, RUNNER, vendor_model


class Command:
    """Runs a command with the engine, and with a board whose runner is a tool of the tests."""

    def __init__(self, tmp_path: Path):
        self.onnx, self.board = vendor_model(tmp_path / "vendor.onnx"), tmp_path / "board.bin"
        self.board.write_bytes(b"opaque" * 9)
        self.input, self.log, self.json = tmp_path / "x.npy", tmp_path / "log", tmp_path / "R.json"
        np.save(self.input, np.array([[-5, 3, 8.5, 100]], "float32"))

    def __call__(self, name: str, *words: str, spoil: str = "", before: str = "", engine: str = "every_tensor") -> int:
        line = f"{shlex.quote(sys.executable)} {RUNNER} --input {{npy}} --out {{out}} {spoil}"
        out = ["--for", "0.1", "--log", str(self.log)] if name == "soak" else ["--json", str(self.json)]
        models, board = f"{before}{self.onnx},{self.board}", ["-b", "local", "--runner", line]
        given = ["-m", models, *board, "-i", str(self.input), "--reference-engine", f"{ENGINE}:{engine}"]
        return main([name, *given, *out, *words])


@pytest.fixture
def run(tmp_path: Path) -> Command:
    return Command(tmp_path)


def float_model(path: Path, rate: float = 0.5) -> Path:
    """Writes y = (x * rate + 1) * 0.5, the float form of the vendor's model where rate is 0.5."""
    constants = [numpy_helper.from_array(np.float32(v), n) for n, v in (("r", rate), ("h", 0.5), ("one", 1.0))]
    nodes = [
        helper.make_node("Mul", ["x", "r"], ["a"]),
        helper.make_node("Add", ["a", "one"], ["b"]),
        helper.make_node("Mul", ["b", "h"], ["y"]),
    ]
    x, y = (helper.make_tensor_value_info(n, TensorProto.FLOAT, [1, 4]) for n in "xy")
    model = helper.make_model(
        helper.make_graph(nodes, "float", [x], [y], constants), opset_imports=[helper.make_opsetid("", 17)]
    )
    model.ir_version = 8
    onnx.save(model, path)
    return path


def rungs(run: Command) -> dict[tuple[str, str], str]:
    return {(r["a"], r["b"]): r["verdict"] for r in json.loads(run.json.read_text())["rungs"]}


def test_a_soak_judges_the_first_run_by_the_engine(run: Command, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("soak") == 0
    about, first, *more = [json.loads(line) for line in run.log.read_text().splitlines()]
    assert (
        first["reference"].startswith("PASSED (")
        and "nothing ties board.bin" in first["reference"]
        and more
        and "reference" not in more[0]
    )
    assert about["model_sha256"] != "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"  # of nothing
    assert "0 differ from the first one; 0 connections lost; first run, against the reference engine: PASSED" in (
        capsys.readouterr().out
    )


def test_a_soak_of_a_board_that_always_differs_from_the_engine_fails(
    run: Command, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("soak", spoil="--spoil b") == 1
    out = capsys.readouterr().out
    assert "0 differ from the first one" in out and "reference engine: FAILED (y: 4 elements do not match" in out


def test_a_gate_of_a_soak(run: Command, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("soak", "--gate", "cosine:0.5", spoil="--spoil b") == 0
    assert "reference engine: PASSED" in capsys.readouterr().out


@pytest.mark.parametrize(("said", "status"), [("PASSED", 0), ("FAILED (y)", 1), ("INCONCLUSIVE (why)", 3), ("", 0)])
def test_a_soak_that_the_engine_does_not_confirm_is_no_success(said: str, status: int) -> None:
    assert SoakResult(runs=2, by_first_run=True, reference=said).exit_status == status


def test_the_ladder_from_float_to_the_engine_to_the_board(run: Command, tmp_path: Path) -> None:
    before = f"{float_model(tmp_path / 'float.onnx')},"
    assert run("triage", before=before) == 0
    assert rungs(run) == {("float", "reference"): "PASSED", ("reference", "board"): "PASSED"}
    assert run("triage", before=before, spoil="--spoil b") == 1
    assert rungs(run) == {("float", "reference"): "PASSED", ("reference", "board"): "FAILED"}


def test_a_float_model_that_is_another_network(run: Command, tmp_path: Path) -> None:
    assert run("triage", before=f"{float_model(tmp_path / 'other.onnx', -3.0)},") == 1
    assert rungs(run) == {("float", "reference"): "FAILED", ("reference", "board"): "PASSED"}


def test_the_ladder_of_final_outputs_alone(run: Command) -> None:
    assert run("triage", engine="finals") == 0
    assert run("triage", "--gate", "reference~board=cosine:0.5", engine="finals", spoil="--spoil b") == 0
    assert rungs(run) == {("reference", "board"): "PASSED"}


@pytest.mark.parametrize(
    ("name", "words", "said"),
    [
        ("triage", ["--capture", "C"], "--capture needs an integer graph, which --reference-engine does not give"),
        ("triage", ["--reduce", "D"], "--reduce needs an integer graph, which --reference-engine does not give"),
        ("triage", ["--build-cmd", "cc {onnx} {model}"], "--build-cmd needs an integer graph"),
        ("soak", ["--gate", "cosine:7"], "gate cosine: got 7.0, wanted -1 to 1"),
    ],
)
def test_what_an_engine_does_not_serve_is_one_line(
    name: str, words: list[str], said: str, run: Command, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(name, *words) == 2
    shown = capsys.readouterr()
    assert said in shown.err and len(shown.err.splitlines()) == 1


@pytest.mark.parametrize("name", ["soak", "triage"])
def test_a_board_that_would_run_qvrt(name: str, run: Command, capsys: pytest.CaptureFixture[str]) -> None:
    words = [name, "-m", str(run.onnx), "-b", "local", "--reference-engine", f"{ENGINE}:finals"]
    assert main([*words, *(["--for", "1"] if name == "soak" else [])]) == 2
    assert "say what runs it on the board: --runner 'COMMAND'" in capsys.readouterr().err


def test_an_option_of_an_engine_without_one(run: Command, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["soak", "-m", str(run.onnx), "-b", "local", "--for", "1"]
    assert main([*words, "--gate", "exact"]) == 2 and main([*words, "--reference-python", "python3"]) == 2
    shown = capsys.readouterr().err
    assert "--gate judges what --reference-engine gives" in shown and "--reference-python runs" in shown
