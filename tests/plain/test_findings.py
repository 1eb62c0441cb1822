"""The form of findings/*.sh (CONTRIBUTING.md, "A finding"), and scripts/findings, which runs them."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
FINDINGS = sorted((ROOT / "findings").glob("*.sh"))


@pytest.mark.parametrize("path", FINDINGS, ids=lambda p: p.stem)
def test_a_finding_has_the_form(path: Path):
    text = path.read_text()
    comment = re.match(r"#!/usr/bin/env bash\n((?:# .*\n)+)", text)
    assert comment and len(comment[1].splitlines()) >= 3
    assert re.search(r"Wanted|Guessed", comment[1]) and re.search(r"\d+\.\d+", comment[1])
    assert "set -euo pipefail" in text and "mktemp -d" in text and re.search(r"trap 'rm -rf .*' EXIT", text)
    assert re.search(r"pip.* install .*==\d", text) and "qverify" not in text
    subprocess.run(["bash", "-n", str(path)], check=True)


def test_the_list_names_each_with_a_sentence_and_an_unknown_name_is_refused():
    listed = subprocess.run([ROOT / "scripts" / "findings", "--list"], capture_output=True, text=True, check=True)
    lines = listed.stdout.splitlines()
    assert [line.split(": ")[0] for line in lines] == [p.stem for p in FINDINGS]
    assert all(line.endswith(".") and len(line) > 60 for line in lines)
    refused = subprocess.run([ROOT / "scripts" / "findings", "no-such"], capture_output=True, text=True)
    assert refused.returncode == 2 and "no finding is called no-such" in refused.stderr


def test_one_that_fails_is_told_and_the_others_run(tmp_path: Path):
    """In a copy of the script beside two findings of its own."""
    (tmp_path / "scripts").mkdir()
    (tmp_path / "findings").mkdir()
    runner = tmp_path / "scripts" / "findings"
    runner.write_text((ROOT / "scripts" / "findings").read_text())
    (tmp_path / "findings" / "a.sh").write_text("exit 1\n")
    (tmp_path / "findings" / "b.sh").write_text("echo reproduced\n")
    done = subprocess.run(["bash", runner], capture_output=True, text=True, env={**os.environ, "LC_ALL": "C"})
    assert done.returncode == 1
    assert "a: not as described" in done.stdout and "b: as described" in done.stdout
