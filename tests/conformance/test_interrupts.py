"""Ctrl-C at many moments of every command: exit 130, no traceback, no process left, no half-written file."""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import sys
import termios
import time
from pathlib import Path

import pytest

COMMANDS = {
    "verify": ["-m", "{onnx}", "-b", "local", "-r", "--json", "{out}/r.json"],
    "hanging": ["-m", "{onnx}", "-b", "faulty:local?fault=hang@prob", "--json", "{out}/r.json"],
    "compile": ["compile", "{onnx}", "-o", "{out}/m.bin"],
    "infer": ["infer", "-m", "{onnx}", "--side", "board", "-b", "local", "-o", "{out}/dump"],
}
# seconds after the process started, in which Python may not have reached our code, and after our code hears signals, over
# a job of about one second
MOMENTS = [(False, s) for s in (0.05, 0.15, 0.3, 0.45)] + [(True, s) for s in (0.0, 0.15, 0.35, 0.6)]
WHOLE = {"r.json", "m.bin"}


def processes_of(mark: str) -> list[str]:
    """Command lines of living processes whose environment holds the mark."""
    found = []
    for folder in Path("/proc").iterdir():
        try:
            if folder.name.isdigit() and mark.encode() in (folder / "environ").read_bytes():
                found.append((folder / "cmdline").read_bytes().decode(errors="replace"))
        except OSError:
            continue
    return found


def wait_until_heard(process_id: int) -> None:
    """Until it catches SIGTERM, as our code does and Python does not."""
    end = time.monotonic() + 30
    while not caught(process_id) & 1 << signal.SIGTERM - 1:
        assert time.monotonic() < end
        time.sleep(0.005)


def caught(process_id: int) -> int:
    """Returns the mask of the signals that it catches; every signal where it has ended."""
    status = Path(f"/proc/{process_id}/status").read_text()
    return int(status.split("SigCgt:")[1].split()[0], 16) if "SigCgt:" in status and "(zombie)" not in status else -1


@pytest.mark.parametrize(("heard", "moment"), MOMENTS)
@pytest.mark.parametrize("name", COMMANDS)
def test_interrupted(name: str, heard: bool, moment: float, digits: Path, tmp_path: Path) -> None:
    mark = f"QVERIFY_TEST_MARK={tmp_path}"
    words = [w.format(onnx=digits / "digits_quant.onnx", out=tmp_path) for w in COMMANDS[name]]
    command = [sys.executable, "-m", "qverify.cli.main", *words]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=marked(tmp_path)
    ) as job:
        if heard:
            wait_until_heard(job.pid)
        time.sleep(moment)
        job.send_signal(signal.SIGINT)
        try:
            try:
                _, errors = job.communicate(timeout=20 if heard else 4)
            except subprocess.TimeoutExpired:
                if heard:
                    raise
                job.send_signal(signal.SIGINT)  # Python swallows one while it starts; a person presses again
                _, errors = job.communicate(timeout=20)
        finally:
            job.kill()
    if heard:  # after it, Python ends by the signal
        assert job.returncode in (0, 130, -signal.SIGINT), errors
        assert "Traceback" not in errors and "internal error" not in errors
    assert not processes_of(mark)
    for path in tmp_path.rglob("*"):
        assert path.is_dir() or path.name in WHOLE or path.parent.name == "dump", path
        assert ".part" not in path.name, path


def test_a_closed_terminal_ends_a_run_with_everything_of_it(digits: Path, tmp_path: Path) -> None:
    master, terminal = os.openpty()
    command = [sys.executable, "-m", "qverify.cli.main", *hanging(digits)]
    with subprocess.Popen(
        command,
        stdin=terminal,
        stdout=terminal,
        stderr=terminal,
        env=marked(tmp_path),
        start_new_session=True,
        preexec_fn=_with_the_terminal,
    ) as job:
        os.close(terminal)
        wait_for_agent(tmp_path)
        os.close(master)
        assert job.wait(20) == 128 + signal.SIGHUP
    assert not processes_of(f"QVERIFY_TEST_MARK={tmp_path}")


def _with_the_terminal() -> None:
    """Its own, and not under a nohup that the tests may run under."""
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)
    signal.signal(signal.SIGHUP, signal.SIG_DFL)


def test_under_nohup_a_closed_terminal_ends_nothing(digits: Path, tmp_path: Path) -> None:
    command = ["nohup", sys.executable, "-m", "qverify.cli.main", *hanging(digits)]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=marked(tmp_path)) as job:
        wait_for_agent(tmp_path)
        job.send_signal(signal.SIGHUP)
        with pytest.raises(subprocess.TimeoutExpired):
            job.wait(1.5)
        job.terminate()
        assert job.wait(20) == 128 + signal.SIGTERM


def hanging(digits: Path) -> list[str]:
    return ["-m", str(digits / "digits_quant.onnx"), "-b", "faulty:local?fault=hang@prob"]


def marked(folder: Path) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "QVERIFY_TEST_MARK": str(folder)}


def wait_for_agent(folder: Path) -> None:
    end = time.monotonic() + 30
    while not any("qvrt" in line for line in processes_of(f"QVERIFY_TEST_MARK={folder}")):
        assert time.monotonic() < end
        time.sleep(0.05)


def test_an_interrupt_in_a_callback_prints_nothing() -> None:
    """Python reports what a destructor raises and goes on; the interrupt is raised again a second later."""
    code = (
        "from qverify.cli.interrupts import Interrupts\n"
        "class Ends:\n    def __init__(self, error): self.error = error\n    def __del__(self): raise self.error\n"
        "with Interrupts():\n    Ends(KeyboardInterrupt())\n    Ends(ValueError('shown'))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert "KeyboardInterrupt" not in done.stderr and done.stderr.count("ValueError: shown") == 1
