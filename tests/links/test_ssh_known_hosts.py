"""Host keys of boards behind SSH, known, unknown and changed, in runs of qverify."""

from __future__ import annotations

import subprocess

import pytest

from tests.links.password_server import PasswordServer
from tests.links.servers import keygen
from tests.links.ssh_boards import OPENSSH, run


def test_an_unknown_host_is_refused_with_its_fingerprint_and_learnt_when_asked(server, digits, capsys):
    server.known.unlink()
    assert run(digits, server.board) == 3
    printed = capsys.readouterr().err
    assert "SHA256:" in printed and "--accept-new-host-key" in printed and not server.known.exists()
    assert run(digits, server.board, "--accept-new-host-key") == 0
    assert run(digits, server.board) == 0


def test_a_changed_host_key_always_stops(server, digits, tmp_path, capsys):
    keygen(tmp_path / "other")
    kind, blob = (tmp_path / "other.pub").read_text().split()[:2]
    server.known.write_text(f"[127.0.0.1]:{server.port} {kind} {blob}\n")
    assert run(digits, server.board, "--accept-new-host-key") == 3
    assert "REMOTE HOST IDENTIFICATION HAS CHANGED" in capsys.readouterr().err
    assert run(digits, f"{server.board}&host_key={kind} {blob}") == 3
    assert "the inventory pins" in capsys.readouterr().err
    right = " ".join((server.folder / "host.pub").read_text().split()[:2])
    assert run(digits, f"{server.board}&host_key={right}") == 0


@OPENSSH
@pytest.mark.parametrize("backend", ["paramiko", "openssh"])
def test_a_host_key_alias_is_known_as_the_real_ssh_knows_it(backend, openssh, digits):
    """Both record the key under the bare alias, and each finds what the other recorded."""
    openssh.write_config("  HostKeyAlias the-board\n")
    right, ssh = openssh.known.read_text().partition(" ")[2], ["ssh", "-F", str(openssh.config), "-o", "BatchMode=yes"]
    openssh.known.unlink()
    accept = [*ssh, "-o", "StrictHostKeyChecking=accept-new", "-o", "HashKnownHosts=no", "testboard", "true"]
    subprocess.run(accept, check=True, capture_output=True, timeout=20)
    assert f"the-board {right}" in openssh.known.read_text()
    assert run(digits, f"{openssh.board}&backend={backend}") == 0
    openssh.known.unlink()
    assert run(digits, f"{openssh.board}&backend={backend}", "--accept-new-host-key") == 0
    assert f"the-board {right}" in openssh.known.read_text()
    strict = [*ssh, "-o", "StrictHostKeyChecking=yes", "testboard", "true"]
    subprocess.run(strict, check=True, capture_output=True, timeout=20)


def test_a_server_with_sha1_host_keys_only_gets_a_hint(digits, tmp_path, capsys):
    server = PasswordServer(sha1_only=True)
    try:
        status = run(
            digits, f"127.0.0.1:{server.port}?host_key={' '.join(server.known.split()[1:])}", "--timeout", "10"
        )
        assert status == 3
        error = capsys.readouterr().err
        assert len(error.strip().splitlines()) == 1 and ("ssh-rsa" in error or "refuses user" in error)
    finally:
        server.close()
