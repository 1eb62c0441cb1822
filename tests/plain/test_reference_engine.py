"""--reference-engine: what only a vendor's engine runs is the reference by value; an engine that goes wrong is one line."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
import venv
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from qverify.cli.main import main
from qverify.errors import UsageError
from qverify.sides.engine_process import EngineChoice, run_engine

ENGINE = Path(__file__).with_name("engine_of_tests.py")
RUNNER = Path(__file__).with_name("runner_of_engine.py")


def vendor_model(path: Path) -> Path:
    """Writes x -> Half -> a -> Add 1 -> b -> Half -> y, whose operator Half only its vendor's engine runs."""
    one = helper.make_tensor("one", TensorProto.FLOAT, [], [1.0])
    nodes = [
        helper.make_node("Half", ["x"], ["a"], "first", domain="vendor"),
        helper.make_node("Add", ["a", "one"], ["b"], "second"),
        helper.make_node("Half", ["b"], ["y"], "third", domain="vendor"),
    ]
    x, y = (helper.make_tensor_value_info(n, TensorProto.FLOAT, [1, 4]) for n in "xy")
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("vendor", 1)]
    graph = helper.make_graph(nodes, "vendor", [x], [y], [one])
    model = helper.make_model(graph, opset_imports=opsets)
    model.ir_version = 8
    onnx.save(model, path)
    return path


class Run:
    """Runs the main job: the engine beside a board whose runner is a tool of the tests."""

    def __init__(self, tmp_path: Path):
        self.onnx, self.json = vendor_model(tmp_path / "vendor.onnx"), tmp_path / "R.json"
        self.board = tmp_path / "board.bin"
        self.board.write_bytes(b"opaque" * 9)
        self.input = tmp_path / "x.npy"
        np.save(self.input, np.array([[-5, 3, 8.5, 100]], "float32"))

    def __call__(self, engine: str, *words: str, options: str = "") -> int:
        line = f"{shlex.quote(sys.executable)} {RUNNER} --input {{npy}} --out {{out}} {options}"
        models, board = f"{self.onnx},{self.board}", ["-b", "local", "--runner", line]
        given = ["-m", models, *board, "-i", str(self.input), "--json", str(self.json), "--reference-engine", engine]
        return main([*given, *words])

    @property
    def report(self) -> dict:  # type: ignore[type-arg]
        return json.loads(self.json.read_text())


@pytest.fixture
def run(tmp_path: Path) -> Run:
    return Run(tmp_path)


