"""Builds the runtime for every architecture, reproducibly, with the compiler that comes from PyPI (ziglang) or with gcc."""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
OPS = HERE / "src" / "ops"
OUT = HERE.parent / "agents" / "qverify_agents" / "bin"
TARGETS = {
    "x86_64": ["-target", "x86_64-linux-musl"],
    "aarch64": ["-target", "aarch64-linux-musl"],
    "armv7": ["-target", "arm-linux-musleabihf", "-mcpu=generic+v7a+vfp3"],
    "riscv64": ["-target", "riscv64-linux-musl"],
    "s390x": ["-target", "s390x-linux-musl"],
}
WARNINGS = [
    "-Wall",
    "-Wextra",
    "-pedantic",
    "-Wconversion",
    "-Wsign-conversion",
    "-Wshadow",
    "-Wcast-qual",
    "-Wcast-align",
    "-Wvla",
    "-Wstrict-prototypes",
    "-Wmissing-prototypes",
]
FLAGS = ["-std=c99", "-O2", "-ffp-contract=off", "-fno-fast-math", *WARNINGS]


def op_list() -> str:
    """The text of src/ops/list.h: the stem of every file there that defines an op. Raises ValueError for a file whose op has
    another name."""
    stems = []
    for path in sorted(OPS.glob("*.c")):
        for name in re.findall(r"^const qv_op qv_op_(\w+)\s*=", path.read_text(), re.MULTILINE):
            if name != path.stem:
                raise ValueError(f"src/ops/{path.name} defines qv_op_{name}; wanted qv_op_{path.stem}")
            stems.append(name)
    lines = " \\\n".join(f"  X({stem})" for stem in stems)
    return f"""/* Every op of the runtime. Written by build.py from the files of this folder. */
#ifndef QV_OPS_LIST_H
#define QV_OPS_LIST_H
#include "op.h"

/* clang-format off */
#define QV_OPS(X) \\
{lines}
/* clang-format on */

#define QV_DECLARE_OP(stem) extern const qv_op qv_op_##stem;
QV_OPS(QV_DECLARE_OP)
#endif
"""


def write_op_list() -> None:
    """src/ops/list.h as op_list() has it; a file that is so already is not touched."""
    path, text = OPS / "list.h", op_list()
    if not path.exists() or path.read_text() != text:
        path.write_text(text)


def sources(faulty: bool) -> list[Path]:
    """Every C file of one binary, sorted; src/faults with its op table takes the place of the real one."""
    here = (HERE / "src").rglob("*.c")
    if faulty:
        return sorted(p for p in here if p != HERE / "src" / "ops" / "table.c")
    return sorted(p for p in here if p.parent.name != "faults")


def source_sha256() -> str:
    """Hash of everything a binary is made from."""
    digest = hashlib.sha256("\0".join([*FLAGS, json.dumps(TARGETS)]).encode())
    for path in sorted([*(HERE / "src").rglob("*.[ch]"), *(HERE / "include").rglob("*.h")]):
        digest.update(path.relative_to(HERE).as_posix().encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()


def build(arch: str, faulty: bool, out: Path, compiler: str = "zig", root: Path = HERE) -> Path:
    """One static binary. Raises RuntimeError with the compiler's first lines."""
    name = f"qvrt{'-faulty' if faulty else ''}-{arch}"
    if compiler == "zig":
        pinned = [sys.executable, "-m", "ziglang", "cc", "-Werror"]  # one version, so one set of warnings
        command = [*pinned, *TARGETS[arch], "-static", "-s"]
    else:
        command = [compiler, "-static", "-s"]
    out.mkdir(parents=True, exist_ok=True)
    part = out / f"{name}.part"
    names = [p.relative_to(HERE).as_posix() for p in sources(faulty)]
    command += [*FLAGS, "-Iinclude", "-Isrc", *names, "-o", str(part), "-lm"]
    caches = {
        k: os.environ.get(k, str(HERE.parent / ".cache" / "zig"))
        for k in ("ZIG_GLOBAL_CACHE_DIR", "ZIG_LOCAL_CACHE_DIR")
    }
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, env={**os.environ, **caches}, timeout=1800)
    if done.returncode:
        raise RuntimeError(f"{name}: the compiler failed:\n" + "\n".join(done.stderr.splitlines()[:20]))
    part.chmod(0o755)
    part.replace(out / name)
    return out / name


def user_cache() -> Path:
    """qverify's cache folder of this user, as agents/qverify_agents/this_user.py has it."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "qverify"


def reproduce(held: dict[str, str], arches: list[str]) -> int:
    """Builds again in another folder, with no object of an earlier build; 1 unless every byte is as the manifest says. Only the
    compiler's own libraries (its libc takes eight times as long as the runtime) are kept for the next time, in the user's cache."""
    wrong = []
    with tempfile.TemporaryDirectory(prefix="qvrt-again-") as folder:
        copy = Path(folder) / "elsewhere"
        shutil.copytree(HERE / "src", copy / "src")
        shutil.copytree(HERE / "include", copy / "include")
        libraries = user_cache() / "zig"
        libraries.mkdir(parents=True, exist_ok=True)
        os.environ["ZIG_GLOBAL_CACHE_DIR"] = str(libraries)
        os.environ["ZIG_LOCAL_CACHE_DIR"] = str(Path(folder) / "cache")
        for arch in arches:
            for faulty in (False, True):
                made = build(arch, faulty, Path(folder) / "out", root=copy)
                same = hashlib.sha256(made.read_bytes()).hexdigest() == held.get(made.name)
                print(f"{made.name} {'the same bytes' if same else 'DIFFERS'}", flush=True)
                wrong += [] if same else [made.name]
    return 1 if wrong else 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--arch", nargs="*", default=list(TARGETS), choices=list(TARGETS))
    parser.add_argument("--out", type=Path, default=OUT)
    parser.add_argument("--cc", default="zig", help="zig (default), or a native compiler such as gcc")
    parser.add_argument("--check", action="store_true", help="only say whether the binaries in --out are current")
    parser.add_argument(
        "--reproduce", action="store_true", help="build again elsewhere, without earlier objects, and compare"
    )
    options = parser.parse_args()
    manifest = options.out / "manifest.json"
    if options.check:
        held = json.loads(manifest.read_text()) if manifest.exists() else {}
        current = held.get("source_sha256") == source_sha256() and (OPS / "list.h").read_text() == op_list()
        print("current" if current else "stale: run python board_runtime/build.py")
        return 0 if current else 1
    if options.reproduce:
        return reproduce(json.loads(manifest.read_text())["binaries"], options.arch)
    write_op_list()
    made = [build(arch, faulty, options.out, options.cc) for arch in options.arch for faulty in (False, True)]
    digests = {p.name: hashlib.sha256(p.read_bytes()).hexdigest() for p in made}
    manifest.write_text(
        json.dumps({"source_sha256": source_sha256(), "binaries": digests}, indent=1, sort_keys=True) + "\n"
    )
    for path in made:
        print(f"{path.name} {path.stat().st_size} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main())
