"""A board that gives final outputs only is triaged by --build-cmd: the first node that goes wrong is located by bisection."""

from __future__ import annotations

import json
import os
import shlex
import sys
from pathlib import Path

import pytest
from qverify.cli.main import main

TOOL = Path(__file__).with_name("onnxruntime_tool.py")
COPY = "cp {onnx} {model}"
GATE = ("--gate", "reference~board=cosine:0.999")  # onnxruntime's softmax of the file as it is rounds otherwise
NODES = [
    "image_QuantizeLinear_Output",
    "relu1_QuantizeLinear_Output",
    "pool1_QuantizeLinear_Output",
    "relu2_QuantizeLinear_Output",
]


class Run:
    """Triages the packaged example on a board whose tool is onnxruntime with a fault."""

    def __init__(self, onnx: Path, json_file: Path):
        self.onnx, self.json = onnx, json_file

    def __call__(self, *words: str, options: str = "", build: str = COPY) -> int:
        tool = f"{shlex.quote(sys.executable)} {TOOL} --model {{model}} --inputs {{npys}} --out {{out}} {options}"
        given = ["-m", str(self.onnx), "-b", "local", "--runner", tool, "--build-cmd", build, "--json", str(self.json)]
        return main(["triage", *given, *GATE, *words])

    @property
    def rung(self) -> dict:  # type: ignore[type-arg]
        rungs = json.loads(self.json.read_text())["rungs"]
        return next(r for r in rungs if (r["a"], r["b"]) == ("reference", "board"))

    @property
    def evidence(self) -> str:
        return "\n".join(self.rung["evidence"])


@pytest.fixture
def run(digits: Path, tmp_path: Path) -> Run:
    return Run(digits / "digits_quant.onnx", tmp_path / "T.json")


@pytest.mark.parametrize("node", [NODES[0], NODES[2]])  # the first one, and one between others
def test_a_planted_fault_is_located(run: Run, node: str) -> None:
    assert run(options=f"--spoil {node}") == 1
    assert run.rung["blame"]["side"] == "board" and run.rung["blame"]["node"] == node
    assert f"{node} (" in run.evidence and "is the first that differs" in run.evidence
    assert "the board agrees" in run.evidence or "its inputs are those given" in run.evidence


def test_a_board_without_a_fault_is_not_bisected(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    assert run() == 0
    assert "cut after" not in capsys.readouterr().err


def test_builds_that_fail_are_stepped_around(run: Run, tmp_path: Path) -> None:
    compiler = tmp_path / "compile.py"
    compiler.write_text(
        "import onnx, shutil, sys\n"
        "ends = [o.name for o in onnx.load(sys.argv[1]).graph.output]\n"
        f"if ends == ['{NODES[1]}']:\n    sys.exit('no such layer on this chip')\n"
        "shutil.copy(*sys.argv[1:3])\n"
    )
    build = f"{sys.executable} {compiler} {{onnx}} {{model}}"
    assert run(options=f"--spoil {NODES[3]}", build=build) == 1
    assert run.rung["blame"]["node"] == NODES[3]  # that cut is not needed, or another takes its place
    assert run(options=f"--spoil {NODES[2]}", build=build) == 1
    assert run.rung["blame"] is None
    assert f"from {NODES[1]} to {NODES[2]}: no cut between them gave a result" in run.evidence
    assert (
        "1 cut gave no result and was stepped around" in run.evidence and "no such layer on this chip" in run.evidence
    )


def test_a_command_that_always_fails_locates_nothing(run: Run) -> None:
    assert run(options=f"--spoil {NODES[2]}", build="false {onnx} {model}") == 1
    assert run.rung["blame"] is None
    assert "the whole model, built by it, gives nothing: --build-cmd false: exit status 1" in run.evidence
    assert run(options=f"--spoil {NODES[2]}", build="true {onnx} {model}") == 1
    assert "--build-cmd true: it wrote no {model}" in run.evidence


def test_a_fault_that_depends_on_what_is_built_is_said(run: Run) -> None:
    """It shows only in models that contain a later node: the cut after the spoilt node agrees."""
    assert run(options=f"--spoil {NODES[1]} --only-with {NODES[3]}") == 1
    assert run.rung["blame"] is None or run.rung["blame"]["node"] != NODES[1]
    assert "is the first that differs" in run.evidence


def test_another_model_than_the_command_builds_is_said(run: Run, digits: Path, tmp_path: Path) -> None:
    vendor = tmp_path / "vendor.bin"
    vendor.write_bytes(b"opaque")
    tool = tmp_path / "tool.py"
    tool.write_text(
        "import subprocess, sys\n"
        "model, npys, out = sys.argv[1:4]\n"
        f"spoil = ['--spoil', '{NODES[2]}'] if open(model, 'rb').read() == b'opaque' else []\n"
        f"model = {str(run.onnx)!r} if spoil else model\n"
        f"words = [sys.executable, {str(TOOL)!r}, '--model', model, '--inputs', npys, '--out', out, *spoil]\n"
        "sys.exit(subprocess.run(words).returncode)\n"
    )
    line = f"{sys.executable} {tool} {{model}} {{npys}} {{out}}"
    words = [
        "-m",
        f"{run.onnx},{vendor}",
        "-b",
        "local",
        "--runner",
        line,
        "--build-cmd",
        COPY,
        "--json",
        str(run.json),
    ]
    assert main(["triage", *words, *GATE]) == 1
    assert "the whole model, built by it, agrees with the reference: the given board model was built" in run.evidence
    assert run.rung["blame"] is None


def test_the_gate_of_the_rung_judges_the_cuts(run: Run) -> None:
    assert run("--gate", "reference~board=cosine:-1", options=f"--spoil {NODES[2]}") == 0


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--build-cmd", "tool {onnx}"], "it must contain {onnx}, and {model} or {bin}"),
        (["--build-cmd", COPY], "--build-cmd is for a board with a runner (--runner), or with --reduce DIR"),
        (
            ["--runner", "tool {model} {input}", "--app-output", "x.npz"],
            "--app-output is compared with a board that runs qvrt",
        ),
    ],
)
def test_mistakes_are_one_line(run: Run, words: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["triage", "-m", str(run.onnx), "-b", "local", *words]) == 2
    assert said in capsys.readouterr().err


@pytest.mark.skipif(os.name != "posix", reason="the planted command is of a POSIX shell")
def test_a_runner_board_is_not_reduced(run: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "reduced"
    assert run("--reduce", str(folder), options=f"--spoil {NODES[2]}", build="cp {onnx} {bin}") in (1, 3)
    assert "a board that runs something else is not reduced" in capsys.readouterr().out and not folder.exists()


def test_a_command_that_builds_the_same_of_every_cut_is_named(run: Run) -> None:
    assert run(options=f"--spoil {NODES[1]}", build=f"sh -c 'cp {run.onnx} {{model}}' {{onnx}}") == 1
    assert run.rung["blame"] is None
    assert "--build-cmd sh: the same bytes as for the cut after prob; does it read {onnx}?" in run.evidence
