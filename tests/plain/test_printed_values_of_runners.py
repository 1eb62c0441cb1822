"""A runner that prints fewer decimals than a gate needs: INCONCLUSIVE in the main job and in triage, whatever the gate."""

from __future__ import annotations

import json
import shlex
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from qverify.cli.main import main

TOOL = """
import shutil, sys
shutil.copyfile({text!r}, sys.argv[3] + "/model_infer_output_0_y.txt")
"""


def halves() -> onnx.ModelProto:
    """Returns a Relu between quantizers of scale 0.5, so that every value has one decimal."""
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "s", "z"], ["x_q"]),
        helper.make_node("DequantizeLinear", ["x_q", "s", "z"], ["x_r"]),
        helper.make_node("Relu", ["x_r"], ["h"]),
        helper.make_node("QuantizeLinear", ["h", "s", "z"], ["h_q"]),
        helper.make_node("DequantizeLinear", ["h_q", "s", "z"], ["y"]),
    ]
    ends = [[helper.make_tensor_value_info(n, TensorProto.FLOAT, [4, 8])] for n in "xy"]
    constants = [
        helper.make_tensor("s", TensorProto.FLOAT, [], [0.5]),
        helper.make_tensor("z", TensorProto.INT8, [], [0]),
    ]
    graph = helper.make_graph(nodes, "halves", *ends, constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


@pytest.fixture
def words(tmp_path: Path) -> list[str]:
    """Options of a board whose runner prints the right values of y with one decimal."""
    path, folder = tmp_path / "m.onnx", tmp_path / "dump"
    onnx.save(halves(), path)
    assert main(["infer", "-m", str(path), "--side", "simulator", "-o", str(folder)]) == 0
    files = {n: f for f, n in json.loads((folder / "manifest.json").read_text())["tensors"].items()}
    text, tool = tmp_path / "y.txt", tmp_path / "tool.py"
    np.savetxt(text, np.load(folder / files["y"]).reshape(-1), fmt="%.1f")
    tool.write_text(TOOL.format(text=str(text)))
    line = f"{shlex.quote(sys.executable)} {tool} {{model}} {{input}} {{out}}"
    return ["-m", f"{path},{path}", "-b", "local", "--runner", line, "-s", "False"]


@pytest.mark.parametrize(
    ("gates", "asked"),
    [
        ([], "-c 5 (the default)"),
        (["-c", "2"], "-c 2"),
        (["--atol", "1e-6"], "--atol 1e-06"),
        (["--max-rmse", "0.01"], "--max-rmse 0.01"),
        (["-c", "1", "--rule", "exact"], "--rule exact"),
        (["--rtol", "0.01"], "--rtol without --atol"),
        (["-c", "1", "--atol", "1e-6"], "--atol 1e-06"),
    ],
)
def test_a_gate_finer_than_what_was_printed_is_inconclusive(
    words: list[str], gates: list[str], asked: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "report.json"
    assert main([*words, *gates, "--json", str(out)]) == 3
    (pair,) = json.loads(out.read_text())["pairs"]
    assert (pair["verdict"], pair["cause"], pair["bit_equal"]) == ("INCONCLUSIVE", "precision", False)
    assert pair["why"].startswith(f"{asked}: the values of the board are known only to 1 decimal, and nothing finer")


@pytest.mark.parametrize("gates", [["-c", "1"], ["--atol", "0.1"], ["--max-rmse", "0.2"], ["--min-cosine", "0.9"]])
def test_a_gate_that_is_no_finer_passes(words: list[str], gates: list[str]) -> None:
    assert main([*words, *gates]) == 0


def test_triage_gives_the_main_jobs_verdict(
    words: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "triage.json"
    assert main(["triage", *words, "--json", str(out)]) == 3
    shown = capsys.readouterr().out
    held = json.loads(out.read_text())
    assert held["main_job"]["verdict"] == held["verdict"] == "INCONCLUSIVE" and "all gates pass" not in shown
    assert "the values of the board are known only to 1 decimal" in shown.splitlines()[-1]
    assert main(["triage", *words, "-c", "1"]) == 0


def test_a_replay_is_limited_by_what_the_runner_printed(words: list[str], tmp_path: Path) -> None:
    run, again, cap = (tmp_path / n for n in ("run.json", "again.json", "cap"))
    assert main([*words, "--capture", str(cap), "--json", str(run)]) == 3
    assert main(["replay", str(cap), "--runtime", "runner", "--json", str(again)]) == 3
    first, second = (json.loads(p.read_text()) for p in (run, again))
    for key in ("verdict", "cause", "why", "bit_equal", "relaxed"):
        assert first["pairs"][0][key] == second["pairs"][0][key], key
    assert "the board's values are known to 1 decimal" in second["notes"]
    assert not any("'precision' in the settings of the board is ignored" in note for note in second["notes"])
    assert main(["replay", str(cap), "--runtime", "runner", "-c", "1"]) == 0
    assert main(["replay", str(cap), "--json", str(again)]) != 0  # as a board that runs qvrt, its values are exact
    assert any(
        "'precision' in the settings of the board is ignored" in n for n in json.loads(again.read_text())["notes"]
    )
