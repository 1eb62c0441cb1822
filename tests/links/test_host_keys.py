"""Which host key is believed: pinned ones, and known_hosts as OpenSSH reads it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from qverify_agents.address import parse
from qverify_agents.deadline import Deadline
from qverify_agents.links.ssh import open_shell

from tests.links.password_server import PasswordServer


@pytest.fixture(scope="module")
def server() -> Iterator[PasswordServer]:
    made = PasswordServer()
    try:
        yield made
    finally:
        made.close()


@pytest.fixture(autouse=True)
def password(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("QVERIFY_SSH_PASSWORD", "s3cret")


def logs_in(server: PasswordServer, folder: Path, known: str, options: str = "") -> None:
    (folder / "known").write_text(known)
    (folder / "config").write_text(
        f"Host *\n  User me\n  IdentitiesOnly yes\n  IdentityFile /nonexistent\n  UserKnownHostsFile {folder}/known\n"
        "  GlobalKnownHostsFile /dev/null\n"
    )
    where = f"127.0.0.1:{server.port}?ssh_config={folder}/config{options}"
    open_shell(parse(where), Deadline(10)).close()


def test_a_board_known_by_its_rsa_key_shows_that_one(server, tmp_path):
    logs_in(server, tmp_path, server.known)


def test_a_board_pinned_by_its_rsa_key_shows_that_one(server, tmp_path):
    logs_in(server, tmp_path, "", f"&host_key={' '.join(server.known.split()[1:])}")
