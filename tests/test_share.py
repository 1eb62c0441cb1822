"""Every case is taken by some run, the same ones by the same seed, and nothing that someone named is left out."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.share import FEW, choose

ROOT = Path(__file__).resolve().parents[1]
SLOW = "tests/conformance/test_hostile_models.py"  # a slow file whose cases are quickly collected


def collected(*words: str) -> set[str]:
    command = [sys.executable, "-m", "pytest", "-n", "0", "-q", "--collect-only", *words]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120, check=True)
    return {line for line in done.stdout.splitlines() if "::" in line}


def test_a_share_is_one_in_so_many_and_never_none() -> None:
    names = [f"case{at}" for at in range(40)]
    assert len(choose(names, 4, 1)) == 10
    assert len(choose(names[:9], 4, 1)) == 3
    assert choose(names[:FEW], 4, 1) == set(names[:FEW])
    assert choose(names[:1], 4, 1) == {"case0"}


def test_a_seed_chooses_the_same_and_many_seeds_choose_all() -> None:
    names = [f"case{at}" for at in range(40)]
    assert choose(names, 4, 7) == choose(names[::-1], 4, 7)
    assert choose(names, 4, 7) != choose(names, 4, 8)
    assert set().union(*(choose(names, 4, seed) for seed in range(40))) == set(names)


@pytest.mark.slow
def test_a_whole_run_leaves_out_cases_of_slow_tests_only() -> None:
    every = collected("tests/conformance", "--share", "1")
    some = collected("tests/conformance", "--share", "4", "--randomly-seed", "1")
    assert some < every
    assert {name.partition("[")[0] for name in some} == {name.partition("[")[0] for name in every}
    quick = {name for name in every if "test_boards.py" in name and "qemu" not in name}
    assert quick and quick <= some
    assert len([name for name in some if SLOW in name]) < len([name for name in every if SLOW in name]) / 3


@pytest.mark.slow
@pytest.mark.parametrize("words", [[SLOW], ["tests/conformance", "-k", "hostile_models"]], ids=["file", "name"])
def test_what_is_named_is_run_whole(words: list[str]) -> None:
    assert collected(*words, "--share", "4") == collected(*words)
