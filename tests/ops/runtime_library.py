"""The C runtime built by the machine's compiler: a shared library for ctypes and a qvrt binary, once a test session."""

from __future__ import annotations

import ctypes
import functools
import shutil
import subprocess
import tempfile
from pathlib import Path

from qverify_agents.binaries import host_architecture

HERE = Path(__file__).resolve().parents[2] / "board_runtime"
COMPILER = shutil.which("gcc") or shutil.which("cc")
FLAGS = ["-std=c99", "-O2", "-ffp-contract=off", "-Wall", "-Wextra", "-pedantic", "-Wconversion", "-Wshadow"]


@functools.cache
def _folder() -> Path:
    holder = tempfile.TemporaryDirectory(prefix="qvrt-test-")
    _keep.append(holder)
    return Path(holder.name)


_keep: list[tempfile.TemporaryDirectory[str]] = []


SANITIZERS = ["-g", "-O1", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"]


def _run(*words: str) -> None:
    done = subprocess.run(words, cwd=HERE, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr[:2000]


def _compile(name: str, *extra: str) -> Path:
    sources = [p.relative_to(HERE).as_posix() for p in sorted((HERE / "src").rglob("*.c")) if p.parent.name != "faults"]
    out = _folder() / name
    _run(str(COMPILER), *FLAGS, *extra, "-Iinclude", "-Isrc", *sources, "-o", str(out), "-lm")
    return out


@functools.cache
def library() -> ctypes.CDLL:
    return ctypes.CDLL(str(_compile("libqvrt.so", "-shared", "-fPIC")))


@functools.cache
def sanitized_folder() -> Path:
    """A QVERIFY_BIN_DIR: both runtimes of this machine under AddressSanitizer and UndefinedBehaviorSanitizer.

    They share their objects: the faulty one has src/faults, its op table among them, in place of src/ops/table.c."""
    folder, architecture = _folder() / "sanitized", host_architecture()
    folder.mkdir()
    objects = {
        p: folder / f"{'-'.join(p.relative_to(HERE).with_suffix('.o').parts)}" for p in (HERE / "src").rglob("*.c")
    }
    for source, made in objects.items():
        _run(str(COMPILER), *FLAGS, *SANITIZERS, "-Iinclude", "-Isrc", "-c", str(source), "-o", str(made))
    real = [str(o) for p, o in objects.items() if p.parent.name != "faults"]
    faulty = [str(o) for p, o in objects.items() if p != HERE / "src" / "ops" / "table.c"]
    for name, parts in ((f"qvrt-{architecture}", real), (f"qvrt-faulty-{architecture}", faulty)):
        _run(str(COMPILER), *SANITIZERS, *parts, "-o", str(folder / name), "-lm")
    return folder


@functools.cache
def binary(sanitized: bool = False) -> Path:
    return sanitized_folder() / f"qvrt-{host_architecture()}" if sanitized else _compile("qvrt")
