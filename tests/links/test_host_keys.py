"""Which host key is believed: pinned ones, and known_hosts as OpenSSH reads it."""

from __future__ import annotations

import base64
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from qverify_agents.address import parse
from qverify_agents.deadline import Deadline
from qverify_agents.errors import BoardUnreachable
from qverify_agents.links.ssh import open_shell
from qverify_agents.ssh.host_keys import HostKeys
from qverify_agents.ssh.host_settings import resolve

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


OTHER = base64.b64encode(b"\0\0\0\x0bssh-ed25519\0\0\0\x20" + b"o" * 32).decode()


@pytest.mark.parametrize(
    "line",
    [
        f"@cert-authority *.example.com ssh-ed25519 {OTHER}",
        f"@revoked * ssh-ed25519 {OTHER}",
        "127.0.0.1 ssh-ed25519 not/base64=",
        "|1|not|base64 ssh-ed25519 AAAA",
        "@marker-of-tomorrow * ssh-ed25519 AAAA",
        "one",
        "",
    ],
)
@pytest.mark.parametrize("pinned", [False, True])
def test_other_lines_of_known_hosts_disturb_nothing(line, pinned, server, tmp_path):
    pin = f"&host_key={' '.join(server.known.split()[1:])}" if pinned else ""
    logs_in(server, tmp_path, f"{line}\n{'' if pinned else server.known}", pin)


def test_any_key_of_a_host_is_right(server, tmp_path):
    """Two boards take turns at an address; the second line is ours."""
    other = server.known.split()[0] + f" ssh-ed25519 {OTHER}\n"
    logs_in(server, tmp_path, other + other.replace("ed25519", "rsa") + server.known)
    with pytest.raises(BoardUnreachable, match="REMOTE HOST IDENTIFICATION HAS CHANGED"):
        logs_in(server, tmp_path, other + other)


def test_a_revoked_key_stops_though_it_is_known(server, tmp_path):
    with pytest.raises(BoardUnreachable, match="which is revoked in"):
        logs_in(server, tmp_path, f"{server.known}@revoked * {' '.join(server.known.split()[1:])}\n")


def test_a_host_of_a_certificate_authority_is_for_the_other_backend(server, tmp_path):
    line = f"@cert-authority [127.0.0.1]:* ssh-ed25519 {OTHER}\n"
    with pytest.raises(BoardUnreachable, match="--ssh-backend openssh"):
        logs_in(server, tmp_path, line, "&accept_new_host_key=1")
    logs_in(server, tmp_path, line + server.known)


@pytest.mark.parametrize(
    ("hosts", "fits"),
    [
        ("board.lab", True),
        ("BOARD.Lab", True),
        ("*.lab", True),
        ("other,boar?.lab", True),
        ("*.lab,!board.lab", False),
        ("board", False),
        ("[board.lab]:22", False),
    ],
)
def test_names_of_known_hosts(hosts, fits, tmp_path):
    (tmp_path / "known").write_text(f"{hosts} ssh-ed25519 {OTHER}\n")
    keys = HostKeys("board", "board.lab", (str(tmp_path / "known"),), "", accept_new=False)
    assert keys.preferred_algorithms() == (["ssh-ed25519"] if fits else [])


def test_a_hashed_name_is_found(server, tmp_path):
    (tmp_path / "known").write_text(server.known)
    subprocess.run(["ssh-keygen", "-q", "-H", "-f", tmp_path / "known"], check=True, capture_output=True, timeout=20)
    hashed = (tmp_path / "known").read_text()
    assert hashed.startswith("|1|")
    logs_in(server, tmp_path, hashed)


def test_the_case_of_a_host_says_nothing(tmp_path):
    (tmp_path / "config").write_text("Host board\n  HostName BOARD.Lab\n")
    assert resolve("Board.LAB:2222", str(tmp_path / "config")).known_as == "[board.lab]:2222"


def test_an_unknown_key_comes_with_the_command_that_adds_it(server, tmp_path):
    folder = tmp_path / "it's"
    folder.mkdir()
    (folder / "known").touch()
    (folder / "config").write_text(
        f'Host board\n  User me\n  UserKnownHostsFile "{folder}/known"\n  HostName 127.0.0.1\n'
    )
    board = parse(f"board:{server.port}?ssh_config={folder}/config")
    with pytest.raises(BoardUnreachable, match="--accept-new-host-key once") as caught:
        open_shell(board, Deadline(10))
    command = str(caught.value).partition(", or: ")[2]
    assert command.startswith(f"ssh-keyscan -t ecdsa -p {server.port} 127.0.0.1 >> ")
    subprocess.run(["sh", "-c", command], check=True, capture_output=True, timeout=30)
    open_shell(board, Deadline(10)).close()
