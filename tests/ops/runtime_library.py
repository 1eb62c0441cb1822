"""The C runtime built by the machine's compiler: a shared library for ctypes and a qvrt binary, once for all workers.

python -m tests.ops.runtime_library [sanitized]: builds it ahead of the tests."""

from __future__ import annotations

import ctypes
import fcntl
import functools
import hashlib
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from qverify_agents.binaries import host_architecture

HERE = Path(__file__).resolve().parents[2] / "board_runtime"
BUILT = HERE.parent / ".cache" / "tests"
COMPILER = shutil.which("gcc") or shutil.which("cc")
FLAGS = ["-std=c99", "-O2", "-ffp-contract=off", "-Wall", "-Wextra", "-pedantic", "-Wconversion", "-Wshadow"]
SANITIZERS = ["-g1", "-Og", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"]


def _run(*words: str) -> None:
    done = subprocess.run(words, cwd=HERE, capture_output=True, text=True, timeout=1200)
    assert done.returncode == 0, done.stderr[:2000]


def _built(name: str, command: list[str], build: Callable[[Path], None]) -> Path:
    """The file or folder that `build` makes of these sources, words and compiler: built by the first worker that asks, and kept
    for the next run."""
    BUILT.mkdir(parents=True, exist_ok=True)
    out = BUILT / f"{name}-{_hash_of(command)}"
    with (BUILT / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not out.exists():
            for former in (*BUILT.glob(f"{name}-*"), BUILT / f"part-{name}"):
                shutil.rmtree(former) if former.is_dir() else former.unlink(missing_ok=True)
            part = BUILT / f"part-{name}"
            build(part)
            part.replace(out)
    return out


def _hash_of(command: list[str]) -> str:
    version = subprocess.run([command[0], "--version"], capture_output=True, text=True, timeout=20, check=True).stdout
    digest = hashlib.sha256("\0".join([version, *command]).encode())
    for folder in ("src", "include"):
        for path in sorted((HERE / folder).rglob("*.[ch]")):
            digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def _objects(folder: Path, sources: list[Path], *flags: str) -> dict[Path, Path]:
    """Each C file to its object in the new folder."""
    folder.mkdir()
    objects = {p: folder / "-".join(p.relative_to(HERE).with_suffix(".o").parts) for p in sources}
    for source, made in objects.items():
        _run(str(COMPILER), *FLAGS, *flags, "-Iinclude", "-Isrc", "-c", str(source), "-o", str(made))
    return objects


@functools.cache
def _native_folder() -> Path:
    """Holds libqvrt.so and qvrt."""
    return _built("native", [str(COMPILER), *FLAGS, "-fPIC"], _build_native)


def _build_native(folder: Path) -> None:
    sources = [p for p in sorted((HERE / "src").rglob("*.c")) if p.parent.name != "faults"]
    parts = list(map(str, _objects(folder, sources, "-fPIC").values()))
    _run(str(COMPILER), "-shared", *parts, "-o", str(folder / "libqvrt.so"), "-lm")
    _run(str(COMPILER), *parts, "-o", str(folder / "qvrt"), "-lm")


@functools.cache
def library() -> ctypes.CDLL:
    return ctypes.CDLL(str(_native_folder() / "libqvrt.so"))


@functools.cache
def sanitized_folder() -> Path:
    """A QVERIFY_BIN_DIR: both runtimes of this machine under AddressSanitizer and UndefinedBehaviorSanitizer."""
    return _built("sanitized", [str(COMPILER), *FLAGS, *SANITIZERS], _build_sanitized)


def _build_sanitized(folder: Path) -> None:
    """They share their objects: the faulty one has src/faults, its op table among them, in place of src/ops/table.c."""
    architecture, objects = host_architecture(), _objects(folder, sorted((HERE / "src").rglob("*.c")), *SANITIZERS)
    real = [str(o) for p, o in objects.items() if p.parent.name != "faults"]
    faulty = [str(o) for p, o in objects.items() if p != HERE / "src" / "ops" / "table.c"]
    for name, parts in ((f"qvrt-{architecture}", real), (f"qvrt-faulty-{architecture}", faulty)):
        _run(str(COMPILER), *SANITIZERS, *parts, "-o", str(folder / name), "-lm")


@functools.cache
def binary(sanitized: bool = False) -> Path:
    return sanitized_folder() / f"qvrt-{host_architecture()}" if sanitized else _native_folder() / "qvrt"


if __name__ == "__main__" and COMPILER is not None:
    library()
    if "sanitized" in sys.argv:
        sanitized_folder()
