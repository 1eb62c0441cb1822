"""The recipes of docs/how-to/ci.md: their shell steps run as they are written, in a fresh folder, on a passing and on a failing
board; what is around them is read by the CI systems' published schemas. LAVA's own command has a stand-in."""

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


def schema_errors(name: str, document: Any) -> list[str]:
    """Returns what the published schema of a CI system finds wrong. name: of the file in check-jsonschema."""
    import jsonschema

    package = pytest.importorskip("check_jsonschema", reason="no check-jsonschema in this Python")
    path = Path(str(package.__file__)).parent / "builtin_schemas" / "vendor" / f"{name}.json"
    schema = json.loads(path.read_text(encoding="utf-8"))
    return [e.message for e in jsonschema.validators.validator_for(schema)(schema).iter_errors(document)]


def test_github_and_gitlab_know_every_key():
    github, gitlab = parsed("GitHub Actions"), parsed("GitLab CI")
    github["on"] = github.pop(True)  # YAML 1.1 takes the key for a truth value
    assert schema_errors("github-workflows", github) == schema_errors("gitlab-ci", gitlab) == []
    github["jobs"]["verify"]["stepz"] = github["jobs"]["verify"].pop("steps")
    gitlab["verify"]["retry"]["times"] = gitlab["verify"]["retry"].pop("max")
    assert schema_errors("github-workflows", github) and schema_errors("gitlab-ci", gitlab)


def test_the_jenkinsfile_is_groovy():
    """A parser of the language reads it; Jenkins' own words are known to Jenkins alone."""
    groovy = pytest.importorskip("groovy_parser.parser", reason="no groovy-parser in this Python")
    text = recipe("Jenkins", "groovy")
    assert groovy.parse_groovy_content(text).data == "compilation_unit"
    with pytest.raises(Exception, match="Unexpected"):
        groovy.parse_groovy_content(text.rstrip().removesuffix("}"))


def test_lava_knows_every_key():
    """What LAVA's schema (lava_common, testdef.py) allows, which LAVA alone has; the recipe was also read by it."""
    definition = parsed("LAVA")
    assert set(definition) <= {"metadata", "install", "run", "parse", "params", "parameters", "expected"}
    lists = {"environment", "devices", "maintainer", "scope", "os"}
    assert set(definition["metadata"]) <= {"format", "name", "description", "version", *lists}
    assert all(isinstance(definition["metadata"][name], list) for name in lists & set(definition["metadata"]))
    assert definition["metadata"]["format"] == "Lava-Test Test Definition 1.0"
    assert not set(definition["metadata"]["name"]) & set("$& \"'`()<>/\\|;")
    assert set(definition["run"]) == {"steps"} and all(isinstance(step, str) for step in definition["run"]["steps"])
    assert all(isinstance(value, str) for value in definition["params"].values())


def test_github(tmp_path):
    steps = parsed("GitHub Actions")["jobs"]["verify"]["steps"]
    verify, difference = (step["run"] for step in steps if "run" in step and "name" in step)
    env = {"GITHUB_ACTIONS": "true", "GITHUB_STEP_SUMMARY": str(tmp_path / "summary.md")}
    (upload,) = (step for step in steps if "upload-artifact" in step.get("uses", ""))
    good = tmp_path / "local" / "report.json"
    for board, status in STATUS.items():
        folder = tmp_path / ("local" if board == "local" else "faulty")
        assert run(verify, folder, board, env) == status
        log = (folder / "log.txt").read_text()
        assert ("::error title=qverify%3A board is to blame::" in log) == (board == FAULTY)
        assert json.loads((folder / "report.json").read_text())["verdict"] in (tmp_path / "summary.md").read_text()
        xml.parse(folder / "report.xml")
        shutil.copy(good, folder / "before.json")  # the run before was of the good board
        assert run(difference, folder, board, env) == status
        assert "<h1>" in (folder / "diff.html").read_text()
        assert all([*folder.glob(pattern)] for pattern in upload["with"]["path"].split())


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
