"""Results are the same on processors without AVX-512 and without AVX2: the tests of what is recorded run again in child
processes in which numpy and OpenBLAS do not use these features."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.processors import environments

ROOT = Path(__file__).parents[2]
FLOATS = "softmax_float or log_softmax or elementwise_float or lrn or matmul_float or reduce_float"
CHECK = "from tests.processors import dispatched; print(' '.join(dispatched()))"


def run(environment: dict[str, str], *words: str) -> subprocess.CompletedProcess[str]:
    others = {k: v for k, v in os.environ.items() if not k.startswith(("PYTEST", "COVERAGE"))}
    command = [sys.executable, *words]
    return subprocess.run(
        command, cwd=ROOT, env={**others, **environment}, capture_output=True, text=True, timeout=900, check=False
    )


@pytest.mark.parametrize("name", environments())
def test_the_same_is_recorded_without_the_features(name: str) -> None:
    environment = environments()[name]
    shown = run(environment, "-c", CHECK)
    assert shown.returncode == 0, shown.stderr
    disabled = set(environment.get("NPY_DISABLE_CPU_FEATURES", "").split())
    assert not disabled & set(shown.stdout.split())
    ran = run(
        environment, "-m", "pytest", "-q", "-n", "0", "-p", "no:cacheprovider", "tests/ops/test_recorded_hypotheses.py",
        "-k", FLOATS,
    )  # fmt: skip
    assert ran.returncode == 0 and " passed" in ran.stdout, ran.stdout[-3000:] + ran.stderr[-1000:]
