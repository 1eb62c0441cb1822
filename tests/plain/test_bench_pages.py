"""scripts/bench: --help says what each bench measures and which options it has, and those are the options that it reads."""

from __future__ import annotations

import re
import runpy
import shutil
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

SCRIPTS = Path(__file__).resolve().parents[2] / "scripts"
sys.path.insert(0, str(SCRIPTS))
BENCHES: dict[str, tuple[str, str, str]] = runpy.run_path(str(SCRIPTS / "bench"), run_name="table")["BENCHES"]


def bench(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Runs it where there is neither a .venv nor any library."""
    copy = folder / "scripts" / "bench"
    shutil.copytree(SCRIPTS / "benchmarks", copy.with_name("benchmarks"))
    shutil.copy(SCRIPTS / "bench", copy)
    return subprocess.run([sys.executable, "-S", copy, *words], capture_output=True, text=True, timeout=60)


def test_help_has_a_line_of_every_bench_and_fits_a_terminal(tmp_path: Path):
    done = bench(tmp_path, "--help")
    assert done.returncode == 0, done.stderr
    for word, (_, measured, _) in BENCHES.items():
        assert done.stdout.splitlines().count(f"  {word:10s} {measured}") == 1
    assert max(map(len, done.stdout.splitlines())) <= 120


def test_every_module_with_a_main_is_a_bench():
    mains = {p.stem for p in (SCRIPTS / "benchmarks").glob("*.py") if "\ndef main(" in p.read_text()}
    assert mains == {module for module, _, _ in BENCHES.values()}


@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize("word", BENCHES)
def test_the_options_of_the_table_are_those_it_reads(word: str, capsys: pytest.CaptureFixture[str]):
    module, _, options = BENCHES[word]
    with pytest.raises(SystemExit) as ended:
        import_module(f"benchmarks.{module}").main(["--help"])
    shown = capsys.readouterr().out
    assert ended.value.code == 0 and shown.startswith(f"usage: scripts/bench {word} ")
    assert set(re.findall(r"--[a-z-]+", options)) == set(re.findall(r"^  (--[a-z-]+)", shown, re.MULTILINE))


def test_a_bench_that_is_not_there_is_refused_with_those_that_are(tmp_path: Path):
    done = bench(tmp_path, "detetcion")
    assert done.returncode == 2 and done.stdout == ""
    assert "no bench 'detetcion'" in done.stderr and "detection" in done.stderr


def test_a_library_that_is_missing_is_named_with_what_installs_it(tmp_path: Path):
    done = bench(tmp_path, "triage")
    assert done.returncode == 2 and done.stderr.count("\n") == 1
    assert "is not installed here. Next: scripts/setup bench test" in done.stderr
