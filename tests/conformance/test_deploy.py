"""The agent onto a board, by a shell of this machine whose `uname -m` misleads."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from qverify_agents.address import Address, parse
from qverify_agents.binaries import host_architecture
from qverify_agents.command_shell import CommandShell
from qverify_agents.deadline import Deadline
from qverify_agents.deploy import deploy
from qverify_agents.errors import BoardUnreachable, LinkClosed


@pytest.fixture
def shell(tmp_path: Path) -> CommandShell:
    """Its machine is a vax."""
    (tmp_path / "uname").write_text("#!/bin/sh\necho vax\n")
    (tmp_path / "uname").chmod(0o755)
    return CommandShell(["/usr/bin/env", f"PATH={tmp_path}:{os.environ['PATH']}", "/bin/sh", "-c"])


def board(cache: Path, more: str = "") -> Address:
    return parse(f"h?cache={cache}{more}")


def test_an_unknown_machine_is_refused_until_the_address_says_which(shell: CommandShell, tmp_path: Path) -> None:
    cache, here = tmp_path / "cache", host_architecture()
    with pytest.raises(BoardUnreachable, match="h is vax; the runtime is built for"):
        deploy(shell, "h", Deadline(20), board(cache))
    found = deploy(shell, "h", Deadline(20), board(cache, f"&arch={here}"))
    assert found.name.startswith(f"qvrt-{here}-") and found.pushed_bytes > 100_000
    assert deploy(shell, "h", Deadline(20), board(cache, f"&arch={here}")).pushed_bytes == 0


def test_a_command_that_does_not_stop_talking_is_cut_off(shell: CommandShell) -> None:
    with pytest.raises(LinkClosed, match="more than 1048576 bytes"):
        shell.run("yes", Deadline(20))
    done = shell.run("cat; echo two >&2; exit 7", Deadline(20), b"one")
    assert (done.status, done.out, done.err) == (7, b"one", b"two\n")
    assert shell.run("exit 3", Deadline(20), bytes(1 << 20)).status == 3  # it reads nothing of that
