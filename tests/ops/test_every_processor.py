"""Results are the same on processors without AVX-512 and without AVX2: the tests of what is recorded run again in child
processes in which numpy and OpenBLAS do not use these features."""

from __future__ import annotations

import pytest

from tests.processors import child, environments, in_words, note_exercised

FLOATS = "softmax_float or log_softmax or elementwise_float or lrn or matmul_float or reduce_float"
CHECK = "from tests.processors import dispatched; print(' '.join(dispatched()))"


@pytest.mark.parametrize("name", environments())
def test_the_same_is_recorded_without_the_features(name: str) -> None:
    environment = environments()[name]
    shown = child([], environment, "-c", CHECK)
    assert shown.returncode == 0, shown.stderr
    disabled = set(environment.get("NPY_DISABLE_CPU_FEATURES", "").split())
    assert not disabled & set(shown.stdout.split())
    ran = child(
        [], environment, "-m", "pytest", "-q", "-n", "0", "-p", "no:cacheprovider", "tests/ops/test_recorded_hypotheses.py",
        "-k", FLOATS,
    )  # fmt: skip
    assert ran.returncode == 0 and " passed" in ran.stdout, ran.stdout[-3000:] + ran.stderr[-1000:]
    note_exercised(f"{name} ({in_words(environment)})")
