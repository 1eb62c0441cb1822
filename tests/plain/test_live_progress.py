"""The line of progress: results are printed above it, on stdout; it is gone at the end, whatever ends the command."""

from __future__ import annotations

import os
import pty
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tests.conftest import ROOT

RUN = """
import sys, time
from qverify.cli import live_progress
live_progress.DELAY_S = live_progress.PAUSE_S = 0
with live_progress.live_progress() as live:
    for at in range(3):
        live.watch("board", at, 3)
        live.say(f"result {at}")
        live.set_prefix(f"{at + 1} of 3, {at} left out")
        live.watch("a step whose name is longer than this terminal is wide", at, 3)
    %s
print("the end", file=sys.stderr)
"""
COLUMNS = 40


FOLDER = """
import sys
from qverify.cli import live_progress
from qverify.cli.main import main
live_progress.DELAY_S = live_progress.PAUSE_S = 0
sys.exit(main(sys.argv[1:]))
"""


def drawn(text: str) -> tuple[list[str], list[str]]:
    """Returns what is on a terminal's lines at the end, and everything that ever was on its last line."""
    lines, column, seen = [""], 0, []
    for part in re.findall(r"\x1b\[K|\r|\n|[^\x1b\r\n]+", text):
        if part == "\x1b[K":
            lines[-1] = lines[-1][:column]
        elif part == "\r":
            column = 0
        elif part == "\n":
            lines, column = [*lines, ""], 0
        else:
            lines[-1] = lines[-1][:column] + part + lines[-1][column + len(part) :]
            column += len(part)
            seen.append(lines[-1])
    return lines, seen


def run_on_terminal(program: str, results_too: bool, *words: str, columns: int = COLUMNS) -> tuple[str, str]:
    """Returns what a terminal got as stderr (and as stdout, too), and what a pipe got as stdout."""
    ours, theirs = pty.openpty()
    keep = {k: v for k, v in os.environ.items() if k != "COLUMNS"}
    with subprocess.Popen(
        [sys.executable, "-c", program, *words],
        env=keep | {"COLUMNS": str(columns), "PYTHONPATH": f"{ROOT}/verifier:{ROOT}/agents"},
        stdin=subprocess.DEVNULL,
        stdout=theirs if results_too else subprocess.PIPE,
        stderr=theirs,
        text=True,
    ) as child:
        os.close(theirs)
        shown = b""
        while True:
            try:
                piece = os.read(ours, 4096)
            except OSError:  # the other end is closed
                break
            shown += piece
            if not piece:
                break
        piped = child.stdout.read() if child.stdout else ""
    os.close(ours)
    return shown.decode().replace("\r\n", "\n"), piped


@pytest.mark.parametrize("end", ["pass", "raise KeyboardInterrupt"])
def test_results_stay_and_the_line_goes(end: str) -> None:
    lines, seen = drawn(run_on_terminal(RUN % end, True)[0])
    assert lines[:3] == ["result 0", "result 1", "result 2"]
    after = [line for line in lines[3:] if line]
    assert after[0] == "the end" if end == "pass" else after[0].startswith("Traceback")
    assert any(re.fullmatch(r"2 of 3, 1 left out; a st.*wide \[#*\.*.*", text) for text in seen)
    assert any(re.fullmatch(r"board \[#*\.*\] 1 of 3|1 of 3, 0 left out; board \[.*", text) for text in seen)
    assert all(len(text) < COLUMNS for text in seen if "of 3" in text)


def test_results_go_to_the_pipe_that_wants_them() -> None:
    shown, piped = run_on_terminal(RUN % "pass", False)
    assert piped == "result 0\nresult 1\nresult 2\n" and "result" not in shown
    assert [line for line in drawn(shown)[0] if line] == ["the end"]


def test_a_folder_of_pictures(digits: Path, tmp_path: Path) -> None:
    with np.load(digits / "digits.npz") as pictures:
        for at, picture in enumerate(list(pictures.values())[:3]):
            np.save(tmp_path / f"{at}.npy", picture)
    (tmp_path / "0_broken.npy").write_text("no array")
    words = ("-m", f"{digits}/digits_quant.onnx", "-b", "local", "-i", str(tmp_path))
    shown, piped = run_on_terminal(FOLDER, False, *words)
    frames = [line for line in piped.splitlines() if line.startswith("frame ")]
    assert [line.split(":")[0] for line in frames] == [
        "frame 0 0.npy",
        "frame 1 0_broken.npy",
        "frame 2 1.npy",
        "frame 3 2.npy",
    ]
    lines, seen = drawn(shown)
    assert any(text.startswith("3 of 4, 1 left out") for text in seen)
    assert [line for line in lines if line] == [] and piped.endswith("could not be prepared)\n")


def test_in_a_pipe_there_is_no_line() -> None:
    quiet = RUN.replace("live.watch(", "assert live.watch is None; (lambda *_: None)(") % "pass"
    done = subprocess.run(
        [sys.executable, "-c", quiet],
        env=os.environ | {"PYTHONPATH": f"{ROOT}/verifier:{ROOT}/agents"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert (done.stdout, done.stderr) == ("result 0\nresult 1\nresult 2\n", "the end\n")
