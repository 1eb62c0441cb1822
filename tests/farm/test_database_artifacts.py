"""An artifact store belongs to one database."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from qverify.cli.main import main
from qverify.errors import UsageError
from qverify_farm.store.artifacts import open_artifacts
from qverify_farm.store.database import Database, open_database
from qverify_farm.store.database_artifacts import OWNER_NAME, open_database_artifacts


@pytest.fixture
def first(tmp_path: Path):
    database = open_database(str(tmp_path / "one" / "farm.db"))
    yield database
    database.close()


@pytest.fixture
def second(tmp_path: Path):
    database = open_database(str(tmp_path / "two" / "farm.db"))
    yield database
    database.close()


def test_by_default_it_is_beside_the_database(first: Database, tmp_path: Path) -> None:
    store = open_database_artifacts(first)
    assert store.url == str(tmp_path / "one" / "artifacts")
    assert os.stat(store.url).st_mode & 0o777 == 0o700


@pytest.mark.parametrize("kind", ["folder", "memory"])
def test_another_database_is_refused(first: Database, second: Database, tmp_path: Path, kind: str) -> None:
    url = str(tmp_path / "store") if kind == "folder" else f"memory://{tmp_path}"
    stored = open_database_artifacts(first, url).put_bytes(b"abc")
    with pytest.raises(UsageError, match=r"it has the artifacts of sqlite:.*one/farm\.db.*Next: give --artifacts"):
        open_database_artifacts(second, url)
    again = open_database_artifacts(first, url)
    assert again.read(stored.sha256) == b"abc" and [one.sha256 for one, _ in again.entries()] == [stored.sha256]


def test_a_moved_or_a_replaced_database_keeps_its_store(first: Database, tmp_path: Path) -> None:
    store = open_database_artifacts(first)
    first.close()
    moved = tmp_path / "three" / "farm.db"
    moved.parent.mkdir()
    os.rename(tmp_path / "one" / "farm.db", moved)  # the same projects at another place
    database = open_database(str(moved))
    open_database_artifacts(database, store.url)
    assert b"three" in (store.read_note(OWNER_NAME) or b"")
    database.close()
    moved.unlink()
    database = open_database(str(moved))  # a new one at the same place
    open_database_artifacts(database, store.url)
    database.close()


@pytest.mark.parametrize("note", [b"", b"{", b"[]", b"{}", b"[" * 4000])
def test_an_owner_that_cannot_be_read_is_refused(first: Database, note: bytes) -> None:
    store = open_artifacts(str(first.folder / "artifacts") if first.folder else "")
    store.write_note(OWNER_NAME, note)
    with pytest.raises(UsageError, match="it has the artifacts of another database"):
        open_database_artifacts(first)


def test_a_suite_beside_the_store_of_another_database_is_refused(
    first: Database, tmp_path: Path, capsys: pytest.CaptureFixture[str], digits: Path
) -> None:
    store = open_database_artifacts(first)
    suite = tmp_path / "suite.toml"
    suite.write_text(f'models = ["{digits / "digits_quant.onnx"}"]\nboards = ["local"]\n')
    words = ["suite", "run", str(suite), "--database", str(tmp_path / "new.db"), "--artifacts", store.url]
    assert main(words) == 2
    assert "it has the artifacts of sqlite:" in capsys.readouterr().err
