"""Passwords and passphrases from the environment: for the board alone, and in no output."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.links.password_server import PasswordServer
from tests.links.servers import keygen
from tests.links.ssh_boards import OPENSSH, run


@OPENSSH
def test_an_encrypted_key(openssh, digits, tmp_path, monkeypatch, capsys):
    keygen(tmp_path / "locked", "open sesame")
    openssh.key = tmp_path / "locked"
    openssh.write_config()
    (tmp_path / "authorized_keys").write_bytes((tmp_path / "locked.pub").read_bytes())
    assert run(digits, openssh.board) == 3
    assert "refuses user" in capsys.readouterr().err
    monkeypatch.setenv("QVERIFY_SSH_PASSPHRASE", "wrong")
    assert run(digits, openssh.board) == 3
    assert "wrong passphrase" in capsys.readouterr().err
    monkeypatch.setenv("QVERIFY_SSH_PASSPHRASE", "open sesame")
    assert run(digits, openssh.board) == 0


@pytest.mark.parametrize("method", ["password", "keyboard-interactive"])
def test_a_password_from_the_environment_and_in_no_output(method, digits, tmp_path, monkeypatch, capsys):
    server = PasswordServer(method)
    try:
        config = tmp_path / "config"
        (tmp_path / "known").write_text(server.known)
        config.write_text(
            f"Host *\n  User me\n  IdentitiesOnly yes\n  IdentityFile /nonexistent\n  UserKnownHostsFile {tmp_path}/known\n"
        )
        board = f"127.0.0.1:{server.port}?ssh_config={config}&cache={tmp_path}/cache&lock={tmp_path}/lock"
        assert run(digits, board) == 3
        assert "QVERIFY_SSH_PASSWORD" in capsys.readouterr().err
        monkeypatch.setenv("QVERIFY_SSH_PASSWORD", "wr0ng")
        assert run(digits, board) == 3
        printed = capsys.readouterr()
        assert "refuses user me (tried password" in printed.err and "wr0ng" not in printed.out + printed.err
        monkeypatch.setenv("QVERIFY_SSH_PASSWORD", "s3cret")
        assert run(digits, board) == 0
        printed = capsys.readouterr()
        assert "s3cret" not in printed.out + printed.err
    finally:
        server.close()


@pytest.fixture
def password_server() -> Iterator[PasswordServer]:
    made = PasswordServer()
    try:
        yield made
    finally:
        made.close()


@OPENSSH
def test_the_boards_password_is_for_the_board(openssh, password_server, digits, monkeypatch, capsys):
    """Behind a jump host that takes a key, the board gets it."""
    monkeypatch.setenv("QVERIFY_SSH_PASSWORD", "s3cret")
    with openssh.known.open("a") as known:
        known.write(password_server.known)
    openssh.write_config(_behind("testboard", password_server.port, openssh.known))
    assert run(digits, openssh.board.replace("testboard", "behind")) == 0
    assert set(password_server.offered) == {"s3cret"}


@pytest.mark.parametrize("method", ["password", "keyboard-interactive"])
@pytest.mark.parametrize("hops", ["jump", "jump,jump", "me@jump"])
def test_the_boards_password_is_never_offered_to_a_jump_host(hops, method, digits, tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("QVERIFY_SSH_PASSWORD", "s3cret")
    jump = PasswordServer(method)
    try:
        (tmp_path / "known").write_text(jump.known)
        (tmp_path / "config").write_text(
            f"Host jump\n  HostName 127.0.0.1\n  Port {jump.port}\n  UserKnownHostsFile {tmp_path}/known\n  User me\n"
            f"  IdentitiesOnly yes\n  IdentityFile /nonexistent\n{_behind(hops, 1, tmp_path / 'known')}"
        )
        assert run(digits, f"behind?ssh_config={tmp_path}/config") == 3
        printed = capsys.readouterr()
        assert (
            "jump: 127.0.0.1 refuses user me (tried nothing" in printed.err
            and "a key for this jump host" in printed.err
        )
        assert jump.offered == [] and "s3cret" not in printed.out + printed.err
    finally:
        jump.close()


def _behind(hops: str, port: int, known: Path) -> str:
    """Returns an ssh configuration with a host that takes passwords, reached through other hosts."""
    return (
        f"Host behind\n  HostName 127.0.0.1\n  Port {port}\n  User me\n  IdentitiesOnly yes\n  IdentityFile /nonexistent\n"
        f"  UserKnownHostsFile {known}\n  ProxyJump {hops}\n"
    )
