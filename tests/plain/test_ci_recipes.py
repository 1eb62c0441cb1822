"""The recipes of docs/how-to/ci.md: their shell steps run as they are written, in a fresh folder, on a passing and on a failing
board. LAVA's own command has a stand-in."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import xml.etree.ElementTree as xml
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs/how-to/ci.md").read_text()
FAULTY = "faulty:local?fault=plus_one@relu2_QuantizeLinear_Output"
STATUS = {"local": 0, FAULTY: 1}
LAVA = """#!/bin/sh
# as LAVA's: `NAME --shell COMMAND`, or `NAME --result R [--measurement M --units U]`
name=$1; shift
if [ "$1" = --shell ]; then shift; if "$@"; then result=pass; else result=fail; fi; set -- --result $result; fi
echo "$name $*" >>cases.txt
"""


def recipe(head: str, kind: str) -> str:
    found = re.search(rf"^## {head}\n.*?^```{kind}\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    assert found is not None, head
    return found[1]


def parsed(head: str) -> Any:
    yaml = pytest.importorskip("yaml", reason="no PyYAML in this Python")
    return yaml.safe_load(recipe(head, "yaml"))


def run(script: str, folder: Path, board: str, env: dict[str, str] | None = None, shell: str = "bash") -> int:
    """Runs the lines as a CI's shell does, with qverify on the PATH instead of installed. Returns the exit status."""
    folder.mkdir(exist_ok=True)
    (folder / "bin").mkdir(exist_ok=True)
    for name, text in {
        "qverify": f'#!/bin/sh\nexec "{sys.executable}" -m qverify "$@"\n',
        "python3": f'#!/bin/sh\nexec "{sys.executable}" "$@"\n',
        "lava-test-case": LAVA,
    }.items():
        (folder / "bin" / name).write_text(text)
        (folder / "bin" / name).chmod(0o755)
    shutil.copy(ROOT / "verifier/qverify/example/digits_quant.onnx", folder / "quant.onnx")
    given = [line for line in script.splitlines() if not re.search(r"pip install|-m venv|activate$", line)]
    lines = [line.replace("-b local", f"-b '{board}'") for line in given]
    there = {**os.environ, "PATH": f"{folder / 'bin'}{os.pathsep}{os.environ['PATH']}", **(env or {})}
    done = subprocess.run([shell, "-e", "-c", "\n".join(lines)], cwd=folder, env=there, capture_output=True, text=True)
    (folder / "log.txt").write_text(done.stdout + done.stderr)
    return done.returncode


@pytest.mark.parametrize("board", STATUS)
def test_github(board, tmp_path):
    steps = parsed("GitHub Actions")["jobs"]["verify"]["steps"]
    verify, difference = (step["run"] for step in steps if "run" in step and "name" in step)
    env = {"GITHUB_ACTIONS": "true", "GITHUB_STEP_SUMMARY": str(tmp_path / "summary.md")}
    assert run(verify, tmp_path / "a", board, env) == STATUS[board]
    log = (tmp_path / "a/log.txt").read_text()
    assert ("::error title=qverify%3A board is to blame::" in log) == (board == FAULTY)
    assert json.loads((tmp_path / "a/report.json").read_text())["verdict"] in (tmp_path / "summary.md").read_text()
    xml.parse(tmp_path / "a/report.xml")
    assert run(verify, tmp_path / "b", "local", env) == 0
    shutil.copy(tmp_path / "b/report.json", tmp_path / "a/before.json")
    assert run(difference, tmp_path / "a", board, env) == STATUS[board]
    assert "<h1>" in (tmp_path / "a/diff.html").read_text()
    (upload,) = (step for step in steps if "upload-artifact" in step.get("uses", ""))
    assert all([*(tmp_path / "a").glob(pattern)] for pattern in upload["with"]["path"].split())


@pytest.mark.parametrize("board", [FAULTY])
def test_gitlab(board, tmp_path):
    job = parsed("GitLab CI")["verify"]
    assert run("\n".join(job["script"]), tmp_path / "a", board, {"GITLAB_CI": "true"}) == STATUS[board]
    files = [*job["artifacts"]["paths"], *job["artifacts"]["reports"].values()]
    assert all((tmp_path / "a" / file).is_file() for file in files)
    issues = json.loads((tmp_path / "a" / job["artifacts"]["reports"]["codequality"]).read_text())
    assert bool(issues) == (board == FAULTY) and {i["location"]["path"] for i in issues} <= {"quant.onnx", "model.bin"}


@pytest.mark.parametrize("board", [FAULTY])
def test_jenkins(board, tmp_path):
    text = recipe("Jenkins", "groovy")
    found = re.search(r"sh '''(.*?)'''", text, re.DOTALL)
    assert found is not None
    assert run(found[1], tmp_path / "a", board, shell="sh") == STATUS[board]
    xml.parse(tmp_path / "a" / str(re.findall(r"junit '(.*?)'", text)[0]))


@pytest.mark.parametrize("board", STATUS)
def test_lava(board, tmp_path):
    definition = parsed("LAVA")
    assert definition["metadata"]["format"] == "Lava-Test Test Definition 1.0"
    params = {**definition["params"], "BOARD": board}
    assert run("\n".join(definition["run"]["steps"]), tmp_path / "a", board, params, "sh") == 0
    cases = dict(line.split(" ", 1) for line in (tmp_path / "a/cases.txt").read_text().splitlines())
    assert len(cases) == 25 and cases["verdict"] == f"--result {'pass' if board == 'local' else 'fail'}"
    bad = "simulator-board-3-relu2_QuantizeLinear_Output"
    assert cases[bad] == ("--result pass --measurement 0 --units LSB" if board == "local" else cases[bad])
    assert ("--result fail --measurement" in cases[bad]) == (board == FAULTY)
