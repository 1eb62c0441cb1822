"""hb_verifier and hb_model_verifier: every spelling of Horizon's documents, run as the main job."""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
import tomllib
from pathlib import Path

import numpy as np
import pytest
from qverify.cli import vendor_commands
from qverify.cli.main import main
from qverify.cli.vendor_commands import hb_model_verifier, hb_verifier

FAULTY = "faulty:local?fault=bitflip@relu2_QuantizeLinear_Output"
PASSED = "Quanti.onnx and Arm result Strict check PASSED"


@pytest.fixture(scope="module")
def models(tmp_path_factory, digits):
    out = tmp_path_factory.mktemp("model") / "model.bin"
    assert main(["compile", str(digits / "digits_quant.onnx"), "-o", str(out)]) == 0
    image = out.parent / "x.bin"
    np.random.default_rng(0).random((1, 1, 8, 8), np.float32).tofile(image)
    return str(digits / "digits_quant.onnx"), str(out), str(image)


def test_both_are_installed_as_scripts():
    root = Path(__file__).resolve().parents[2]
    scripts = tomllib.loads((root / "pyproject.toml").read_text())["project"]["scripts"]
    for name in ("hb_verifier", "hb_model_verifier"):
        module, _, function = scripts[name].partition(":")
        assert getattr(importlib.import_module(module), function) is getattr(vendor_commands, name)


@pytest.mark.parametrize(
    "words",
    [
        ["-m", "{q},{b}", "-b", "local", "-s", "True"],
        ["-m", "{q},{b}", "-b", "local"],
        ["-m", "{q},{b}", "-b", "local", "-r", "True", "-i", "{i}"],
        ["--model", "{q},{b}", "--board-ip", "local", "--run-sim", "False", "--input-img", "image:{i}"],
        [
            "--model={q},{b}",
            "--board-ip=local",
            "--run_sim=True",
            "--compare_digits=3",
            "--dump_all_nodes_results=True",
        ],
        ["-m", "{q},{b}", "-b", "local", "-c", "5", "-s", "-r"],
        ["-m", "{q},{b}", "--board_ip", "local", "-u", "root", "-p", "secret", "-c3"],
    ],
    ids=" ".join,
)
def test_every_spelling_of_hb_verifier(words, models, capsys):
    q, b, i = models
    assert hb_verifier([word.format(q=q, b=b, i=i) for word in words]) == 0
    printed = capsys.readouterr().out
    assert PASSED in printed and "criteria horizon" in printed


def test_model_bin_alone_on_both_ends(models, capsys):
    assert hb_verifier(["-m", models[1], "-b", "local", "-s", "True"]) == 0
    assert "Sim and Arm result Strict check PASSED (reference: not run" in capsys.readouterr().out


def test_a_wrong_board_fails_in_the_model_verifier_too(models):
    assert hb_model_verifier(["-q", models[0], "-b", models[1], "-a", FAULTY]) == 1


def test_a_wrong_board_fails_and_its_numbers_are_shown(models, capsys):
    assert hb_verifier(["-m", ",".join(models[:2]), "-b", FAULTY, "-s", "True", "-c", "9", "-i", models[2]]) == 1
    printed = capsys.readouterr().out
    assert "Sim and Arm result Strict check FAILED" in printed and "in the words of horizon" in printed


@pytest.mark.parametrize(
    "words",
    [
        ["-q", "{q}", "-b", "{b}", "-a", "local"],
        ["-q", "{q}", "-b", "{b}", "-a", "local", "-i", "{i}", "-d", "3"],
        ["--quanti_model", "{q}", "--bin_model", "{b}", "--arm-board-ip", "local", "--input-img", "{i}"],
        ["--quanti_model={q}", "--bin_model={b}", "--arm-board-ip=local", "--compare_digits=4", "-i{i}"],
    ],
    ids=" ".join,
)
def test_every_spelling_of_hb_model_verifier(words, models, tmp_path, capsys):
    q, b, i = models
    report = str(tmp_path / "r.json")
    assert hb_model_verifier([*(word.format(q=q, b=b, i=i) for word in words), "--json", report]) == 0
    assert PASSED in capsys.readouterr().out
    digits = json.loads(Path(report).read_text())["decimals"]["digits"]
    assert digits == {"-d": 3, "--compare_digits=4": 4}.get(next((w for w in words if w[:3] in ("-d", "--c")), ""), 5)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["-q", "a.onnx"], "wanted -q quanti.onnx and -b model.bin"),
        (["-q", "a.onnx", "-q", "b.onnx", "-b", "c.bin"], "quanti_model is given twice"),
        (["-q", "a.onnx", "-b", "b.bin,c.bin"], "pack model is not supported"),
        (["-q", "a.onnx", "-b", "b.bin", "-s", "True", "-m", "x"], "no option -m"),
        (["-q", "-b", "b.bin"], "-q is followed by -b: an unset shell variable?"),
        (["-q", "a.onnx", "-b"], "-b wants a value"),
    ],
)
def test_mistakes_are_one_line(words, said, capsys):
    assert hb_model_verifier(words) == 2
    error = capsys.readouterr().err
    assert said in error and error.count("\n") == 1


def test_mistakes_of_hb_verifier_are_the_main_jobs(models, capsys):
    for words in (["-b", "local"], ["-m", models[0], "-x"], ["-m", models[0], "-b"], ["-m", models[0], "-p"]):
        assert hb_verifier(words) == 2
        assert capsys.readouterr().err.count("\n") == 1


def test_the_password_reaches_ssh_alone_and_is_forgotten(monkeypatch, capsys):
    seen = []
    monkeypatch.setattr(
        vendor_commands, "main", lambda words: seen.append((words, os.environ.get("QVERIFY_SSH_PASSWORD"))) or 0
    )
    monkeypatch.setenv("QVERIFY_SSH_PASSWORD", "before")
    assert hb_verifier(["-m", "a", "-b", "10.0.0.5", "-u", "root", "-p", "secret"]) == 0
    ((words, password),) = seen
    assert password == "secret" and "secret" not in words and words[-2:] == ["--user", "root"]
    assert os.environ["QVERIFY_SSH_PASSWORD"] == "before"


def test_help_and_version(capsys):
    for command in (hb_verifier, hb_model_verifier):
        assert command([]) == 0 and command(["--help"]) == 0 and command(["-v"]) == 0
    printed = capsys.readouterr().out
    assert "hb_verifier -m quant.onnx,model.bin -b BOARD_IP" in printed and "qverify 0" in printed


def test_as_a_process(models):
    code = "import sys; from qverify.cli.vendor_commands import hb_verifier; sys.exit(hb_verifier())"
    words = [sys.executable, "-c", code, "-m", ",".join(models[:2]), "-b", "local", "-s", "True"]
    done = subprocess.run(words, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0 and PASSED in done.stdout, done.stderr
