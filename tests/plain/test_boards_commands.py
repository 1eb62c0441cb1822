"""The commands that speak to a board without running a model take its login and patience as all others do."""

from __future__ import annotations

import pytest
from qverify.cli.main import main


@pytest.mark.parametrize("command", ["check", "info", "break", "clean", "reset"])
def test_how_a_board_is_reached_is_said_the_same_way(command, capsys):
    words = ["boards", command, "nobody@127.0.0.1:1", "--user", "x", "--wait", "0", "--accept-new-host-key"]
    assert main([*words, "--timeout", "3", "--ssh-backend", "paramiko"]) in (2, 3)
    printed = capsys.readouterr()
    told = (printed.out + printed.err).strip()
    assert len(told.splitlines()) == 1 and ("Connection refused" in told or "no reset or power" in told), told
