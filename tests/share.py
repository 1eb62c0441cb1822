"""A run takes a share of what repeats: of each slow test with several cases some cases, which the seed of the run's order
chooses, so that other runs take others. `scripts/test --all`, named files and -k leave nothing out."""

from __future__ import annotations

import hashlib
import re
from collections import defaultdict
from pathlib import Path

import pytest

from tests.needs import NEEDS, QUICK, place_of

FEW = 2  # with so many cases a test has all in each run
# Each test of these starts or resets a machine or container: they count as the cases of one test, of which one is enough.
ONE_FAMILY = re.compile(r"systems/test_(qemu_\w+|container|labgrid)\.py|emulated/test_arm_reference\.py")


def family_of(item: pytest.Item) -> str:
    """Returns the name of the test whose cases these are, or the file's if it is of ONE_FAMILY."""
    file = place_of(item).partition(" ")[0]
    return file if ONE_FAMILY.search(file) else f"{file}::{getattr(item, 'originalname', item.name)}"


def choose(names: list[str], share: int, seed: int, least: int = FEW) -> set[str]:
    """Returns one in `share` of these names, rounded up and at least `least`, the same ones for the same seed."""
    ranked = sorted(names, key=lambda name: hashlib.sha256(f"{seed} {name}".encode()).digest())
    return set(ranked[: max(least, -(-len(names) // share))])


def leave_out_others(items: list[pytest.Item], share: int, seed: int) -> list[pytest.Item]:
    """Removes, and returns, the cases of slow tests that this run does not take."""
    families = defaultdict[str, list[pytest.Item]](list)
    for item in items:
        if any(item.get_closest_marker(mark) for mark in NEEDS):
            families[family_of(item)].append(item)
    others = set[pytest.Item]()
    for family, cases in families.items():
        least = FEW if "::" in family else 1
        taken = choose([item.nodeid for item in cases], share, seed, least)
        others |= {item for item in cases if item.nodeid not in taken}
    items[:] = [item for item in items if item not in others]
    return sorted(others, key=lambda item: item.nodeid)


def is_whole_run(config: pytest.Config) -> bool:
    """Returns whether nobody asked for certain tests: no file, no name, no op, no marks but those of the quick run."""
    return (
        all(Path(word).is_dir() for word in config.args)
        and not config.option.keyword
        and not config.getoption("--op")
        and config.option.markexpr in ("", QUICK)
    )
