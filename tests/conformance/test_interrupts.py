"""Ctrl-C at many moments of every command: exit 130, no traceback, no process left, no half-written file."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

COMMANDS = {
    "verify": ["-m", "{onnx}", "-b", "local", "-r", "--json", "{out}/r.json"],
    "hanging": ["-m", "{onnx}", "-b", "faulty:local?fault=hang@prob", "--json", "{out}/r.json"],
    "compile": ["compile", "{onnx}", "-o", "{out}/m.bin"],
    "infer": ["infer", "-m", "{onnx}", "--side", "board", "-b", "local", "-o", "{out}/dump"],
}
MOMENTS = (0.05, 0.15, 0.3, 0.45, 0.6, 0.75, 0.9, 1.1)  # seconds after the start, over a job of about one second
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


@pytest.mark.parametrize("moment", MOMENTS)
@pytest.mark.parametrize("name", COMMANDS)
def test_interrupted(name: str, moment: float, digits: Path, tmp_path: Path) -> None:
    mark = f"QVERIFY_TEST_MARK={tmp_path}"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "QVERIFY_TEST_MARK": str(tmp_path)}
    words = [w.format(onnx=digits / "digits_quant.onnx", out=tmp_path) for w in COMMANDS[name]]
    command = [sys.executable, "-m", "qverify.cli.main", *words]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment) as job:
        time.sleep(moment)
        job.send_signal(signal.SIGINT)
        try:
            try:
                _, errors = job.communicate(timeout=20 if moment > 0.5 else 4)
            except subprocess.TimeoutExpired:
                if moment > 0.5:
                    raise
                job.send_signal(signal.SIGINT)  # Python swallows one while it starts; a person presses again
                _, errors = job.communicate(timeout=20)
        finally:
            job.kill()
    if moment > 0.5:  # earlier, Python itself may not have reached our code; after it, Python ends by the signal
        assert job.returncode in (0, 130, -signal.SIGINT), errors
        assert "Traceback" not in errors and "internal error" not in errors
    assert not processes_of(mark)
    for path in tmp_path.rglob("*"):
        assert path.is_dir() or path.name in WHOLE or path.parent.name == "dump", path
        assert ".part" not in path.name, path
