"""A runner's board that hangs is reset by its inventory entry, once, and the run is repeated once; the report says so."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from qverify.cli.main import main
from qverify_agents.errors import BadAddress
from qverify_agents.inventory import read_boards, resolve

TOOL = """
import shutil, sys, time
from pathlib import Path
healed, golden, out = map(Path, sys.argv[1:4])
with open(healed.with_name("runs"), "a") as runs:
    runs.write("x")
if not healed.exists():
    time.sleep(600)
shutil.copy(golden / "prob.npy", out)
"""


class Run:
    """Runs the main job on a board whose tool hangs until a file exists, which its reset command makes."""

    def __init__(self, tmp_path: Path, digits: Path):
        self.folder, self.onnx = tmp_path, digits / "digits_quant.onnx"
        self.healed, self.golden, self.json = tmp_path / "healed", tmp_path / "golden", tmp_path / "R.json"
        (tmp_path / "tool.py").write_text(TOOL)
        assert main(["infer", "-m", str(self.onnx), "--side", "simulator", "-o", str(self.golden)]) == 0

    def __call__(self, *keys: str) -> int:
        tool = f"{sys.executable} {self.folder / 'tool.py'} {self.healed} {self.golden} {{out}} {{input}}"
        entry = ["[boards.chip]", 'uri = "local"', 'reset_wait = "1"', *keys, f"runner = '{tool}'"]
        (self.folder / "boards.toml").write_text("\n".join(entry))
        return main(["-m", str(self.onnx), "-b", "chip", "--timeout", "3", "--json", str(self.json)])

    @property
    def board(self) -> dict:  # type: ignore[type-arg]
        return next(s for s in json.loads(self.json.read_text())["sides"] if s["name"] == "board")


@pytest.fixture
def run(tmp_path: Path, digits: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    monkeypatch.setenv("QVERIFY_BOARDS", str(tmp_path / "boards.toml"))
    return Run(tmp_path, digits)


def test_a_reset_helps(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(f'reset = "touch {run.healed}"') == 0
    lines = [one for one in capsys.readouterr().out.splitlines() if one.startswith("Quanti.onnx and Arm")]
    assert len(lines) == 1 and "PASSED" in lines[0] and "the board hung (" in lines[0]
    assert "was reset once: reset by 'touch " in lines[0] and "it was not restarted" in lines[0]
    assert "was reset once" in run.board["settings"]["recovered"]
    assert (run.folder / "runs").read_text() == "xx"


def test_a_power_cycle_follows_a_reset_that_fails(run: Run) -> None:
    assert run('reset = "echo no such port >&2; false"', f'power_cycle = "touch {run.healed}"') == 0
    said = run.board["settings"]["recovered"]
    assert "ended with status 1: no such port; power cycle by 'touch " in said


def test_what_does_not_help_is_tried_once(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(f'reset = "echo r >>{run.folder}/resets"') == 3
    assert "again after a reset" in capsys.readouterr().out
    assert (run.folder / "resets").read_text() == "r\n" and (run.folder / "runs").read_text() == "xx"


def test_a_board_that_does_not_come_back_is_inconclusive(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    assert run('reset = "false"', 'power_cycle = "echo dead; exit 3"') == 3
    out = capsys.readouterr().out
    assert "hangs, and does not come back: reset: " in out and "ended with status 3: dead" in out


def test_without_a_command_the_run_is_not_repeated(run: Run) -> None:
    assert run() == 3
    assert (run.folder / "runs").read_text() == "x" and "recovered" not in run.board["settings"]


@pytest.mark.parametrize("value", ["0", "fast", "-3", "4000"])
def test_a_wait_that_is_none_is_refused(
    value: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "b.toml").write_text(f'[boards.x]\nuri = "local"\nreset_wait = "{value}"\n')
    monkeypatch.setenv("QVERIFY_BOARDS", str(tmp_path / "b.toml"))
    with pytest.raises(BadAddress, match=r"reset_wait = .*wanted seconds above 0"):
        resolve("x")


@pytest.mark.parametrize(("value", "seconds"), [("90", 90.0), ("1.5", 1.5), ("'90'", 90.0)])
def test_seconds_to_wait_may_be_a_number(
    value: str, seconds: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "b.toml").write_text(f"[boards.x]\nuri = 'local'\nreset_wait = {value}\n")
    monkeypatch.setenv("QVERIFY_BOARDS", str(tmp_path / "b.toml"))
    assert read_boards()["x"].reset_wait_s == seconds


@pytest.mark.parametrize("key", ["reset", "power_cycle", "power"])
def test_a_folders_own_inventory_resets_nothing(key: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("QVERIFY_BOARDS", raising=False)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "boards.toml").write_text(f'[boards.x]\nuri = "local"\n{key} = "touch here"\n')
    with pytest.raises(BadAddress, match=f"{key} would run commands that this folder chooses"):
        resolve("x")
