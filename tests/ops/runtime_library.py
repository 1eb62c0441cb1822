"""The C runtime built by the machine's compiler: a shared library for ctypes and a qvrt binary, once a test session."""

from __future__ import annotations

import ctypes
import functools
import shutil
import subprocess
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parents[2] / "board_runtime"
COMPILER = shutil.which("gcc") or shutil.which("cc")
FLAGS = ["-std=c99", "-O2", "-ffp-contract=off", "-Wall", "-Wextra", "-pedantic", "-Wconversion", "-Wshadow"]


@functools.cache
def _folder() -> Path:
    holder = tempfile.TemporaryDirectory(prefix="qvrt-test-")
    _keep.append(holder)
    return Path(holder.name)


_keep: list[tempfile.TemporaryDirectory[str]] = []


def _compile(name: str, *extra: str) -> Path:
    sources = [p.relative_to(HERE).as_posix() for p in sorted((HERE / "src").rglob("*.c")) if p.parent.name != "faults"]
    out = _folder() / name
    command = [str(COMPILER), *FLAGS, *extra, "-Iinclude", "-Isrc", *sources, "-o", str(out), "-lm"]
    done = subprocess.run(command, cwd=HERE, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[:2000]
    return out


@functools.cache
def library() -> ctypes.CDLL:
    return ctypes.CDLL(str(_compile("libqvrt.so", "-shared", "-fPIC")))


@functools.cache
def binary(sanitized: bool = False) -> Path:
    if sanitized:
        return _compile("qvrt-sanitized", "-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all")
    return _compile("qvrt")
