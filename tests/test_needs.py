"""What needs.py tells by names is still told of something after a file or a board was renamed."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.board_kinds import NAMES
from tests.needs import LONG, NEEDS, SHARED

HERE = Path(__file__).resolve().parent
FILES = [path.relative_to(HERE).as_posix() for path in HERE.rglob("test_*.py")]
EVERY = [name for name in FILES if name.endswith("test_every_place.py")]
KNOWN = [*FILES, *(f"{file} {board}" for file in EVERY for board in NAMES)]


@pytest.mark.parametrize("pattern", [*NEEDS.values(), *SHARED.values(), LONG], ids=[*NEEDS, *SHARED, "long"])
def test_a_pattern_names_a_test(pattern: re.Pattern[str]) -> None:
    assert any(pattern.search(place) for place in KNOWN)
