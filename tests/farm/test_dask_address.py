"""Addresses, certificates and versions of a farm's scheduler and workers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from qverify.cli.main import main
from qverify.errors import UsageError
from qverify_farm.engines import dask_versions
from qverify_farm.engines.dask import reached_by
from qverify_farm.engines.dask_address import TlsFiles, checked_address, is_loopback, tls_files
from qverify_farm.engines.open_engine import open_engine

TLS = TlsFiles("ca.pem", "cert.pem", "key.pem")


@pytest.mark.parametrize(
    ("given", "tls", "checked"),
    [
        ("127.0.0.1:8786", None, "tcp://127.0.0.1:8786"),
        ("tcp://localhost:1", None, "tcp://localhost:1"),
        ("tcp://[::1]:65535", None, "tcp://[::1]:65535"),
        ("lab.example:8786", TLS, "tls://lab.example:8786"),
        ("tls://10.0.0.1:8786", TLS, "tls://10.0.0.1:8786"),
    ],
)
def test_addresses(given: str, tls: TlsFiles | None, checked: str) -> None:
    assert checked_address(given, tls) == checked


@pytest.mark.parametrize(
    ("given", "tls", "why"),
    [
        ("tcp://10.0.0.1:8786", None, "who reaches a scheduler can run programs"),
        ("0.0.0.0:8786", None, "who reaches a scheduler can run programs"),
        ("tcp://localhost.example:8786", None, "who reaches a scheduler can run programs"),
        ("tls://10.0.0.1:8786", None, "give --tls-ca, --tls-cert and --tls-key, too"),
        ("tcp://127.0.0.1:8786", TLS, "it is not encrypted"),
        ("127.0.0.1", None, "wanted the scheduler's address"),
        ("127.0.0.1:0", None, "wanted the scheduler's address"),
        ("127.0.0.1:65536", None, "wanted the scheduler's address"),
        ("http://127.0.0.1:80", None, "wanted the scheduler's address"),
        ("tcp://user@127.0.0.1:80", None, "wanted the scheduler's address"),
        ("ucx://127.0.0.1:80", None, "wanted the scheduler's address"),
    ],
)
def test_addresses_that_are_refused(given: str, tls: TlsFiles | None, why: str) -> None:
    with pytest.raises(UsageError, match=why):
        checked_address(given, tls)


def test_loopback() -> None:
    assert all(map(is_loopback, ("127.0.0.1", "127.8.8.8", "localhost", "::1", "[::1]")))
    assert not any(map(is_loopback, ("0.0.0.0", "::", "10.0.0.1", "example", "", "127.0.0.1.example")))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"workers": "tcp://127.0.0.1:1", "addresses": ("local",)}, "-b is a board of this host"),
        (
            {"tls": ("/no", None, None)},
            "--workers-tls-ca, --workers-tls-cert and --workers-tls-key are for --workers tls://",
        ),
        (
            {"workers": "tls://h:1", "tls": ("/no", None, None)},
            "--workers-tls-cert is missing: TLS takes --workers-tls-ca,",
        ),
        ({"workers": "tls://h:1"}, "tls://h:1: give --workers-tls-ca, --workers-tls-cert and --workers-tls-key"),
        ({"workers": ""}, "'': wanted the scheduler's address"),
    ],
)
def test_options_without_effect_are_refused(options: dict[str, Any], words: str) -> None:
    with pytest.raises(UsageError) as raised:
        open_engine(**options, tls_prefix="--workers-tls")
    assert str(raised.value).startswith(words)


def test_tls_files(tmp_path: Path) -> None:
    paths = [tmp_path / name for name in ("ca", "cert", "key")]
    for path in paths:
        path.touch()
    ca, cert, key = map(str, paths)
    assert tls_files(None, None, None) is None
    assert tls_files(ca, cert, key) == TlsFiles(ca, cert, key)
    with pytest.raises(UsageError, match="--tls-key is missing"):
        tls_files(ca, cert, None)
    with pytest.raises(UsageError, match=r"--tls-cert .*nowhere: cannot be read"):
        tls_files(ca, "nowhere", key)


def test_versions() -> None:
    ours = dask_versions.own_versions()
    assert dask_versions.describe_difference(ours, "it") == ""
    said = dask_versions.describe_difference({**ours, "Python": "2.7"}, "the scheduler")
    assert (
        said == f"the scheduler has other versions: Python 2.7 there, {ours['Python']} here; install the same on both"
    )
    assert "qverify unknown there" in dask_versions.describe_difference({}, "it")


def test_boards_reached_by_workers() -> None:
    """A board that two workers reach belongs to the first; a worker with other versions has no boards."""
    row: dict[str, Any] = {"name": "desk", "address": "local", "tags": {"soc": "j5"}, "host": "lab1"}
    good, old = dask_versions.own_versions(), dask_versions.own_versions() | {"qverify": "0.0.1"}
    workers = {
        "tcp://b": {
            "name": "two",
            "qverify": {"boards": [{**row, "host": "lab2"}, {**row, "name": "shelf"}], "versions": good},
        },
        "tcp://a": {"name": "one", "qverify": {"boards": [row], "versions": good}},
        "tcp://c": {"name": "old", "qverify": {"boards": [{**row, "name": "lost"}], "versions": old}},
        "tcp://d": {"name": "foreign"},
    }
    reached = reached_by(workers)
    assert {name: board.host for name, board in reached.boards.items()} == {"desk": "lab1", "shelf": "lab1"}
    assert reached.workers == {"desk": "tcp://a", "shelf": "tcp://b"}
    assert "qverify 0.0.1 there" in reached.refused["old"] and "foreign" in reached.refused


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["--scheduler", "tcp://10.0.0.1:8786", "-b", "local"], "who reaches a scheduler can run programs"),
        (["--scheduler", "127.0.0.1:8786", "--boards", "nosuch"], "nosuch: not in boards.toml"),
        (["--scheduler", "127.0.0.1:8786"], "no boards"),
        (["--scheduler", "tls://h:1", "--tls-ca", "ca"], "--tls-cert is missing"),
    ],
)
def test_workers_that_are_refused(
    words: list[str], why: str, capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "boards.toml").touch()
    monkeypatch.setenv("QVERIFY_BOARDS", str(tmp_path / "boards.toml"))
    assert main(["worker", *words]) == 2
    printed = capsys.readouterr().err
    assert why in printed and printed.count("\n") == 1
