"""Chooses the files of a run of so many seconds: those that a change concerns first, then others that its seed chooses. Records
what each test file takes (`scripts/test --durations` writes tests/seconds.txt), and compares each folder with its budget."""

from __future__ import annotations

import random
import re
import subprocess
from collections import defaultdict
from pathlib import Path

import pytest

from tests.needs import NEEDS, file_of

HERE = Path(__file__).resolve().parent
RECORD = HERE / "seconds.txt"
UNKNOWN = 3.0  # seconds of a file that is not in the record
# Seconds that the tests of a folder may take, summed over workers, on two cores: set by a record of two slow cores without
# AVX-512 and with other work beside it.
BUDGETS = {
    "": 90,
    "conformance": 500,
    "emulated": 400,
    "engines": 250,
    "farm": 1200,
    "graphs": 20,
    "links": 400,
    "models": 400,
    "ops": 900,
    "plain": 4000,
    "systems": 400,
}


def read_record() -> dict[str, tuple[float, float]]:
    """Returns, for each file relative to tests/, the seconds of all its tests and those of the tests without a mark."""
    rows = (line.split() for line in RECORD.read_text().splitlines())
    return {name: (float(whole), float(quick)) for whole, quick, name in rows}


class Durations:
    """Adds up what tests take, set up and torn down, by file."""

    def __init__(self) -> None:
        self.seconds = defaultdict[str, list[float]](lambda: [0.0, 0.0])

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        both = self.seconds[file_of(HERE.parent / report.nodeid.partition("::")[0])]
        both[0] += report.duration
        if not any(mark in report.keywords for mark in NEEDS):
            both[1] += report.duration

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        seconds = {name: whole for name, (whole, _) in self.seconds.items()}
        if any(line.startswith("OVER") for line in compare_with_budgets(seconds)) and session.exitstatus == 0:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED
        kept = {
            name: both for name, both in read_record().items() if (HERE / name).exists()
        }  # of files that did not run
        both = kept | {name: (whole, quick) for name, (whole, quick) in self.seconds.items()}
        rows = [f"{whole:8.2f} {quick:8.2f} {name}\n" for name, (whole, quick) in sorted(both.items())]
        RECORD.write_text("".join(rows))

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        terminalreporter.section("seconds of folders, and their budgets")
        for line in compare_with_budgets({name: whole for name, (whole, _) in self.seconds.items()}):
            terminalreporter.line(line)


def compare_with_budgets(seconds: dict[str, float]) -> list[str]:
    """Returns a line for each folder; that of a folder over its budget begins with OVER and names its three longest files."""
    folders = defaultdict[str, list[str]](list)
    for name in seconds:
        folders[name.rpartition("/")[0]].append(name)
    lines = []
    for folder, names in sorted(folders.items()):
        total, budget = sum(seconds[name] for name in names), BUDGETS.get(folder, 0)
        line = f"tests/{folder:12} {total:7.0f} of {budget:5} s"
        if total > budget:
            longest = sorted(names, key=seconds.__getitem__, reverse=True)[:3]
            line = f"OVER {line}: " + ", ".join(f"{name} {seconds[name]:.0f} s" for name in longest)
        lines.append(line)
    return lines


def changed_files(root: Path) -> list[str]:
    """Returns the files that differ from the commit from which the branch left main, and the new ones; [] without git."""
    commands = (
        ["diff", "--name-only", "--merge-base", "main"],
        ["diff", "--name-only", "HEAD"],
        ["ls-files", "--others", "--exclude-standard"],
    )
    found = set[str]()
    for words in commands:
        try:
            done = subprocess.run(["git", *words], cwd=root, capture_output=True, text=True, timeout=20, check=False)
        except OSError:
            return []
        found |= set(done.stdout.splitlines())  # nothing where there is no main
    return sorted(found)


def concerned(changed: list[str], tests: dict[str, str]) -> set[str]:
    """Returns the test files, of `tests` by name with their text, that are changed or import a changed module by its name."""
    found = {name for name in tests if f"tests/{name}" in changed}
    for path in changed:
        if path.endswith(".py") and not path.startswith("tests/"):
            package, _, module = path.removesuffix(".py").removesuffix("/__init__").replace("/", ".").rpartition(".")
            package = package.partition(".")[2]  # without verifier, agents or farm
            pattern = re.compile(rf"\b{re.escape(package)}(\.| import .*\b){re.escape(module)}\b")
            found |= {name for name, text in tests.items() if pattern.search(text)}
    return found


def choose_files(seconds: float, seed: int, first: set[str], costs: dict[str, float]) -> set[str]:
    """Returns files that together take at most so many seconds by `costs`: those of `first`, the shortest ones first if not
    all fit, then others in the order of the seed. One file at least."""
    others = sorted(costs.keys() - first)
    random.Random(seed).shuffle(others)
    chosen, total = set[str](), 0.0
    for name in [*sorted(first & costs.keys(), key=lambda name: (costs[name], name)), *others]:
        if not chosen or total + costs[name] <= seconds:
            chosen.add(name)
            total += costs[name]
    return chosen
