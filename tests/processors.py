"""The processor features that a run of the tests exercises, natively and with features switched off.

`python -m tests.processors` prints them; scripts/test does so at its end."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from numpy._core import _multiarray_umath as umath

ROOT = Path(__file__).parents[1]
NOTES = "QVERIFY_PROCESSORS_EXERCISED"  # the file that note_exercised() writes
# In an emulated process: the operators whose products saturate in its children, which the host's processor runs
INEXACT_IN_CHILDREN = "INEXACT_IN_CHILDREN"
AVX512 = ("AVX512", "X86_V4")  # beginnings of the names of numpy's groups of features that have AVX-512


def dispatched() -> list[str]:
    """Returns the groups of features beyond its baseline that numpy uses on this processor."""
    return [name for name in umath.__cpu_dispatch__ if umath.__cpu_features__.get(name)]


def environments() -> dict[str, dict[str, str]]:
    """Returns the environments in which results must be the same, by name: numpy without AVX-512 and OpenBLAS for AVX2,
    numpy without both, OpenBLAS for AVX-512 where this processor has it. On a processor without such features there are
    fewer."""
    wide = [name for name in dispatched() if name.startswith(AVX512)]
    found = {}
    if platform.machine() == "x86_64":
        found["AVX2"] = {"NPY_DISABLE_CPU_FEATURES": " ".join(wide), "OPENBLAS_CORETYPE": "Haswell"}
        found["SSE4.2"] = {"NPY_DISABLE_CPU_FEATURES": " ".join(dispatched()), "OPENBLAS_CORETYPE": "Nehalem"}
        if wide:
            found["AVX-512"] = {"OPENBLAS_CORETYPE": "SkylakeX"}
    return found


EMULATED = {  # processors of QEMU's user mode, for onnxruntime's kernels, and what else their runs need
    "Haswell": {"NPY_DISABLE_CPU_FEATURES": "X86_V3"},  # QEMU 7.2 ends numpy's AVX2 code for sorting
    "Nehalem": {},
}


def child(before: Sequence[str], environment: Mapping[str, str], *words: str) -> subprocess.CompletedProcess[str]:
    """Runs this Python on these words in the project's folder. before: what runs it (an emulator). environment: changes
    of the variables. An emulated processor has a cache of its own: what the host's onnxruntime computes is kept by the
    host's processor, which also runs the children of an emulated process."""
    from qverify.onnx_model.exact_products import inexact_kernels

    kept = {k: v for k, v in os.environ.items() if not k.startswith(("PYTEST", "COVERAGE", "QVERIFY_"))}
    command = [*before, sys.executable, *words]
    with tempfile.TemporaryDirectory() as cache:
        own = {"XDG_CACHE_HOME": cache, INEXACT_IN_CHILDREN: " ".join(inexact_kernels())} if before else {}
        return subprocess.run(
            command,
            cwd=ROOT,
            env={**kept, **own, **environment},
            capture_output=True,
            text=True,
            timeout=900,
            check=False,
        )


def note_exercised(name: str) -> None:
    """Adds a name to what describe() lists, after a run in which all results were as wanted."""
    if path := os.environ.get(NOTES):
        with open(path, "a", encoding="utf-8") as file:
            file.write(f"{name}\n")


def describe() -> str:
    """Returns one line on the features that were exercised."""
    from qverify.onnx_model.exact_products import inexact_kernels

    products = "saturate" if inexact_kernels() else "are exact"
    path = Path(os.environ.get(NOTES, os.devnull))
    others = (
        ", ".join(sorted(set(path.read_text(encoding="utf-8").splitlines()))) or "none (not chosen, skipped or failed)"
    )
    native = " ".join(dispatched()) or "its baseline"
    return (
        f"processor features exercised: {platform.machine()}, numpy {native}; onnxruntime's products of uint8 by int8 "
        f"{products} here; also {others}"
    )


def in_words(environment: Mapping[str, str]) -> str:
    """Returns an environment as one line."""
    return ", ".join(f"{k}={v}" for k, v in environment.items() if v)


if __name__ == "__main__":
    print(describe(), f"(OPENBLAS_CORETYPE={os.environ.get('OPENBLAS_CORETYPE', 'unset')})")
