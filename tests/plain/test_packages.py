"""The packages of an emulated board's image: an archive that does not answer is asked again, and what it said is told."""

from __future__ import annotations

from pathlib import Path

import pytest
from qverify_agents.emulation import packages
from qverify_agents.emulation.packages import Packages
from qverify_agents.errors import BoardUnreachable

APT = """#!/bin/sh
echo >>{folder}/asked
[ "$(wc -l <{folder}/asked)" -gt {failures} ] && exit 0
echo "W: one thing" >&2
echo "E: Failed to fetch the list: connection reset" >&2
echo "E: Some index files failed to download." >&2
exit 100
"""


def packages_of(folder: Path, monkeypatch: pytest.MonkeyPatch, failures: int) -> Packages:
    """Returns packages whose apt-get fails so many times."""
    program, keyring = folder / "bin" / "apt-get", folder / "keyring"
    program.parent.mkdir()
    program.write_text(APT.format(folder=folder, failures=failures))
    program.chmod(0o755)
    keyring.touch()
    monkeypatch.setenv("PATH", str(program.parent), prepend=":")
    monkeypatch.setattr(packages, "KEYRING", str(keyring))
    monkeypatch.setattr(packages, "PAUSES_S", (0.0, 0.0))
    return Packages(folder / "packages", "arm64", "stable", "file:/archive")


def test_lists_that_could_not_be_fetched_are_fetched_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    packages_of(tmp_path, monkeypatch, 2).update()
    assert len((tmp_path / "asked").read_text().splitlines()) == 3


def test_the_first_error_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(BoardUnreachable, match="apt-get update: E: Failed to fetch the list: connection reset"):
        packages_of(tmp_path, monkeypatch, 3).update()
