"""The openssh backend: what the address says of keys holds there, too, and its master connection ends with us."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from qverify_agents.address import parse
from qverify_agents.deadline import Deadline
from qverify_agents.errors import BadAddress, BoardUnreachable
from qverify_agents.links.ssh import open_shell

from tests.links.servers import SSHD, Server, keygen

pytestmark = pytest.mark.skipif(SSHD is None, reason="no sshd on this machine")


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    made = Server("openssh", tmp_path)
    made.trust()
    try:
        yield made
    finally:
        made.close()


def says(server: Server, options: str = "&backend=openssh") -> bytes:
    shell = open_shell(parse(server.board + options), Deadline(20))
    try:
        return shell.run("echo hello", Deadline(10)).out
    finally:
        shell.close()


def host_key(path: Path) -> str:
    return " ".join(path.read_text().split()[:2])


def test_a_pinned_host_key_decides_alone(server, tmp_path):
    keygen(tmp_path / "other")
    wrong, right = (f"&backend=openssh&host_key={host_key(tmp_path / name)}" for name in ("other.pub", "host.pub"))
    for more in ("", "&accept_new_host_key=1"):
        with pytest.raises(BoardUnreachable, match="ssh says"):
            says(server, wrong + more)
    server.known.write_text("")
    assert says(server, right) == b"hello\n"
    assert server.known.read_text() == ""


@pytest.mark.parametrize("backend", ["paramiko", "openssh"])
def test_the_identity_of_an_address_is_used(backend, server, tmp_path):
    server.config.write_text(server.config.read_text().replace(str(server.key), "/nonexistent"))
    folder = tmp_path / "100% mine"
    folder.mkdir()
    (folder / "key").write_bytes(server.key.read_bytes())
    (folder / "key").chmod(0o600)
    with pytest.raises(BoardUnreachable):
        says(server, f"&backend={backend}")
    assert says(server, f"&backend={backend}&identity={folder}/key".replace("%", "%25")) == b"hello\n"
    with pytest.raises(BadAddress, match="identity=~/nope: no such file"):
        says(server, f"&backend={backend}&identity=~/nope")
