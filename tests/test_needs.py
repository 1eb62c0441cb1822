"""What needs.py tells by names is still told of something after a file or a board was renamed."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.board_kinds import NAMES
from tests.needs import AT_ONCE, NEEDS, QUICK, SHARED, has_no_quick_test, units_of_work

HERE = Path(__file__).resolve().parent
FILES = [path.relative_to(HERE).as_posix() for path in HERE.rglob("test_*.py")]
EVERY = [name for name in FILES if name.endswith("test_every_place.py")]
KNOWN = [*FILES, *(f"{file} {board}" for file in EVERY for board in NAMES), "farm/test_database.py postgresql"]


@pytest.mark.parametrize(
    "pattern", [*NEEDS.values(), *SHARED.values(), *AT_ONCE], ids=[*NEEDS, *SHARED, *map(str, AT_ONCE.values())]
)
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
    [
        ("models/test_triage_bad.py", 40),
        ("ops/test_forensics_of_ops.py", 1),
        ("links/test_ssh.py", 4),
        ("plain/test_main_job.py", 16),
    ],
)
def test_a_worker_is_given_a_few_tests_of_one_file_together(file: str, most: int) -> None:
    assert (HERE / file).is_file()
    one, other = ([f"tests/{name}::test_{at}" for at in range(40)] for name in (file, "plain/test_pages.py"))
    units = units_of_work([*one, *other])
    assert list(units) == [*one, *other]
    assert [units[nodeid] for nodeid in one] == [one[at - at % most] for at in range(40)]
    assert all(units[nodeid] in other for nodeid in other)
    apart = units_of_work([one[0], *other, one[1]])
    assert (apart[one[0]], apart[one[1]]) == (one[0], one[1])
