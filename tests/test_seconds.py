"""A run of so many seconds takes what a change concerns first, and by many seeds everything; a folder over its budget is said."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests import seconds
from tests.seconds import BUDGETS, choose_files, compare_with_budgets, concerned, read_record

HERE = Path(__file__).resolve().parent
COSTS = {f"plain/test_{at}.py": float(at) for at in range(1, 40)}


def test_what_is_concerned_comes_first_and_the_rest_fills_the_seconds() -> None:
    first = {"plain/test_39.py", "plain/test_7.py"}
    chosen = choose_files(100, 1, first, COSTS)
    assert first < chosen and sum(COSTS[name] for name in chosen) <= 100
    assert choose_files(20, 1, first, COSTS) & first == {"plain/test_7.py"}


def test_every_worker_chooses_the_same_of_files_that_take_alike() -> None:
    """The order of a set differs from process to process."""
    assert choose_files(2, 1, set("hgfedcba"), dict.fromkeys("abcdefgh", 1.0)) == {"a", "b"}


def test_one_file_runs_however_few_the_seconds() -> None:
    assert choose_files(0.5, 1, {"plain/test_39.py"}, COSTS) == {"plain/test_39.py"}
    assert len(choose_files(0.5, 1, set(), COSTS)) == 1


def test_a_seed_chooses_the_same_and_many_seeds_choose_all() -> None:
    assert choose_files(100, 3, set(), COSTS) == choose_files(100, 3, set(), dict(reversed(COSTS.items())))
    assert set().union(*(choose_files(100, seed, set(), COSTS) for seed in range(100))) == COSTS.keys()


def test_a_change_concerns_what_imports_it_and_itself() -> None:
    tests = {
        "plain/test_a.py": "from qverify.compare.rows import rows_of",
        "plain/test_b.py": "from qverify.compare import rows",
        "plain/test_c.py": "import qverify.compare.rows_of_others",
        "plain/test_d.py": "",
        "farm/test_e.py": "from qverify_farm.store import host_results as store",
    }
    assert concerned(["verifier/qverify/compare/rows.py"], tests) == {"plain/test_a.py", "plain/test_b.py"}
    assert concerned(["farm/qverify_farm/store/host_results.py"], tests) == {"farm/test_e.py"}
    assert concerned(["tests/plain/test_d.py", "README.md"], tests) == {"plain/test_d.py"}


def test_the_folder_over_its_budget_names_its_longest_files(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(seconds, "BUDGETS", {"plain": 10, "farm": 10})
    lines = compare_with_budgets({"plain/test_a.py": 4.0, "plain/test_b.py": 9.0, "farm/test_c.py": 9.0})
    assert not lines[0].startswith("OVER") and "tests/farm" in lines[0]
    assert lines[1].startswith("OVER tests/plain") and lines[1].index("test_b.py 9 s") < lines[1].index("test_a.py 4 s")


def test_the_record_is_of_files_that_are_there_and_every_folder_has_a_budget() -> None:
    recorded = read_record()
    there = {path.relative_to(HERE).as_posix() for path in HERE.rglob("test_*.py")}
    assert recorded.keys() <= there, "scripts/test --durations writes tests/seconds.txt"
    assert {name.rpartition("/")[0] for name in there} <= BUDGETS.keys()
    assert all(0 <= quick <= whole for whole, quick in recorded.values())
