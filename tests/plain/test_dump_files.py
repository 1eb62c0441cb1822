"""Folders of .npy, .npz and manifests that are not what they seem: one line with the file's name, nothing hangs, nothing passes."""

from __future__ import annotations

import contextlib
import io
import json
import os
import resource
import signal
import socket
import struct
import subprocess
import sys
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from qverify.cli.main import main

VALUES = np.arange(12, dtype=np.float32)
SPACE = 1 << 30  # bytes of address space: refusing takes none, and every bomb here is larger


class Hangs(BaseException):
    """An exception that no handler takes for an error of the file."""


@dataclass
class Done:
    returncode: int
    stdout: str
    stderr: str


def compare(a: Path, b: Path, *more: str) -> Done:
    """`qverify compare`, here: a bomb finds little memory more than this process already has, and a pipe that is waited for
    raises Hangs."""
    return run("compare", str(a), str(b), *more)


def run(*words: str) -> Done:
    out, err = io.StringIO(), io.StringIO()
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    before = signal.signal(signal.SIGALRM, _hangs)
    signal.alarm(60)
    resource.setrlimit(resource.RLIMIT_AS, (used + SPACE, hard))
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            status = main([*words])
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
    return Done(status, out.getvalue(), err.getvalue())


def _hangs(number: int, frame: object) -> None:
    raise Hangs


def refused(bad: Path, good: Path, *said: str) -> None:
    done = compare(bad, good)
    assert done.returncode == 2 and done.stderr.count("\n") == 1, done
    assert "internal error" not in done.stderr and "Traceback" not in done.stderr
    for word in said:
        assert word in done.stderr, done.stderr


@pytest.fixture
def good(tmp_path: Path) -> Path:
    folder = tmp_path / "good"
    folder.mkdir()
    np.save(folder / "conv1.npy", VALUES)
    return folder


@pytest.fixture
def bad(tmp_path: Path) -> Path:
    folder = tmp_path / "bad"
    folder.mkdir()
    np.save(folder / "a_whole.npy", VALUES)
    return folder


def _socket(path: Path) -> None:
    os.chdir(path.parent)  # a socket's path is short
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(path.name)


def _fifo_link(path: Path) -> None:
    os.mkfifo(path.parent / "pipe")
    path.symlink_to("pipe")


ODD: dict[str, Callable[[Path], object]] = {
    "fifo": os.mkfifo,
    "link to a fifo": _fifo_link,
    "socket": _socket,
    "device": lambda p: p.symlink_to("/dev/zero"),
    "folder": lambda p: p.mkdir(),
    "dangling link": lambda p: p.symlink_to("nowhere"),
    "empty": lambda p: p.touch(),
    "text": lambda p: p.write_text("conv1\n"),
    "an npz": lambda p: np.savez(p.open("wb"), y=VALUES),
    "a pickle": lambda p: np.save(p, np.array([{}]), allow_pickle=True),
    "trailing bytes": lambda p: (np.save(p, VALUES), p.open("ab").write(b"\0")),
    "cut": lambda p: (np.save(p, VALUES), os.truncate(p, p.stat().st_size - 1)),
    "complex": lambda p: np.save(p, VALUES.astype("complex64")),
    "huge": lambda p: p.write_bytes(_header((1 << 20, 1 << 20, 1 << 20))),
    "huge and empty": lambda p: p.write_bytes(_header((1 << 62, 0))),
    "negative": lambda p: p.write_bytes(_header((-4, -3)) + VALUES.tobytes()),
    "deep": lambda p: p.write_bytes(_raw_header("(" * 30_000)),
}


def _header(shape: tuple[int, ...]) -> bytes:
    return _raw_header(repr({"descr": "<f4", "fortran_order": False, "shape": shape}))


def _raw_header(text: str) -> bytes:
    data = text.encode().ljust(118) + b"\n"
    return b"\x93NUMPY\x02\x00" + struct.pack("<I", len(data)) + data


