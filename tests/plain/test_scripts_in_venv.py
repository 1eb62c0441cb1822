"""Scripts that need qverify's libraries start themselves again with the Python of .venv."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPTS = Path(__file__).resolve().parents[2] / "scripts"


@pytest.mark.parametrize("name", ["bench", "docs_output", "matrix"])
def test_a_script_run_by_another_python_starts_the_one_of_the_checkout(name: str, tmp_path: Path):
    python = tmp_path / ".venv" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.write_text('#!/bin/sh\nshift\necho "here: $@"\n')
    python.chmod(0o755)
    script = tmp_path / "scripts" / name
    script.parent.mkdir()
    shutil.copy(SCRIPTS / name, script)
    done = subprocess.run([sys.executable, script, "one", "two"], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (0, "here: one two\n"), done.stderr
