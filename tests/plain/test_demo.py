"""The demonstration: its printed commands, typed as they are, do what it showed."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from qverify.cli.main import main

from scripts.documents.shown_output import compared

ROOT = Path(__file__).resolve().parents[2]
PLAIN = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "FORCE_COLOR")}


def commands(shown: str) -> list[str]:
    return [line.removeprefix("$ ") for line in shown.splitlines() if line.startswith("$ ")]


def as_compared(shown: str) -> list[str]:
    """Returns what a command printed, without what differs from run to run, its commands and the sentences of the demo."""
    lines = [line for line in shown.splitlines() if line and not line.startswith(("$ ", "qverify 0."))]
    return compared([line for line in lines if not line.startswith(tuple("123456789")) and "demo:" not in line])


@pytest.mark.slow
def test_the_printed_commands_run_as_written(tmp_path: Path):
    folder, elsewhere = tmp_path / "it's kept", tmp_path / "elsewhere"
    elsewhere.mkdir()
    done = subprocess.run(
        [sys.executable, "-m", "qverify", "demo", "--keep", os.path.relpath(folder, elsewhere)],
        cwd=elsewhere,
        env=PLAIN | {"PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    activate, enter, *steps, quantize = commands(done.stdout)
    assert activate.startswith(". ") and enter.startswith("cd ") and len(steps) >= 3 and " quantize " in quantize
    typed = subprocess.run(
        ["bash", "-c", "\n".join([activate, enter, *steps])],
        cwd="/",
        env=PLAIN | {"PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert typed.returncode == 1 and typed.stderr == ""  # the last board is faulty
    shown = done.stdout.partition("\nto quantize")[0].partition("\nleft out: the emulated")[0]
    assert as_compared(typed.stdout) == as_compared(shown)
    last = subprocess.run(
        ["bash", "-c", "\n".join([activate, enter, quantize])], env=PLAIN, capture_output=True, timeout=120
    )
    assert last.returncode == 0 and (folder / "quant.onnx").is_file()


def test_what_it_would_overwrite_is_refused_before_anything_runs(tmp_path: Path, capsys):
    (tmp_path / "mine.txt").write_text("x")
    assert main(["demo", "--keep", str(tmp_path)]) == 2
    printed = capsys.readouterr()
    assert printed.out == "" and "there is something already; give a folder that does not exist yet" in printed.err
    assert [p.name for p in tmp_path.iterdir()] == ["mine.txt"]
    assert main(["demo", "--keep", str(tmp_path / "mine.txt" / "below")]) == 2
    assert "cannot be written: Not a directory" in capsys.readouterr().err


def demo(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Runs scripts/demo in a folder beside a checkout whose installation is there already."""
    checkout = folder / "the checkout"
    for name, text in (("scripts/setup", 'echo "set up in $PWD: $*"'), (".venv/bin/qverify", 'echo "$PWD: $*"')):
        path = checkout / name
        path.parent.mkdir(parents=True)
        path.write_text(f"#!/bin/sh\n{text}\n")
        path.chmod(0o755)
    shutil.copy(ROOT / "scripts" / "demo", checkout / "scripts" / "demo")
    (beside := folder / "beside").mkdir()
    return subprocess.run(
        [checkout / "scripts" / "demo", *words], cwd=beside, capture_output=True, text=True, timeout=60
    )


def test_the_script_keeps_files_where_its_caller_stands(tmp_path: Path):
    done = demo(tmp_path, "--keep", "try it")
    assert done.returncode == 0 and done.stdout.splitlines()[-1] == f"{tmp_path / 'beside'}: demo --keep try it"


@pytest.mark.parametrize("words", [("try",), ("--keep",), ("--keep", "a", "b")])
def test_the_script_refuses_other_words_before_it_sets_up(words: tuple[str, ...], tmp_path: Path):
    done = demo(tmp_path, *words)
    assert (done.returncode, done.stdout) == (2, "") and "usage: scripts/demo [--keep DIR]" in done.stderr


def test_the_script_helps_without_setting_up(tmp_path: Path):
    done = demo(tmp_path, "--help")
    assert done.returncode == 0 and done.stdout.startswith("usage: scripts/demo [--keep DIR]\n")
