"""A short coverage-guided run over each parser of the board, from the kept corpus (longer ones: scripts/fuzz SECONDS)."""

from __future__ import annotations

import glob
import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
HAVE = shutil.which("clang") and glob.glob("/usr/lib/llvm-*/lib/clang/*/lib/linux/libclang_rt.fuzzer-*.a")


@pytest.mark.skipif(not HAVE, reason="no clang with libFuzzer on this machine")
@pytest.mark.parametrize("parser", ["frames", "model_bin"])
def test_short_run(parser: str, tmp_path: Path) -> None:
    environment = {**os.environ, "QVERIFY_FUZZ_DIR": str(tmp_path)}
    command = [str(ROOT / "scripts" / "fuzz"), "10", parser]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-1000:]
    executed = int(done.stdout.split("stat::number_of_executed_units:")[1].split()[0])
    assert executed > len(list((ROOT / "board_runtime" / "fuzz" / f"corpus_{parser}").iterdir()))
