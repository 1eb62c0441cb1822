"""qverify triage: the rung that breaks, the culprit first, the next step; and everything that must never look like a holding ladder."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import numpy as np
import pytest
from qverify.cli.main import main
from qverify.report.schema import triage_schema

from tests.plain.triaged_models import PLANTED, run


def test_every_gate_holds_on_good_models(models: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status, found = run(
        tmp_path, "-m", f"{models}/float.onnx,{models}/quant.onnx", "-b", "local", "-i", models / "x.npy"
    )
    jsonschema.validate(found, triage_schema())
    assert (status, found["verdict"], found["broken"], found["schema"]) == (0, "PASSED", None, "qverify.triage/1")
    assert [(r["a"], r["b"]) for r in found["rungs"]] == [
        ("float", "reference"), ("reference", "simulator"), ("simulator", "board")
    ]  # fmt: skip
    assert all(r["not_forced"] == 0 for r in found["rungs"][1:]) and not found["unpaired"]
    assert "TRIAGE: all 3 gates pass" in capsys.readouterr().out


def test_a_board_that_offers_final_outputs_only(
    models: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    status, found = run(tmp_path, "-m", f"{models}/quant.onnx", "-b", "finals:local", "-i", models / "x.npy")
    assert status == 0 and found["rungs"][-1]["forced"] == 0 < found["rungs"][-1]["not_forced"]
    assert "tensors could not be recomputed" in capsys.readouterr().out


def test_stages_in_an_order_of_their_own(models: Path, tmp_path: Path) -> None:
    order = f"{models}/float.onnx,{models}/quant.onnx,{models}/bad.onnx,simulator"
    status, found = run(
        tmp_path, "--stages", order, "-i", models / "x.npy", "--gate", "fake-quantized~reference=cosine:0.99"
    )
    assert [(s["name"], s["kind"]) for s in found["stages"]] == [
        ("float", "float"), ("fake-quantized", "fake-quantized"), ("reference", "reference"), ("simulator", "simulator")
    ]  # fmt: skip
    assert (status, found["broken"]) == (1, "fake-quantized ~ reference")


def test_a_spoiled_node_of_the_board_is_drawn_and_blamed(
    models: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    node = f"{PLANTED}_QuantizeLinear_Output"
    board = f"faulty:local?fault=plus_one@{node}"
    status, found = run(tmp_path, "-m", f"{models}/float.onnx,{models}/quant.onnx", "-b", board, "-i", models / "x.npy")
    rung = found["rungs"][-1]
    assert (status, found["broken"], rung["kind"]) == (1, "simulator ~ board", "node")
    assert (rung["blame"]["side"], rung["blame"]["node"], rung["forced_failures"]) == ("board", node, [node])
    text = capsys.readouterr().out
    assert f"[X] {node} (conv)" in text and "┌─ = r1_QuantizeLinear_Output" in text and "~ a_QuantizeLinear" in text
    assert "board's driver or runtime" in text


def test_a_board_that_cannot_be_reached_is_inconclusive(models: Path, tmp_path: Path) -> None:
    status, found = run(tmp_path, "-m", f"{models}/quant.onnx", "-b", "ssh://127.0.0.1:1", "-i", models / "frames")
    assert (status, found["verdict"], found["broken"]) == (3, "INCONCLUSIVE", None)
    assert found["next_step"].startswith("reach the board first")


def dumped(models: Path, folder: Path) -> dict[str, np.ndarray]:
    words = ["-m", str(models / "quant.onnx"), "-i", str(models / "x.npy"), "-o", str(folder)]
    assert main(["infer", *words]) == 0
    held = json.loads((folder / "manifest.json").read_text())["tensors"]
    return {name: np.load(folder / file) for file, name in held.items()}


@pytest.mark.parametrize("lsb", [0, 1, 2])
def test_another_runtime_is_blamed_for_a_single_step_away_from_a_tie(models: Path, tmp_path: Path, lsb: int) -> None:
    tensors, node = dumped(models, tmp_path / "dump"), "r1_QuantizeLinear_Output"
    before = int(tensors[node][0, 2, 5, 6])
    tensors[node][0, 2, 5, 6] = before + lsb if before < 128 else before - lsb
    np.savez(tmp_path / "dump.npz", **tensors)
    status, found = run(tmp_path, "-m", f"{models}/quant.onnx,{tmp_path}/dump.npz", "-i", models / "x.npy")
    rung = found["rungs"][-1]
    assert (rung["a"], rung["b"]) == ("reference", "dump")
    if lsb == 0:
        assert rung["blame"] is None and node not in rung["forced_failures"]
    else:
        assert status == 1 and (rung["blame"]["side"], rung["blame"]["node"]) == ("dump", node)


def test_what_the_application_read_is_held_to_the_last_stage(models: Path, tmp_path: Path) -> None:
    y = dumped(models, tmp_path / "dump")["y"]
    words = ("-m", f"{models}/quant.onnx", "-b", "local", "-i", models / "x.npy", "--app-output", tmp_path / "app.npz")
    for value, status, verdict in (
        (y, 0, "PASSED"), (y[:, ::-1], 1, "FAILED"), (y * np.nan, 1, "FAILED"), (y[:, :9], 3, "INCONCLUSIVE")
    ):  # fmt: skip
        np.savez(tmp_path / "app.npz", y=value)
        got, found = run(tmp_path, *words)
        assert (got, found["rungs"][-1]["verdict"]) == (status, verdict)
    np.savez(tmp_path / "app.npz", boxes=y)
    assert run(tmp_path, *words)[0] == 2


def test_what_the_application_fed_is_held_to_the_prepared_bytes(models: Path, tmp_path: Path) -> None:
    data = np.load(models / "x.npy")
    words = ("-m", f"{models}/quant.onnx", "-i", models / "x.npy", "--app-input", tmp_path / "fed.bin")
    data.tofile(tmp_path / "fed.bin")
    assert run(tmp_path, *words)[0] == 0
    data[:, ::-1].tofile(tmp_path / "fed.bin")
    status, found = run(tmp_path, *words)
    assert (status, found["broken"]) == (1, "inputs ~ application's inputs") and "inputs diff" in found["next_step"]


def test_without_a_float_model_it_says_what_is_not_known(models: Path, tmp_path: Path) -> None:
    status, found = run(tmp_path, "-m", f"{models}/quant.onnx")
    assert status == 0 and len(found["unknown"]) == 3 and found["losses"] == [] and found["what_if"] is None


@pytest.mark.parametrize(
    "words",
    [
        [],
        ["capture"],
        ["-m", "{models}/float.onnx"],
        ["-m", "{models}/float.onnx", "-b", "local"],
        ["-m", "{models}/quant.onnx", "-s", "False"],
        ["-m", "{models}/quant.onnx", "--gate", "float~reference=exact"],
        ["-m", "{models}/quant.onnx", "--gate", "reference~simulator=close"],
        ["-m", "{models}/quant.onnx", "--stages", "{models}/quant.onnx,board"],
        ["--stages", "{models}/quant.onnx,{models}/float.onnx,simulator"],
        ["-m", "{models}/missing.onnx"],
        ["-m", "{models}/float.onnx,"],
        ["-m", "{models}/quant.onnx", "-i", "{models}/frames", "--app-output", "{models}/x.npy"],
    ],
)
def test_a_mistake_is_one_line(models: Path, words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["triage", *(w.format(models=models) for w in words)]) == 2
    error = capsys.readouterr().err
    assert error.startswith("qverify: ") and error.count("\n") == 1
