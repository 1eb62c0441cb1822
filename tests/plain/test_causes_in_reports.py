"""The named cause in every report of the main job, in replay, in `compare -m` and in triage."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import jsonschema
import numpy as np
import onnx
import pytest
from qverify.cli.main import main
from qverify.report.read_report import read_report
from qverify.report.schema import report_schema

from tests.plain.faulty_runners import change_board
from tests.plain.test_recorded_causes import Change, constant, conv

DEVICE = """import sys, numpy as np, onnxruntime as ort
options = ort.SessionOptions()
options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
session = ort.InferenceSession(sys.argv[1], options, providers=["CPUExecutionProvider"])
names = [o.name for o in session.get_outputs()]
for name, value in zip(names, session.run(None, {session.get_inputs()[0].name: np.load(sys.argv[2])})):
    np.save(sys.argv[3] + "/" + name + ".npy", value)
"""
SAID = "bias left out"
NO_BIAS: Change = constant("_i32", np.zeros_like)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with a model, two inputs, and a board's program and models: right.onnx and wrong.onnx."""
    m = conv()
    onnx.save(m.model(), tmp_path / "q.onnx")
    for name, change in (("right", None), ("wrong", NO_BIAS)):
        model, _ = change_board(m, change)
        tensors = [n.output[0] for n in model.graph.node if n.op_type == "QuantizeLinear"]
        model.graph.output.extend(onnx.ValueInfoProto(name=n) for n in tensors)
        onnx.save(model, tmp_path / f"{name}.onnx")
    rng = np.random.default_rng(0)
    for at in range(2):
        np.save(tmp_path / f"{at}.npy", rng.uniform(-2, 3, (1, 8, 12, 12)).astype(np.float32))
    (tmp_path / "device.py").write_text(DEVICE)
    return tmp_path


def words(folder: Path, board: str = "wrong", inputs: str = "0.npy") -> list[str]:
    runner = f"{sys.executable} {folder / 'device.py'} {folder / board}.onnx {{npy}} {{out}}"
    given = ["-m", str(folder / "q.onnx"), "-i", str(folder / inputs), "-b", "local"]
    return [*given, "--runner", runner, "-r", "True"]


def test_every_report_of_the_main_job_and_of_replay_has_the_cause(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = {kind: folder / f"r.{end}" for kind, end in (("json", "json"), ("md", "md"), ("html", "html"))}
    options = ["--json", str(files["json"]), "--markdown", str(files["md"]), "--html", str(files["html"])]
    capture = str(folder / "cap")
    assert main([*words(folder), *options, "--capture", capture]) == 1
    lines = capsys.readouterr().out.splitlines()
    at = next(n for n, line in enumerate(lines) if line.startswith("blame: board at y_q"))
    assert lines[at + 2].startswith(f"  cause: {SAID}")
    report = json.loads(files["json"].read_text())
    jsonschema.validate(report, report_schema())
    cause = report["blame"]["cause"]
    assert cause["causes"][0] == SAID and cause["tensor"] == "y_q" and cause["elements"] == 1152
    assert cause["left"] == 0 and cause["bits"] > cause["wanted"] and report["blamed"][0]["cause"] == cause
    assert read_report(str(files["json"])).blame.cause.line.startswith(f"cause: {SAID}")  # type: ignore[union-attr]
    for kind in ("md", "html"):
        assert f"Cause: {SAID}" in files[kind].read_text()
    again = folder / "again.json"
    assert main(["replay", capture, "--runtime", "runner", "--json", str(again)]) == 1
    assert json.loads(again.read_text())["blame"]["cause"] == cause


def test_several_frames_have_the_cause_once(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "frames.txt").write_text("0.npy\n1.npy\n")
    assert main([*words(folder, inputs="frames.txt"), "--json", str(folder / "r.json")]) == 1
    assert sum(f"cause: {SAID}" in line for line in capsys.readouterr().out.splitlines()) == 1
    blamed = json.loads((folder / "r.json").read_text())["blamed"]
    assert [blame["cause"] is not None for blame in blamed] == [True, False]


def test_compare_with_a_model_names_the_cause(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    import subprocess

    for board in ("right", "wrong"):
        (folder / board).mkdir()
        command = [sys.executable, folder / "device.py", folder / f"{board}.onnx", folder / "0.npy", folder / board]
        subprocess.run(list(map(str, command)), check=True)
    dumps = [str(folder / "right"), str(folder / "wrong")]
    assert main(["compare", *dumps, "-m", str(folder / "q.onnx")]) == 1
    lines = capsys.readouterr().out.splitlines()
    at = next(n for n, line in enumerate(lines) if line.startswith("blame: B at y_q"))
    assert lines[at + 2].startswith(f"  cause: {SAID}")
    assert main(["compare", *dumps]) == 1
    assert "cause: bias" not in capsys.readouterr().out
    assert main(["compare", dumps[0], dumps[0], "-m", str(folder / "q.onnx")]) == 0
    assert "cause: " not in capsys.readouterr().out


def test_triage_names_the_cause_of_the_main_job(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["triage", *words(folder), "--explain", "60"]) == 1
    out = capsys.readouterr().out
    assert f"  cause: {SAID}" in out and f"(conv): EXPLAINED: {SAID}" in out
    assert main(["triage", *words(folder), "--explain", "0"]) == 1
    assert "cause: bias" not in capsys.readouterr().out


def test_triage_of_a_board_that_floors_gives_the_arithmetic(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The arithmetic that the main job names is the explanation; no known fault is searched beside it."""
    model = onnx.load(folder / "right.onnx")
    nodes = list(model.graph.node)
    at, quantize = next((n, node) for n, node in enumerate(nodes) if node.output[0] == "y_q")
    scale = np.float32(
        onnx.numpy_helper.to_array(next(i for i in model.graph.initializer if i.name == quantize.input[1]))
    )
    constants = {"half": np.float32(0.5) * scale - scale * np.float32(2.0**-10)}
    model.graph.initializer.extend(onnx.numpy_helper.from_array(v, n) for n, v in constants.items())
    nodes.insert(at, onnx.helper.make_node("Sub", [quantize.input[0], "half"], ["lower"]))
    quantize.input[0] = "lower"
    del model.graph.node[:]
    model.graph.node.extend(nodes)
    onnx.save(model, folder / "floors.onnx")
    assert main([*words(folder, "floors"), "--json", str(folder / "r.json")]) == 1
    capsys.readouterr()
    blame = json.loads((folder / "r.json").read_text())["blame"]
    assert "rounded down (floor) gives every element" in blame["why"] and blame["cause"] is None
    assert main(["triage", *words(folder, "floors"), "--explain", "60"]) == 1
    out = capsys.readouterr().out
    assert "EXPLAINED: the exact value, rounded down (floor) gives every element; " in out and "UNEXPLAINED" not in out
