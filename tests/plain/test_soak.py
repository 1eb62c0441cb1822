"""soak: every run is held to the simulator; a board that errs now and then, or goes away, is counted; the log is whole lines."""

from __future__ import annotations

import json
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from qverify.cli.main import main
from qverify.session.other_jobs import soak
from qverify.sides.board import Board
from qverify_agents.errors import LinkError

NODE = "relu2_QuantizeLinear_Output"


def soaked(digits: Path, board: str, out: Path, *more: str) -> tuple[int, list[dict[str, object]]]:
    words = [
        "soak",
        "-m",
        str(digits / "digits_quant.onnx"),
        "-b",
        board,
        "--for",
        "1.5",
        "--every",
        "0.1",
        "--log",
        str(out),
    ]
    status = main([*words, *more])
    about, *rows = (json.loads(line) for line in out.read_text().splitlines())
    assert about["soak"] == board and len(about["model_sha256"]) == len(about["inputs_sha256"]) == 64
    return status, rows


def test_a_healthy_board(digits: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status, rows = soaked(digits, "local", tmp_path / "log", "--every", "0.05")
    assert status == 0 and len(rows) > 5
    assert all(not r["wrong"] and r["tensors"] == 8 and not r["missing"] for r in rows)
    assert f"{len(rows)} runs, 0 wrong; 0 connections lost" in capsys.readouterr().out


def test_a_board_that_errs_every_second_run(digits: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status, rows = soaked(digits, f"faulty:local?fault=jitter@{NODE}", tmp_path / "log")
    assert status == 1
    wrong = [bool(r["wrong"]) for r in rows]
    assert any(wrong) and not all(wrong) and rows[wrong.index(True)]["wrong"][0] == NODE
    assert f"the first at {NODE}" in capsys.readouterr().out


def pulled_at(monkeypatch: pytest.MonkeyPatch, run: int, *, for_good: bool) -> None:
    """The board's connection breaks in this run after the first; for good: it is never made again."""
    real, opened, runs = Board.repeat_run, soak._connect, list[int]()

    def again(self: Board, given: dict[str, str] | None) -> object:
        runs.append(1)
        if len(runs) == run:
            self._agent.close()
            raise LinkError("the cable was pulled")
        return real(self, given)

    def open_again(*given: Any) -> object:
        if runs and for_good:
            raise LinkError("nothing answers")
        return opened(*given)

    monkeypatch.setattr(Board, "repeat_run", again)
    monkeypatch.setattr(soak, "_connect", open_again)
    monkeypatch.setattr(soak, "RECONNECT_DELAY_S", 0.01)


def test_a_board_that_goes_away_is_connected_again(
    digits: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pulled_at(monkeypatch, 3, for_good=False)
    status, rows = soaked(digits, "local", tmp_path / "log")
    assert status == 0 and next(r for r in rows if "lost" in r)["lost"] == "the cable was pulled"
    assert len(rows) > 4 and not rows[-1].get("wrong")


def test_a_board_of_final_outputs_alone_and_one_wrong_from_the_start(digits: Path, tmp_path: Path) -> None:
    status, rows = soaked(digits, "finals:local", tmp_path / "log")
    assert status == 0 and all(r["tensors"] == 1 and not r["wrong"] for r in rows) and len(rows) > 3
    status, rows = soaked(digits, f"faulty:local?fault=plus_one@{NODE}", tmp_path / "bad")
    assert status == 1 and all(r["wrong"][0] == NODE for r in rows)  # the first run is held to it, too


def test_a_wrong_run_counts_whatever_becomes_of_the_board(
    digits: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(soak, "RECONNECT_DELAY_S", 0.01)
    dies = f"faulty:local?fault=plus_one@relu1_QuantizeLinear_Output|die@{NODE}"
    status, rows = soaked(digits, dies, tmp_path / "dies")
    assert status == 1 and all(r["wrong"][0] == "relu1_QuantizeLinear_Output" and r["lost"] for r in rows)

    def gone(self: Board) -> dict[str, float | None]:
        raise LinkError("reset")

    monkeypatch.setattr(Board, "condition", gone)
    status, rows = soaked(digits, f"faulty:local?fault=plus_one@{NODE}", tmp_path / "log")
    assert status == 1 and rows[0]["wrong"] and rows[0]["temperature_c"] is None


def test_no_board_at_all(digits: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["soak", "-m", str(digits / "digits_quant.onnx"), "-b", "127.0.0.1:1", "--for", "1"]
    assert main(words) == 3
    assert len(capsys.readouterr().err.strip().splitlines()) == 1
    assert main([*words[:-2], "--for", "0"]) == 2


def test_temperature_and_frequency_where_the_board_tells_them(digits: Path, tmp_path: Path) -> None:
    """A board whose /sys has two thermal zones and two processors: in a mount namespace of its own."""
    for number, (heat, pace) in enumerate(((41500, 600000), (63250, 1800000))):
        for name, value in (
            (f"class/thermal/thermal_zone{number}/temp", heat),
            (f"devices/system/cpu/cpu{number}/cpufreq/scaling_cur_freq", pace),
        ):
            (tmp_path / "sys" / name).parent.mkdir(parents=True)
            (tmp_path / "sys" / name).write_text(f"{value}\n")
    words = [
        sys.executable,
        "-m",
        "qverify",
        "soak",
        "-m",
        str(digits / "digits_quant.onnx"),
        "-b",
        "local",
        "--for",
        "0.5",
    ]
    there = f"mount --bind {tmp_path}/sys /sys && exec {shlex.join([*words, '--log', str(tmp_path / 'log')])}"
    if subprocess.run(["unshare", "-m", "true"], capture_output=True, check=False).returncode:
        pytest.skip("no mount namespace of our own (not root)")
    ran = subprocess.run(["unshare", "-m", "sh", "-c", there], capture_output=True, text=True, check=False, timeout=120)
    assert ran.returncode == 0, ran.stderr
    assert "at most 63.2 degrees Celsius, at least 1800 MHz" in ran.stdout
    row = json.loads((tmp_path / "log").read_text().splitlines()[1])
    assert (row["temperature_c"], row["frequency_mhz"]) == (63.2, 1800.0)


def test_a_board_that_stays_away_is_not_well(
    digits: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pulled_at(monkeypatch, 4, for_good=True)
    status, rows = soaked(digits, "local", tmp_path / "log")
    assert status == 3 and "lost" in rows[-1]
    assert (
        "4 runs, 0 wrong" in (printed := capsys.readouterr().out) and "the board was unreachable at the end" in printed
    )


def test_interrupted_it_says_what_it_found(digits: Path, tmp_path: Path) -> None:
    words = [
        sys.executable,
        "-m",
        "qverify",
        "soak",
        "-m",
        str(digits / "digits_quant.onnx"),
        "-b",
        "local",
        "--for",
        "600",
    ]
    log = tmp_path / "log"
    process = subprocess.Popen([*words, "--log", str(log)], stdout=subprocess.PIPE, text=True)
    until = time.monotonic() + 60
    while time.monotonic() < until and (not log.exists() or len(log.read_text().splitlines()) < 5):
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    said, _ = process.communicate(timeout=60)
    assert process.returncode == 130 and "runs, 0 wrong; 0 connections lost" in said


def test_a_log_on_a_full_disk(digits: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["soak", "-m", str(digits / "digits_quant.onnx"), "-b", "local", "--for", "30", "--log", "/dev/full"]
    assert main(words) == 2
    printed = capsys.readouterr()
    assert (
        "0 runs, 0 wrong" in printed.out
        and "--log /dev/full: cannot be written: No space left on device" in printed.err
    )


def test_a_board_of_final_outputs_alone_is_said(digits, capsys):
    assert main(["soak", "-m", str(digits / "digits_quant.onnx"), "-b", "finals:local", "--for", "0.1"]) == 0
    assert "final outputs only" in capsys.readouterr().out.splitlines()[-1]


def test_an_empty_log_is_a_mistake(digits, capsys):
    assert main(["soak", "-m", str(digits / "digits_quant.onnx"), "-b", "local", "--for", "0.1", "--log", ""]) == 2
    assert "an empty --log" in capsys.readouterr().err
