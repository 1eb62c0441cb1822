"""triage begins with the main job's verdict, is judged by its options, and never contradicts it."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import jsonschema
import numpy as np
import pytest
from qverify.cli.main import main
from qverify.report.schema import triage_schema

FAR_OFF = """import sys, numpy as np, onnxruntime as ort
session = ort.InferenceSession(sys.argv[1], providers=["CPUExecutionProvider"])
value = session.run(None, {session.get_inputs()[0].name: np.load(sys.argv[2])})[0]
np.save(sys.argv[3] + "/" + session.get_outputs()[0].name + ".npy", value + np.float32(0.25))
"""


@pytest.fixture
def words(digits: Path, tmp_path: Path) -> list[str]:
    """A runner whose final output is 0.25 too large."""
    model, image = str(digits / "digits_quant.onnx"), tmp_path / "x.npy"
    with np.load(digits / "digits.npz") as images:
        np.save(image, images[sorted(images.files)[0]])
    (tmp_path / "device.py").write_text(FAR_OFF)
    runner = f"{sys.executable} {tmp_path / 'device.py'} {{model}} {{npy}} {{out}}"
    return ["-m", model, "-i", str(image), "-b", "local", "--runner", runner]


def run(words: list[str], report: Path) -> tuple[int, dict]:  # type: ignore[type-arg]
    status = main([*words, "--json", str(report)])
    return status, json.loads(report.read_text())


@pytest.mark.parametrize(
    "options",
    [[], ["-c", "0"], ["-r", "True"], ["--min-cosine", "-1"], ["--gate", "sqnr:-100"], ["--rule", "exact"]],
    ids=" ".join,
)
def test_the_verdict_is_that_of_the_main_job_with_the_same_options(
    options: list[str], words: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    status, report = run([*words, *options], tmp_path / "r.json")
    capsys.readouterr()
    triaged_status, triage = run(["triage", *words, *options, "--explain", "0"], tmp_path / "t.json")
    jsonschema.validate(triage, triage_schema())
    assert (triaged_status, triage["verdict"], triage["main_job"]["verdict"]) == (status, *[report["verdict"]] * 2)
    told = [(p["a"], p["b"], p["verdict"], p["gate"]) for p in report["pairs"]]
    assert [(p["a"], p["b"], p["verdict"], p["gate"]) for p in triage["main_job"]["pairs"]] == told
    lines = capsys.readouterr().out.splitlines()
    assert lines[2].startswith("main job: Quanti.onnx and Sim result Strict check PASSED")
    assert f"Quanti.onnx and Arm result Strict check {told[1][2]}" in lines[3]


def test_a_milder_gate_of_a_rung_is_said(words: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    gate = ["--gate", "reference~board=cosine:-1"]
    status, triage = run(["triage", *words, *gate, "--explain", "0"], tmp_path / "t.json")
    assert (status, triage["main_job"]["verdict"]) == (0, "FAILED")
    out = capsys.readouterr().out.splitlines()
    assert "main job: Quanti.onnx and Arm result Strict check FAILED" in out[3]
    assert "cosine >= -1 is milder than the main job's, 5 decimals" in out[-1] and "by which it is FAILED" in out[-1]


def test_a_pair_that_is_no_rung_is_not_passed_over(
    digits: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The rungs are reference ~ simulator and reference ~ board; the main job compares simulator and board as well."""
    from qverify.report.document import Pair, ReportDocument
    from qverify.report.triage_document import Rung
    from qverify.session.triage.run_ladder import Ladder
    from qverify.session.triage.triage_request import TriageRequest

    ladder = Ladder(TriageRequest([str(digits / "digits_quant.onnx")]))
    pairs = [Pair("reference", "simulator", "PASSED"), Pair("simulator", "board", "FAILED", why="off")]
    ladder.main_verdicts.add(ReportDocument(verdict="FAILED", blame=None, decimals={}, pairs=pairs))
    bad = Rung("simulator", "board", "5 decimals", "FAILED", why="off")
    ladder.devices.rungs()[("simulator", "board")] = bad
    passing = [Rung("reference", "simulator", "5 decimals", "PASSED")]
    assert ladder._list_contradicted(passing) == [bad]
    assert ladder._list_contradicted([*passing, Rung("reference", "board", "", "FAILED")]) == []
    ladder.close()


@pytest.mark.parametrize("left", ["nothing", "unreadable"])
def test_a_run_whose_files_cannot_be_read_is_not_called_one_that_did_not_run(
    left: str, words: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    line = ": {model} {npy}" + ("" if left == "nothing" else "; echo broken > {out}/prob.npy")
    words = [*words[:-1], line]
    for command in ([], ["triage"]):
        assert main([*command, *words]) == 3
        out = capsys.readouterr().out
        assert "did not run" not in out and "the board ran, but what it left could not be read: " in out


def test_stages_of_one_file_name_are_told_apart(digits: Path, tmp_path: Path) -> None:
    quantized = (digits / "digits_quant.onnx").read_bytes()
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "m.onnx").write_bytes(quantized)
    words = ["triage", "-m", f"{tmp_path / 'a' / 'm.onnx'},{tmp_path / 'b' / 'm.onnx'}", "-s", "False"]
    _, triage = run(words, tmp_path / "t.json")
    sources = [stage["source"] for stage in triage["stages"]]
    assert sources == [str(tmp_path / "a" / "m.onnx"), str(tmp_path / "b" / "m.onnx")]
