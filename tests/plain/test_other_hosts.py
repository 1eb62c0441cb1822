"""Hosts other than Linux: what needs no board gives the same there, what needs Linux says so in one line, locks and
untrusted files hold. A child process stands for Windows (tests/windows_host.py)."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from qverify import files
from qverify.cli.main import main
from qverify.errors import BadFileError

from tests import windows_host

MODELS = ("digits_quant.onnx", "digits_float.onnx")
FAULT = "faulty:local?fault=bias_missing@relu2_QuantizeLinear_Output"
FED = ["--format", "nv12", "--size", "16x12", "--train", "rgb"]
COMMANDS = [
    ["compile", "digits_quant.onnx", "-o", "m.bin"],
    ["inspect", "m.bin"],
    ["inspect", "digits_quant.onnx", "prob"],
    ["inputs", "prepare", "picture.png", *FED, "-o", "prepared"],
    ["inputs", "diff", "picture.png", "prepared/0000.bin", *FED],
    ["infer", "-m", "m.bin", "-i", "frames/digit_3.npy", "-o", "simulated"],
    ["infer", "-m", "digits_quant.onnx", "--side", "reference", "-i", "frames/digit_3.npy", "-o", "by_reference"],
    ["compare", "simulated", "by_reference", "--all"],
    ["compare", "simulated", "simulated"],
    ["replay", "passed", "--all"],
    ["replay", "failed"],
    ["triage", "failed"],
    ["triage", "passed"],
    ["triage", "-m", "digits_float.onnx,digits_quant.onnx", "-i", "frames/digit_3.npy"],
    ["quantize", "digits_float.onnx", "-i", "frames", "-o", "q.onnx"],
    ["extract", "passed", "extracted"],
]
STATUS = {"replay failed": 1, "triage failed": 1}
MADE = ("m.bin", "q.onnx", "prepared", "simulated", "by_reference", "extracted")


def environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, [windows_host.ROOT, *sys.path]))}


def on_windows(folder: Path, *commands: list[str]) -> list[list[object]]:
    words = [sys.executable, windows_host.__file__, json.dumps(commands)]
    done = subprocess.run(
        words, cwd=folder, capture_output=True, text=True, env=environment(), timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr
    results: list[list[object]] = json.loads(done.stdout)
    return results


@pytest.fixture(scope="module")
def desk(digits: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the example, its frames, and a capture of a correct board and one of a faulty one."""
    folder = tmp_path_factory.mktemp("here")
    for name in MODELS:
        shutil.copy(digits / name, folder)
    (folder / "frames").mkdir()
    for name, value in np.load(digits / "digits.npz").items():
        np.save(folder / "frames" / f"{name}.npy", value)
    Image.fromarray(np.random.default_rng(1).integers(0, 256, (30, 40, 3), np.uint8)).save(folder / "picture.png")
    for name, board in (("passed", "local"), ("failed", FAULT)):
        words = ["-m", str(folder / MODELS[0]), "-b", board, "-r", "-i", str(folder / "frames" / "digit_3.npy")]
        assert main([*words, "--capture", str(folder / name)]) == (name == "failed")
    return folder


