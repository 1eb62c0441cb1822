"""onnxruntime ends the process of the command line: one line says so, and nothing is said of any other end."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from qverify.onnx_model import crash_watch
from qverify.onnx_model.crash_watch import MESSAGE

pytestmark = pytest.mark.skipif(os.name != "posix", reason="needs a shell")
PROGRAM = """
import ctypes, os, signal, sys, time
from qverify.onnx_model import engine
from qverify.cli.main import run_program

end, ort = sys.argv.pop(1), engine._onnxruntime()

class Session(ort.InferenceSession):
    def run(self, *words, **more):
        if end == "abort":
            os.abort()
        if end == "exit":
            os._exit(7)
        if end == "segv":
            ctypes.string_at(0)
        if end == "term":
            os.kill(os.getpid(), signal.SIGTERM)
        if end == "fork" and os.fork() == 0:
            os.abort()
        return super().run(*words, **more)

ort.InferenceSession = Session
status = run_program(sys.argv[1:])
if end == "outside":
    os.abort()
sys.exit(status)
"""


def run(end: str, digits: Path, folder: Path) -> tuple[int, list[str]]:
    """Returns the exit status and the lines of stderr of `qverify infer`, which ends in this way. Temporary files are in
    the folder."""
    words = [sys.executable, "-c", PROGRAM, end, "infer", "-m", str(digits / "digits_quant.onnx"), "-o", f"{folder}/o"]
    environment = {**os.environ, "TMPDIR": str(folder)}
    done = subprocess.run(words, env=environment, capture_output=True, text=True, check=False, timeout=120)
    return done.returncode, [line for line in done.stderr.splitlines() if line.startswith("qverify")]


def left(folder: Path) -> list[str]:
    return [f.name for f in folder.iterdir() if f.name.startswith("qverify-runs-")]


@pytest.mark.parametrize(("end", "status"), [("abort", -6), ("segv", -11), ("exit", 7)])
def test_a_crash_is_one_line(end: str, status: int, digits: Path, tmp_path: Path) -> None:
    assert run(end, digits, tmp_path) == (status, [MESSAGE])
    assert left(tmp_path) == []


@pytest.mark.parametrize(("end", "status"), [("", 0), ("fork", 0), ("outside", -6), ("term", 143)])
def test_nothing_is_said_of_other_ends(end: str, status: int, digits: Path, tmp_path: Path) -> None:
    found, lines = run(end, digits, tmp_path)
    assert found == status and MESSAGE not in lines
    assert left(tmp_path) == []


def test_a_process_that_was_not_armed_has_no_shell(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(crash_watch, "_armed", False)
    monkeypatch.setattr(crash_watch, "_watch", None)
    with crash_watch.onnxruntime_runs():
        assert crash_watch._watch is None


def test_calls_in_several_threads_are_counted(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(crash_watch.tempfile, "tempdir", str(tmp_path))
    watch = crash_watch._Watch()
    states = []
    for by in (1, 1, -1, -1):
        watch.enter(by)
        states.append(watch._state[:1])
    assert states == [b"1", b"1", b"1", b"0"]
    watch.enter(1)
    watch.stop()  # as at a normal end inside a thread: nothing is printed
    assert left(tmp_path) == [] and watch._shell.returncode is not None


def test_a_call_costs_next_to_nothing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(crash_watch.tempfile, "tempdir", str(tmp_path))
    watch = crash_watch._Watch()
    began = time.process_time()
    for _ in range(10000):
        watch.enter(1)
        watch.enter(-1)
    assert time.process_time() - began < 1.0  # 2 microseconds each where the machine is idle
    watch.stop()
