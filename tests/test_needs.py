"""What needs.py tells by names is still told of something after a file or a board was renamed."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.board_kinds import NAMES
from tests.needs import AT_ONCE, AT_ONCE_OF_SLOW, LONG, NEEDS, QUICK, SHARED, has_no_quick_test, units_of_work

HERE = Path(__file__).resolve().parent
FILES = [path.relative_to(HERE).as_posix() for path in HERE.rglob("test_*.py")]
EVERY = [name for name in FILES if name.endswith("test_every_place.py")]
KNOWN = [*FILES, *(f"{file} {board}" for file in EVERY for board in NAMES)]


@pytest.mark.parametrize("pattern", [*NEEDS.values(), *SHARED.values(), LONG], ids=[*NEEDS, *SHARED, "long"])
def test_a_pattern_names_a_test(pattern: re.Pattern[str]) -> None:
    assert any(pattern.search(place) for place in KNOWN)


def test_the_quick_run_reads_only_files_of_which_it_runs_tests() -> None:
    """QUICK is what scripts/test --quick asks for: else nothing would be left unread; and it leaves out every mark."""
    assert f'marks="{QUICK}"' in (HERE.parent / "scripts" / "test").read_text()
    assert " and ".join(f"not {mark}" for mark in NEEDS) == QUICK
    unread = {name for name in FILES if has_no_quick_test(HERE / name)}
    assert {"links/test_ssh.py", "models/test_triage_bad.py"} < unread
    assert not unread & {"plain/test_main_job.py", "conformance/test_boards.py", "test_needs.py"}


@pytest.mark.parametrize(
    ("file", "most"),
    [("plain/test_main_job.py", AT_ONCE), ("links/test_ssh.py", AT_ONCE_OF_SLOW), ("models/test_real_models.py", 1)],
)
def test_a_worker_is_given_a_few_tests_of_one_file_together(file: str, most: int) -> None:
    assert (HERE / file).is_file()
    one, other = ([f"tests/{name}::test_{at}" for at in range(40)] for name in (file, "plain/test_pages.py"))
    units = units_of_work([*one[:35], *other, *one[35:]])
    sizes = [sum(u == unit for u in units.values()) for unit in dict.fromkeys(units.values())]
    assert list(units) == [*one[:35], *other, *one[35:]] and max(sizes) == max(most, AT_ONCE)
    assert [units[nodeid] for nodeid in one[:35]] == [one[at - at % most] for at in range(35)]
    assert all(units[nodeid] in other for nodeid in other) and units[one[35]] == one[35]