def shown(result: object) -> object:
    """Without times and dates, which differ from run to run."""
    text = json.dumps(result)
    return re.sub(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC|\d+(?:\.\d+)? m?s\b", "T", text)


def contents(path: Path) -> dict[str, bytes]:
    found = sorted(path.rglob("*")) if path.is_dir() else [path]
    return {str(one.relative_to(path.parent)): one.read_bytes() for one in found if one.is_file()}


def test_what_needs_no_board_gives_the_same(desk: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Exit status, text and files of compile, compare, replay, triage of captures, inputs, infer, quantize and inspect."""
    there = shutil.copytree(desk, tmp_path / "there")
    got = on_windows(there, *COMMANDS)
    monkeypatch.chdir(shutil.copytree(desk, tmp_path / "here"))
    wanted = [list(windows_host.run(words)) for words in COMMANDS]
    for words, one, other in zip(COMMANDS, wanted, got, strict=True):
        assert one[0] == STATUS.get(" ".join(words), 0), (words, one)
        assert shown(one) == shown(other), words
    made = {name: contents(tmp_path / "here" / name) for name in MADE}
    assert all(made.values())
    assert made == {name: contents(there / name) for name in MADE}


NOT_HERE = [  # words, and what the line says
    (["-m", "digits_quant.onnx", "-b", "local"], "-b local: the runtime that comes with qverify runs on Linux"),
    (["triage", "-m", "digits_quant.onnx", "-b", FAULT], "-b local: the runtime that comes with qverify runs on Linux"),
    (["perf", "-m", "digits_quant.onnx", "-b", "local"], "-b local: the runtime that comes with qverify runs on Linux"),
    (["-m", "digits_quant.onnx", "-b", "qemu-user:aarch64"], "-b qemu-user:aarch64: QEMU's user mode exists on Linux"),
    (["-m", "digits_quant.onnx", "-b", "labgrid:desk"], "-b labgrid:desk: labgrid runs on Linux"),
    (["-m", "digits_quant.onnx", "-b", "qemu:arm64"], "-b qemu:arm64: emulated boards are run on Linux only"),
    (["boards", "up", "qemu:arm64"], "-b qemu:arm64: emulated boards are run on Linux only"),
    (["plan", "-m", "digits_quant.onnx"], "plan: the run is rehearsed with the board's program, which runs on Linux"),
    (["demo"], "-b local: the runtime that comes with qverify runs on Linux"),
    (["-m", "digits_quant.onnx", "-b", "serial:///dev/ttyUSB0"], "pyserial does not work on this host"),
]


def test_what_needs_linux_says_so_in_one_line(desk: Path):
    for (words, said), (status, _, err) in zip(NOT_HERE, on_windows(desk, *(w for w, _ in NOT_HERE)), strict=True):
        lines = str(err).strip().splitlines()
        assert status == 2 and said in lines[-1] and len(lines) == 1, (words, status, err)
        assert "this host has Windows. Next: " in lines[0] or "pyserial" in lines[0], words


def test_the_doctor_takes_a_host_without_a_local_board_for_healthy(tmp_path: Path):
    [[status, out, _]] = on_windows(tmp_path, ["doctor"])
    assert status == 0 and "none   local board: -b local: the runtime that comes with qverify runs on Linux" in str(out)


CHILD = """
import sys, time
from tests.windows_host import become_windows
become_windows()
from qverify_agents.address import Address
from qverify_agents.errors import BoardBusy
from qverify_agents.host_lock import HostLock
try:
    lock = HostLock(Address("ssh", "desk"), sys.argv[1], float(sys.argv[2]))
except BoardBusy as error:
    print(error)
else:
    print("held", flush=True)
    sys.stdin.read()
"""


def child(owner: str, wait_s: float) -> subprocess.Popen[str]:
    words = [sys.executable, "-c", CHILD, owner, str(wait_s)]
    return subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment())


def test_a_board_is_locked_by_the_lock_of_windows():
    """Its holder is named to who comes next, and a killed holder leaves no lock."""
    with child("anna", 0) as holder:
        assert holder.stdout is not None and holder.stdout.readline() == "held\n"
        said = child("ben", 0).communicate(timeout=60)[0]
        assert said.startswith("the board is in use by anna since ")
        waits = child("carl", 60)
        assert waits.stdout is not None
        holder.kill()
        assert waits.stdout.readline() == "held\n"
        waits.communicate(timeout=60)


UNTRUSTED = """
import sys
from tests.windows_host import become_windows
become_windows()
from qverify.errors import BadFileError
from qverify.files import read_regular
from qverify.vendor_files.untrusted_files import UntrustedFile
print(UntrustedFile("file").read(1, 3), read_regular("link", 9, follow=True))
for name in sys.argv[1:]:
    try:
        print(UntrustedFile(name))
    except BadFileError as error:
        print(error)
"""


def test_untrusted_files_are_refused_without_waiting_for_them(tmp_path: Path):
    (tmp_path / "file").write_bytes(b"a\r\nbc")
    (tmp_path / "link").symlink_to("file")
    os.mkfifo(tmp_path / "pipe")
    words = [sys.executable, "-c", UNTRUSTED, "link", "pipe", ".", "/dev/zero"]
    done = subprocess.run(
        words, cwd=tmp_path, capture_output=True, text=True, env=environment(), timeout=60, check=False
    )
    assert done.stdout.splitlines() == [
        r"b'\r\nb' b'a\r\nbc'",
        "link: Too many levels of symbolic links",
        "pipe: not a regular file",
        ".: Is a directory",
        "/dev/zero: not a regular file",
    ], done.stderr


def test_a_file_replaced_by_a_link_before_it_is_opened_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Where the system cannot refuse links as it opens, the file opened must be the one that was looked at."""
    (tmp_path / "secret").write_bytes(b"s")
    (tmp_path / "file").write_bytes(b"f")
    look = os.stat

    def look_then_replace(path: str, **how: bool) -> os.stat_result:
        seen = look(path, **how)
        (tmp_path / "file").unlink()
        (tmp_path / "file").symlink_to("secret")
        return seen

    monkeypatch.setattr(files, "_NO_FOLLOW", 0)
    handle = files.open_regular(str(tmp_path / "file"))
    assert os.read(handle, 9) == b"f"
    os.close(handle)
    monkeypatch.setattr(os, "stat", look_then_replace)
    with pytest.raises(BadFileError, match="not a regular file"):
        files.open_regular(str(tmp_path / "file"))