def test_values_of_every_node_are_compared(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(f"{ENGINE}:every_tensor", "-r") == 0
    shown = capsys.readouterr().out
    line = next(one for one in shown.splitlines() if one.startswith("Quanti.onnx and Arm"))
    assert "PASSED" in line and "gives no integer graph: no simulator, and no node is recomputed" in line
    assert "the reference engine gives 3 of 3 tensors of nodes" in " ".join(shown.split())
    report = run.report
    assert [p["coverage"]["compared"] for p in report["pairs"]] == [3]
    assert {"side": "simulator", "why": "the reference engine gives no integer graph"} in report["not_run"]
    side = report["sides"][0]
    assert (side["engine"], side["version"]) == ("engine_of_tests.py:every_tensor", "7.1") and report["caveats"]


def test_a_node_that_differs_is_the_first(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(f"{ENGINE}:every_tensor", "-r", options="--spoil b") == 1
    pair = run.report["pairs"][0]
    assert pair["verdict"] == "FAILED" and pair["first_divergence"]["node"] == "b"


def test_the_gate_alone_decides(run: Run) -> None:
    """A slight difference of a node that nothing recomputes is no verdict of its own."""
    assert run(f"{ENGINE}:every_tensor", "-r", "--gate", "cosine:0.999", options="--spoil b --by 0.01") == 0


def test_final_outputs_alone(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(f"{ENGINE}:finals", "-r") == 0
    assert [p["coverage"]["compared"] for p in run.report["pairs"]] == [1]
    assert run(f"{ENGINE}:finals", options="--spoil b") == 1


@pytest.mark.parametrize("words", [(), ("-r",)])
def test_a_part_of_several_nodes_is_blamed_on_nobody(run: Run, words: tuple[str, ...]) -> None:
    """Final outputs alone: any of the three nodes, of either side, may be what differs."""
    assert run(f"{ENGINE}:finals", *words, options="--spoil a") == 1
    (pair,) = run.report["pairs"]
    assert run.report["blame"] is None and pair["cause"] == "unlocated"
    assert [unit["covers"] for unit in run.report["units"]] == [["y", "b", "a"]]


@pytest.mark.parametrize(
    ("mode", "said"),
    [
        ("hang", "no answer within 3 s; --reference-timeout allows more"),
        ("crash", "ended with signal 6"),
        ("exit", "ended without an answer"),
        ("raise", "ended with status 1: ValueError: no licence for this chip"),
        ("memory", "ended with status 1: "),
        ("garbage", "its answer cannot be read: BadZipFile"),
        ("many", "names.json: a name is empty or there twice"),
        ("none", "it returned NoneType, wanted a dict of arrays by tensor name"),
        ("names", "it gave no output 'y' of "),
        ("strange", "it gave 'z', which no node of "),
        ("shape", "it gave y as float32[4], the model says float32[1, 4]"),
        ("dtype", "it gave y as float64[1, 4], the model says float32[1, 4]"),
        ("object", "y: object[1] does not fit into"),
        ("zero", "it gave y as float32[0, 4], the model says float32[1, 4]"),
    ],
)
def test_an_engine_that_goes_wrong_is_one_line(
    run: Run, mode: str, said: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("ENGINE_MODE", mode)
    assert run(f"{ENGINE}:wrong", "--reference-timeout", "3") == 2
    shown = capsys.readouterr()
    assert said in shown.err and len(shown.err.splitlines()) == 1 and "PASSED" not in shown.out


def test_nan_is_never_passed(run: Run, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("ENGINE_MODE", "nan")
    assert run(f"{ENGINE}:wrong") == 1
    assert "NaN or Inf on one side only" in capsys.readouterr().out


def test_its_memory_is_bounded(run: Run) -> None:
    if not sys.platform.startswith("linux"):
        pytest.skip("this system does not bound a process's address space")
    choice = EngineChoice((), f"{ENGINE}:every_tensor", most_memory=1 << 24)
    with pytest.raises(UsageError):
        run_engine(choice, run.onnx.read_bytes(), {"x": np.zeros((1, 4), "float32")})


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--reference-engine", "lib:no.so"], "lib:no.so: no such file"),
        (["--reference-engine", "vendor"], "wanted lib:PATH, module:callable"),
        (["--reference-engine", "no_such.py:run"], "no such file: no_such.py"),
        (["--reference-engine", "onnxruntime"], "give --reference-python"),
        (["--reference-engine", "a:b", "--reference-engine", "c:d"], "one or more lib:PATH, or one module:callable"),
        (["--reference-engine", "no_such_module:run"], "No module named 'no_such_module'"),
        (["--reference-engine", f"{ENGINE}:nothing"], "has no attribute 'nothing'"),
        (["--reference-engine", f"{ENGINE}:finals", "--reference-python", "no-such-python"], "no such program"),
        (["--reference-engine", f"{ENGINE}:finals", "--capture", "c"], "--capture needs an integer graph"),
        (["--reference-engine", f"{ENGINE}:finals", "-b", "local"], "say what runs it on the board: --runner"),
    ],
)
def test_mistakes_are_one_line(run: Run, words: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["-m", str(run.onnx), *words]) == 2
    error = capsys.readouterr().err
    assert said in error and len(error.splitlines()) == 1


def test_a_callable_of_another_environment(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    home = tmp_path / "venv"
    venv.create(home, system_site_packages=False, with_pip=False, symlinks=True)
    python = next(p for p in (home / "bin" / "python", home / "Scripts" / "python.exe") if p.exists())
    packages = subprocess.run(
        [python, "-c", "import site; print(site.getsitepackages()[0])"], capture_output=True, text=True, check=True
    ).stdout.strip()
    (Path(packages) / "numpy_of_tests.pth").write_text(str(Path(np.__file__).parents[1]))
    (Path(packages) / "vendor_engine.py").write_text(ENGINE.read_text())
    assert run("vendor_engine:every_tensor", "-r", "--reference-python", str(python)) == 0
    assert run("vendor_engine:every_tensor") == 2  # it is in that environment alone
    assert "No module named 'vendor_engine'" in capsys.readouterr().err


def test_a_dump_carried_by_hand_is_compared(run: Run, tmp_path: Path) -> None:
    dump, board = tmp_path / "dump", tmp_path / "board"
    words = ["--side", "reference", "--reference-engine", f"{ENGINE}:every_tensor"]
    assert main(["infer", "-m", str(run.onnx), *words, "-i", str(run.input), "-o", str(dump)]) == 0
    board.mkdir()
    tool = [sys.executable, str(RUNNER), "--input", str(run.input), "--out", str(board)]
    assert subprocess.run(tool, check=True).returncode == 0
    assert main(["compare", str(dump), str(board)]) == 0
    assert subprocess.run([*tool, "--spoil", "b"], check=True).returncode == 0
    assert main(["compare", str(dump), str(board)]) == 1
