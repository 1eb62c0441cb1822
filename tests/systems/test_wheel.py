"""A wheel built from the clone, installed where there is no clone: every command, and what its help names."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from qverify.cli.main import COMMANDS

ROOT = Path(__file__).resolve().parents[2]
SOURCES = ("verifier/qverify", "agents/qverify_agents", "board_runtime", "farm/qverify_farm")
FILES = ("pyproject.toml", "hatch_build.py", "README.md", "LICENSE", ".gitignore")
BACKEND = "hatchling>=1.27"


def run(*words: str | Path, **others: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*words], capture_output=True, text=True, timeout=300, **others)  # type: ignore[call-overload]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Returns a wheel of the present files, built in a copy of them, so that nothing of the checkout changes."""
    work = tmp_path_factory.mktemp("wheel")
    backend = run(sys.executable, "-m", "pip", "install", "-q", "--target", work / "backend", BACKEND)
    if backend.returncode:
        pytest.skip(f"pip cannot install {BACKEND}: {backend.stderr.strip().splitlines()[-1]}")
    clone = work / "clone"
    for name in SOURCES:
        shutil.copytree(ROOT / name, clone / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in FILES:
        shutil.copy(ROOT / name, clone)
    words = ["--no-deps", "--no-build-isolation", "-w", work / "dist", "."]
    built = run(
        *(sys.executable, "-m", "pip", "wheel", "-q", *words),
        cwd=clone,
        env=os.environ | {"PYTHONPATH": str(work / "backend")},
    )
    assert built.returncode == 0, built.stderr
    (path,) = (work / "dist").glob("qverify-*.whl")
    shutil.rmtree(clone)
    return path


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Returns the programs' folder of an environment with the wheel. The libraries are those of the environment that runs the
    tests, whose own qverify is in place in the checkout and is not seen."""
    folder = tmp_path_factory.mktemp("installed") / "venv"
    assert run(sys.executable, "-m", "venv", "--without-pip", folder).returncode == 0
    (site,) = folder.glob("lib/python*/site-packages")
    (site / "libraries.pth").write_text(f"{Path(np.__file__).parents[1]}\n")
    words = ["--no-deps", "--no-index", "--ignore-installed", wheel]
    done = run(sys.executable, "-m", "pip", "-q", "--python", folder / "bin" / "python", "install", *words)
    assert done.returncode == 0, done.stderr
    return folder / "bin"


@pytest.fixture
def qverify(installed: Path, tmp_path: Path):
    """Returns the function that runs the installed qverify, in a folder of its own."""
    environment = {n: v for n, v in os.environ.items() if n not in ("PYTHONPATH", "COLUMNS")}
    return lambda *words: run(installed / "qverify", *words, cwd=tmp_path, env=environment)


def test_it_is_the_installed_one_that_runs(qverify, installed: Path, tmp_path: Path):
    where = "import qverify, qverify_agents; print(qverify.__file__, qverify_agents.__file__)"
    environment = {n: v for n, v in os.environ.items() if n != "PYTHONPATH"}
    shown = run(installed / "python", "-c", where, cwd=tmp_path, env=environment).stdout.split()
    assert len(shown) == 2 and all(Path(path).is_relative_to(installed.parent) for path in shown)
    done = qverify("--version")
    assert done.returncode == 0 and done.stdout.startswith("qverify ")


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_its_help_and_names_no_file_that_is_not_there(command: str, qverify):
    done = qverify(command, "--help")
    assert done.returncode == 0 and done.stdout.startswith(f"Usage: qverify {command}"), done.stderr
    text = " ".join(done.stdout.split())
    assert not re.findall(r"\b(?:scripts|verifier|agents|docs|board_runtime)/\S+(?! of a clone)(?=\s)", text)


def test_the_example_goes_from_float_to_a_verdict(qverify, tmp_path: Path):
    done = qverify("demo", "--keep", "try")
    assert done.returncode == 0, done.stdout + done.stderr
    for words in (
        "quantize try/digits_float.onnx -i try/digits -o quant.onnx",
        "inspect quant.onnx",
        "compile quant.onnx -o model.bin",
        "-m quant.onnx,model.bin -b local -r True -i try/digits",
        "pack -m quant.onnx,model.bin -o bundle",
        "perf -m model.bin -b local",
        "doctor",
    ):
        done = qverify(*words.split())
        assert done.returncode == 0, f"{words}: {done.stdout}{done.stderr}"
