"""Baselines: nothing changed, or exactly what did and in which direction."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path

import pytest
from qverify.cli.main import main

NODE = "relu2_QuantizeLinear_Output"
BOARD = "faulty:local?fault=plus_one@" + NODE


def captured(digits: Path, folder: Path, board: str, *more: str) -> str:
    main(["-m", str(digits / "digits_quant.onnx"), "-b", board, "-r", "--capture", str(folder), *more])
    return str(folder)


def renamed(folder: str, board: str) -> str:
    """The capture as if its board had been called so."""
    path = Path(folder, "capture.json")
    held = json.loads(path.read_text())
    held["command"]["board"] = board
    path.write_text(json.dumps(held))
    return folder


def test_saved_and_checked(digits: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = str(tmp_path / "base.json")
    good = renamed(captured(digits, tmp_path / "a", "local"), "bench-7")
    assert main(["baseline", "save", file, good, "--firmware", "1.0"]) == 0
    again = renamed(captured(digits, tmp_path / "b", "local"), "bench-7")
    assert main(["baseline", "check", file, again, "--firmware", "1.1"]) == 0
    bad = renamed(captured(digits, tmp_path / "c", BOARD), "bench-7")
    capsys.readouterr()
    assert main(["baseline", "check", file, bad, "--json", str(tmp_path / "d.json")]) == 1
    printed = capsys.readouterr().out
    assert f"frame 0 board {NODE}: bytes" in printed and "verdict PASSED -> FAILED (worse)" in printed
    assert "max_lsb 0 -> 1 (worse)" in printed and "against model" in printed and "firmware 1.0" in printed
    changes = json.loads((tmp_path / "d.json").read_text())["changes"]
    assert {c["tensor"] for c in changes if c["what"] == "bytes"} >= {NODE}
    assert not any(c["pair"] in ("reference", "simulator") for c in changes)
    assert main(["baseline", "save", file, bad, "--firmware", "1.0"]) == 0  # takes its place
    assert len(json.loads(Path(file).read_text())["entries"]) == 1
    assert main(["baseline", "check", file, again]) == 1
    assert "(better)" in capsys.readouterr().out


@pytest.mark.parametrize("fault", ["plus_one", "die"])
def test_a_wrong_run_that_repeats_itself_has_no_changes_and_says_its_verdicts(
    digits: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], fault: str
) -> None:
    file, runs = (
        str(tmp_path / "base.json"),
        [captured(digits, tmp_path / n, f"faulty:local?fault={fault}@{NODE}") for n in "ab"],
    )
    assert main(["baseline", "save", file, runs[0]]) == 0
    capsys.readouterr()
    assert main(["baseline", "check", file, runs[1], "--json", str(tmp_path / "d.json")]) == 0
    verdict = {"plus_one": "FAILED", "die": "INCONCLUSIVE"}[fault]
    last = capsys.readouterr().out.splitlines()[-1]
    assert last.endswith(f"; the baseline's own verdict was {verdict}, this run's is {verdict}")
    document = json.loads((tmp_path / "d.json").read_text())
    assert (document["verdict_before"], document["verdict_now"]) == (verdict, verdict)


def test_the_firmware_is_the_boards_system_where_none_is_given(
    digits: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = str(tmp_path / "base.json")
    assert main(["baseline", "save", file, captured(digits, tmp_path / "a", "local")]) == 0
    system = f"{os.uname().sysname} {os.uname().release}"
    assert json.loads(Path(file).read_text())["entries"][0]["firmware"] == system
    assert f"firmware {system}" in capsys.readouterr().out


def test_what_cannot_be_compared(digits: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = str(tmp_path / "base.json")
    one = captured(digits, tmp_path / "a", "local")
    assert main(["baseline", "save", file, one]) == 0
    capsys.readouterr()
    other = captured(digits, tmp_path / "b", "local", "--seed", "9")
    cases = [
        (file, other, "other inputs"),
        (file, renamed(captured(digits, tmp_path / "c", "local"), "x"), "no baseline of"),
    ]
    (tmp_path / "no.json").write_text("[]")
    cases += [(str(tmp_path / "no.json"), one, "not a JSON object"), (str(tmp_path / "none.json"), one, "none.json")]
    twice = json.loads(Path(file).read_text())
    twice["entries"].append({**twice["entries"][0], "digests": {}})
    (tmp_path / "twice.json").write_text(json.dumps(twice))
    cases += [(str(tmp_path / "twice.json"), one, "two entries of model")]
    for path, folder, said in cases:
        capsys.readouterr()
        assert main(["baseline", "check", path, folder]) == 2
        error = capsys.readouterr().err
        assert said in error and len(error.strip().splitlines()) == 1


def test_what_is_gone_or_not_known_is_a_change(
    digits: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file, one = str(tmp_path / "base.json"), captured(digits, tmp_path / "a", "finals:local")
    assert main(["baseline", "save", file, one]) == 0
    assert main(["baseline", "check", file, captured(digits, tmp_path / "b", "finals:local")]) == 0  # by its bytes
    manifest = tmp_path / "b" / "capture.json"
    held = json.loads(manifest.read_text())
    board = held["frames"][0]["sides"][2]["tensors"]
    board[next(iter(board))] = [None, None]
    manifest.write_text(json.dumps(held))
    capsys.readouterr()
    assert main(["baseline", "check", file, str(tmp_path / "b")]) == 1
    assert "(not known)" in capsys.readouterr().out
    report = tmp_path / "b" / "report.json"
    rows = json.loads(report.read_text())
    rows["pairs"][0]["tensors"] = rows["pairs"][0]["tensors"][1:]
    report.write_text(json.dumps(rows))
    held["report_sha256"] = hashlib.sha256(report.read_bytes()).hexdigest()
    manifest.write_text(json.dumps(held))
    assert main(["baseline", "check", file, str(tmp_path / "b")]) == 1
    assert "metrics there -> missing (gone)" in capsys.readouterr().out
    broken = json.loads(Path(file).read_text())
    broken["entries"][0]["digests"] = 5
    Path(file).write_text(json.dumps(broken))
    assert main(["baseline", "check", file, one]) == 2
    assert "its entry cannot be read" in capsys.readouterr().err
