"""The C runtime built by the machine's compiler: a shared library for ctypes and a qvrt binary, once for all workers."""

from __future__ import annotations

import ctypes
import fcntl
import functools
import hashlib
import shutil
import subprocess
from pathlib import Path

HERE = Path(__file__).resolve().parents[2] / "board_runtime"
BUILT = HERE.parent / ".cache" / "tests"
COMPILER = shutil.which("gcc") or shutil.which("cc")
FLAGS = ["-std=c99", "-O2", "-ffp-contract=off", "-Wall", "-Wextra", "-pedantic", "-Wconversion", "-Wshadow"]


def _compile(name: str, *extra: str) -> Path:
    """Returns what these sources, words and compiler give: built by the first worker that asks, and kept for the next run."""
    sources = [p.relative_to(HERE).as_posix() for p in sorted((HERE / "src").rglob("*.c")) if p.parent.name != "faults"]
    command = [str(COMPILER), *FLAGS, *extra, "-Iinclude", "-Isrc", *sources, "-lm"]
    BUILT.mkdir(parents=True, exist_ok=True)
    out = BUILT / f"{name}-{_hash_of(command)}"
    with (BUILT / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not out.exists():
            for former in BUILT.glob(f"{name}-*"):
                former.unlink()
            part = BUILT / f"part-{name}"
            done = subprocess.run([*command, "-o", str(part)], cwd=HERE, capture_output=True, text=True, timeout=300)
            assert done.returncode == 0, done.stderr[:2000]
            part.replace(out)
    return out


def _hash_of(command: list[str]) -> str:
    version = subprocess.run([command[0], "--version"], capture_output=True, text=True, timeout=20, check=True).stdout
    digest = hashlib.sha256("\0".join([version, *command]).encode())
    for folder in ("src", "include"):
        for path in sorted((HERE / folder).rglob("*.[ch]")):
            digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


@functools.cache
def library() -> ctypes.CDLL:
    return ctypes.CDLL(str(_compile("libqvrt.so", "-shared", "-fPIC")))


@functools.cache
def binary(sanitized: bool = False) -> Path:
    if sanitized:
        return _compile("qvrt-sanitized", "-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all")
    return _compile("qvrt")
