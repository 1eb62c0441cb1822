"""A short coverage-guided run over each parser of the board, from the kept corpus (longer ones: scripts/fuzz SECONDS)."""

from __future__ import annotations

import glob
import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from qverify.model_bin.records import decode
from qverify.ops import stems

ROOT = Path(__file__).parents[2]
HAVE = shutil.which("clang") and glob.glob("/usr/lib/llvm-*/lib/clang/*/lib/linux/libclang_rt.fuzzer-*.a")


@pytest.mark.skipif(not HAVE, reason="no clang with libFuzzer on this machine")
def test_short_runs(tmp_path: Path) -> None:
    environment = {**os.environ, "QVERIFY_FUZZ_DIR": str(tmp_path)}
    command = [str(ROOT / "scripts" / "fuzz"), "4"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-1000:]
    executed = [int(text.split()[0]) for text in done.stdout.split("stat::number_of_executed_units:")[1:]]
    kept = [len(list((ROOT / "board_runtime" / "fuzz" / f"corpus_{p}").iterdir())) for p in ("frames", "model_bin")]
    assert len(executed) == len(kept) and all(ran > held for ran, held in zip(executed, kept, strict=True))


def test_every_op_has_a_seed() -> None:
    """An op that no kept model.bin has is hardly ever reached: the loader refuses names that are off by a byte."""
    kept = (ROOT / "board_runtime" / "fuzz" / "corpus_model_bin").iterdir()
    found = {node.op for file in kept for node in decode(file.read_bytes()).nodes}
    missing = sorted({*stems()} - found)
    assert not missing, f"add the model.bin of a small case of each to fuzz/corpus_model_bin: {missing}"


@pytest.mark.skipif(importlib.util.find_spec("ziglang") is None, reason="ziglang is not installed (the extra build)")
@pytest.mark.parametrize("target", ["x86_64", "armv7", "s390x"])
def test_no_compiler_warning(target: str, tmp_path: Path) -> None:
    """The fuzzers meet the warnings that build.py asks of the runtime, with 64 bits, 32 bits and big-endian."""
    spec = importlib.util.spec_from_file_location("build", ROOT / "board_runtime" / "build.py")
    assert spec and spec.loader
    build = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(build)
    compiler = [sys.executable, "-m", "ziglang", "cc", *build.TARGETS[target], *build.FLAGS, "-Werror", "-c"]
    cache = str(ROOT / ".cache" / "zig")
    environment = {"ZIG_GLOBAL_CACHE_DIR": cache, "ZIG_LOCAL_CACHE_DIR": cache, **os.environ}
    for source in ("fuzz_frames.c", "fuzz_model_bin.c"):
        made = tmp_path / f"{source}.o"
        words = [*compiler, "-DQV_FUZZ_FILES", "-Iinclude", "-Isrc", f"fuzz/{source}", "-o", str(made)]
        done = subprocess.run(
            words, cwd=ROOT / "board_runtime", env=environment, capture_output=True, text=True, timeout=300, check=False
        )
        assert (done.returncode, done.stderr) == (0, "") and made.stat().st_size