@pytest.mark.filterwarnings("ignore::ResourceWarning")
@pytest.mark.parametrize("kind", ODD)
def test_a_file_that_is_no_array(kind: str, bad: Path, good: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(bad)
    ODD[kind](bad / "conv1.npy")
    refused(
        bad,
        good,
        "pipe"
        if "link to a fifo" in kind
        else "zero"
        if kind == "device"
        else "nowhere"
        if "dang" in kind
        else "conv1.npy",
    )


def packed(path: Path, members: dict[str, bytes], mode: int = zipfile.ZIP_STORED) -> None:
    with zipfile.ZipFile(path, "w", mode) as target:
        for name, data in members.items():
            target.writestr(name, data)


def array(values: np.ndarray = VALUES) -> bytes:
    held = io.BytesIO()
    np.save(held, values)
    return held.getvalue()


def _encrypted(path: Path) -> None:
    packed(path, {"y.npy": array()})
    data = bytearray(path.read_bytes())
    for mark, at in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        data[data.index(mark) + at] |= 1
    path.write_bytes(data)


def _changed(path: Path) -> None:
    packed(path, {"y.npy": array()})
    data = bytearray(path.read_bytes())
    data[data.index(VALUES.tobytes()) + 5] ^= 1
    path.write_bytes(data)


ODD_NPZ: dict[str, Callable[[Path], object]] = {
    "cut": lambda p: (np.savez(p, y=VALUES), os.truncate(p, p.stat().st_size // 2)),
    "encrypted": _encrypted,
    "changed": _changed,
    "a npy": lambda p: p.write_bytes(array()),
    "text": lambda p: p.write_text("not a zip"),
    "empty": lambda p: p.touch(),
    "fifo": os.mkfifo,
    "folder in it": lambda p: packed(p, {"y/": b""}),
    "text in it": lambda p: packed(p, {"y.npy": array(), "readme.txt": b"hello"}),
    "trailing bytes": lambda p: packed(p, {"y.npy": array() + b"\0"}),
    "a pickle": lambda p: np.savez(p, y=np.array([{}]), allow_pickle=True),
    "huge": lambda p: packed(p, {"y.npy": _header((1 << 40,))}),
}


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("kind", ODD_NPZ)
def test_an_npz_that_is_none(kind: str, tmp_path: Path) -> None:
    np.savez(tmp_path / "good.npz", y=VALUES)
    ODD_NPZ[kind](tmp_path / "bad.npz")
    refused(tmp_path / "bad.npz", tmp_path / "good.npz", "bad.npz")


@pytest.mark.filterwarnings("ignore:Duplicate name")
@pytest.mark.parametrize("second", ["y.npy", "y"])
@pytest.mark.parametrize("values", [VALUES, VALUES + 1])
def test_an_npz_with_two_members_of_one_name(second: str, values: np.ndarray, tmp_path: Path) -> None:
    np.savez(tmp_path / "good.npz", y=VALUES)
    with zipfile.ZipFile(tmp_path / "bad.npz", "w") as target:
        target.writestr("y.npy", array(values))
        target.writestr(second, array())
    refused(tmp_path / "bad.npz", tmp_path / "good.npz", "bad.npz", "'y.npy'", repr(second))


@pytest.mark.parametrize("members", [1, 6])
def test_an_npz_that_unpacks_to_gigabytes(members: int, tmp_path: Path) -> None:
    np.savez(tmp_path / "good.npz", y=VALUES)
    count = (3 << 29) // members // 4
    block, header = bytes(1 << 24), _header((count,))
    with zipfile.ZipFile(tmp_path / "bad.npz", "w", zipfile.ZIP_DEFLATED, compresslevel=1) as target:
        for at in range(members):
            with target.open(f"y{at or ''}.npy", "w", force_zip64=True) as member:
                member.write(header)
                for _ in range(4 * count >> 24):
                    member.write(block)
    assert (tmp_path / "bad.npz").stat().st_size < 16 << 20
    refused(tmp_path / "bad.npz", tmp_path / "good.npz", "bad.npz", "unpack to")


MANIFESTS = {
    "deep": "[" * 100_000,
    "deep objects": '{"a":' * 100_000,
    "no json": "{",
    "a list": "[]",
    "no tensors": '{"state": "complete"}',
    "tensors a list": '{"tensors": ["0000.npy"]}',
    "inputs a number": '{"tensors": {"0000.npy": "y"}, "inputs": 7}',
    "two files": '{"tensors": {"0000.npy": "y", "a_whole.npy": "y"}}',
    "one file twice": '{"tensors": {"0000.npy": "y", "0000.npy": "z"}}',
    "outside": '{"tensors": {"../good/conv1.npy": "y"}}',
    "not utf-8": "\udcff",
}


@pytest.mark.parametrize("kind", MANIFESTS)
def test_a_manifest_that_is_none(kind: str, bad: Path, good: Path) -> None:
    np.save(bad / "0000.npy", VALUES)
    (bad / "manifest.json").write_bytes(MANIFESTS[kind].encode(errors="surrogateescape"))
    refused(bad, good, "manifest.json")


def test_a_manifest_that_is_a_pipe(bad: Path, good: Path) -> None:
    os.mkfifo(bad / "manifest.json")
    refused(bad, good, "manifest.json: not a regular file")


def test_a_manifest_names_a_file_that_is_not_there(bad: Path, good: Path) -> None:
    (bad / "manifest.json").write_text('{"tensors": {"0007.npy": "y"}}')
    refused(bad, good, "0007.npy")


def test_what_infer_left_unfinished_is_no_tensor(good: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    np.save(other / "conv1.npy", VALUES)
    (other / ".0006.part.npy").write_bytes(array()[:-1])
    done = compare(good, other, "--json", "-")
    assert done.returncode == 0 and json.loads(done.stdout)["pairs"][0]["coverage"]["compared"] == 1
    assert any(".0006.part.npy" in note for note in json.loads(done.stdout)["notes"])


def test_links_of_a_folder_are_followed(good: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    (other / "conv1.npy").symlink_to(good / "conv1.npy")
    assert compare(good, other).returncode == 0


@pytest.mark.parametrize("room", [0, 300, 500])
def test_infer_on_a_full_disk(room: int, digits: Path, tmp_path: Path) -> None:
    """No file may become larger than `room` bytes: writing breaks off as on a full disk."""
    out = tmp_path / "out"

    def full() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (room, room))

    done = subprocess.run(  # -B: Python would keep the first bytes of a module's bytecode
        [sys.executable, "-B", "-m", "qverify", "infer", "-m", str(digits / "digits_quant.onnx"), "-o", str(out)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        preexec_fn=full,
    )
    assert done.returncode == 2 and done.stderr.count("\n") == 1, done
    assert "cannot be written: File too large" in done.stderr
    assert not [f for f in os.listdir(out) if f.startswith(".")]
    assert compare(out, out).returncode in (2, 3)


def test_infer_anew_over_a_former_run_is_none_of_it_until_it_ends(digits: Path, tmp_path: Path) -> None:
    words = ["infer", "-m", str(digits / "digits_quant.onnx"), "-o", str(tmp_path / "o")]
    assert main(words) == 0
    where = tmp_path / "o" / "prob.npy"
    where.unlink()
    where.mkdir()  # where the second run breaks off
    (where / "full").touch()
    assert main(words) == 2
    assert json.loads((tmp_path / "o" / "manifest.json").read_text())["state"] == "partial"
    assert compare(tmp_path / "o", tmp_path / "o").returncode == 3


def test_an_input_with_bytes_after_its_end(digits: Path, tmp_path: Path) -> None:
    file = tmp_path / "x.npy"
    file.write_bytes(array(np.zeros((1, 1, 8, 8), np.float32)) + b"\0")
    done = run("-m", str(digits / "digits_quant.onnx"), "-i", str(file))
    assert done.returncode == 2 and f"{file}: bytes after its end" in done.stderr and done.stderr.count("\n") == 1


def test_an_array_that_the_manifest_does_not_list_is_refused_and_infer_leaves_none_behind(digits, tmp_path, capsys):
    model, folder = str(digits / "digits_quant.onnx"), tmp_path / "a"
    assert main(["infer", "-m", model, "--side", "board", "-b", "local", "-o", str(folder)]) == 0
    assert main(["infer", "-m", model, "--side", "board", "-b", "finals:local", "-o", str(folder)]) == 0
    assert [f.name for f in sorted(folder.glob("*.npy"))] == ["prob.npy"]
    assert main(["compare", str(folder), str(folder)]) == 0
    np.save(folder / "zz.npy", np.zeros(3))
    capsys.readouterr()
    assert main(["compare", str(folder), str(folder)]) == 2
    assert "zz.npy: not listed in" in capsys.readouterr().err


def test_an_npz_behind_another_one_is_refused(tmp_path, capsys):
    for name, value in (("a", 1.0), ("b", 2.0)):
        np.savez(tmp_path / f"{name}.npz", y=np.full(3, value))
    both = tmp_path / "both.npz"
    both.write_bytes((tmp_path / "b.npz").read_bytes() + (tmp_path / "a.npz").read_bytes())
    assert main(["compare", str(tmp_path / "a.npz"), str(both)]) == 2
    assert "bytes before its first member" in capsys.readouterr().err


def test_with_a_model_the_tensors_in_neither_dump_are_said(digits, tmp_path, capsys):
    model, folder = str(digits / "digits_quant.onnx"), str(tmp_path / "a")
    assert main(["infer", "-m", model, "--side", "board", "-b", "finals:local", "-o", folder]) == 0
    assert main(["compare", folder, folder, "-m", model]) == 0
    assert (
        "7 tensors of the model are in neither dump, first image_Quantize" in capsys.readouterr().out.splitlines()[-1]
    )
