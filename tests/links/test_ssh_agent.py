"""Keys of an ssh-agent: those the configuration names first, and no more than the openssh lets try."""

from __future__ import annotations

import os
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from qverify_agents.errors import BoardUnreachable

from tests.links.servers import SSHD, keygen, said_by

pytestmark = pytest.mark.skipif(SSHD is None, reason="no sshd on this machine")


@pytest.fixture
def agent(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with tempfile.TemporaryDirectory(prefix="q", dir="/tmp") as folder:
        command = ["ssh-agent", "-D", "-a", f"{folder}/agent"]
        with subprocess.Popen(command, stdout=subprocess.DEVNULL) as process:
            end = time.monotonic() + 10
            while not os.path.exists(f"{folder}/agent") and time.monotonic() < end:
                time.sleep(0.02)
            monkeypatch.setenv("SSH_AUTH_SOCK", f"{folder}/agent")
            yield
            process.terminate()


def add(key: Path) -> None:
    """To the agent, and locked with a word that nobody knows."""
    subprocess.run(["ssh-add", "-q", key], check=True, capture_output=True, timeout=20)
    words = ["ssh-keygen", "-q", "-p", "-P", "", "-N", "nobody knows", "-f", key]
    subprocess.run(words, check=True, capture_output=True, timeout=20)


@pytest.mark.parametrize("kept", [("client", "client.pub"), ("client",), ("client.pub",)], ids="+".join)
def test_identities_only_takes_the_agents_key_of_that_identity(kept, agent, openssh, tmp_path):
    """Among others, more than the openssh lets try."""
    for number in range(7):
        keygen(tmp_path / f"other{number}")
        add(tmp_path / f"other{number}")
    add(openssh.key)
    for name in {"client", "client.pub"} - set(kept):
        (tmp_path / name).unlink()
    assert said_by(openssh) == b"hello\n"
    openssh.config.write_text(openssh.config.read_text().replace("IdentitiesOnly yes", "IdentitiesOnly no"))
    assert said_by(openssh) == b"hello\n"


def test_more_keys_than_the_server_lets_try_is_said(agent, openssh, tmp_path):
    for number in range(7):
        keygen(tmp_path / f"other{number}")
        add(tmp_path / f"other{number}")
    lines = [line for line in openssh.config.read_text().splitlines() if "Identit" not in line]
    openssh.config.write_text("\n".join([*lines, "  IdentityFile /none\n"]))
    with pytest.raises(
        BoardUnreachable, match=r"hung up at login attempt \d .*ssh-agent.*Next: name the right key, by identity=FILE"
    ):
        said_by(openssh)
